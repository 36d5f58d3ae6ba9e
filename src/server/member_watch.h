// Notices what `lares member` writes while the server runs: looks at the data folder's database now
// and then, on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "store/members.h"

namespace lares::server {

class MemberWatch {
 public:
  using Changed = std::function<void(const std::vector<store::Member>&)>;

  // `members` are those that `store` held a moment ago; `changed` is called on the watch's thread
  // when there are others. A database that cannot be read is tried again; the members known stay.
  MemberWatch(store::MemberStore store, std::vector<store::Member> members, Duration period,
              Changed changed);
  ~MemberWatch() = default;  // Waits for the look that is being taken.
  MemberWatch(const MemberWatch&) = delete;
  MemberWatch& operator=(const MemberWatch&) = delete;

 private:
  void run(const std::stop_token& stop);
  void look();

  store::MemberStore store_;
  std::vector<store::Member> members_;
  const Duration period_;
  const Changed changed_;
  std::int64_t version_ = -1;  // Of the database, when it was last read.
  bool failing_ = false;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // Last: it uses what is above.
};

}  // namespace lares::server
