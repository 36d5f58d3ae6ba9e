// Calls that wait for their answer, and what becomes of those that wait too long: the request is
// taken away from its route, which hears that its client has gone, and handed to somebody else, who
// answers it.
//
// Shared; any thread. Streams are left alone once they have begun.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "core/types.h"
#include "server/http.h"

namespace lares::server {

class TimeLimit {
 public:
  // Gets the exchange that waited too long; any thread.
  using TakeOver = std::function<void(const std::shared_ptr<Exchange>&)>;

  // Whether a late request may be taken away. Asked once, when it is late: most never are.
  using Waits = std::function<bool(const HttpRequest&)>;

  explicit TimeLimit(Duration limit, Waits waits = nullptr)
      : limit_(limit), waits_(std::move(waits)) {}

  // What its route is to answer in place of `exchange`.
  std::shared_ptr<Exchange> watch(const std::shared_ptr<Exchange>& exchange, Instant now,
                                  TakeOver take_over);
  // Takes away what has waited too long. Once in a while.
  void look(Instant now);

 private:
  class Watched;
  struct Entry {
    Instant until;
    std::weak_ptr<Watched> exchange;
  };

  const Duration limit_;
  const Waits waits_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // The oldest first.
};

}  // namespace lares::server
