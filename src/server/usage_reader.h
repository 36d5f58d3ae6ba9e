// Answers questions to the usage ledger on a thread of its own: it reads the disk, and the I/O
// thread must not.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/result.h"
#include "server/answer.h"
#include "store/usage.h"

namespace lares::server {

class UsageReader {
 public:
  using Sum =
      std::function<Result<std::vector<store::UsageSum>>(store::UsageBy, std::optional<MemberId>)>;

  UsageReader(Sum sum, std::uint32_t queue_max);
  // Answers the question now running; those that wait are dropped with their connections.
  ~UsageReader();
  UsageReader(const UsageReader&) = delete;
  UsageReader& operator=(const UsageReader&) = delete;

  // Of everybody, or of one member. Any thread; returns at once. Busy (429) beyond `queue_max`.
  void ask(store::UsageBy by, std::optional<MemberId> of, const std::shared_ptr<Answer>& answer);
  // Anything else that reads the ledger: `question` gives the body, on the thread here.
  void ask(std::function<Result<std::string>()> question, std::shared_ptr<Answer> answer);

 private:
  struct Question {
    std::function<Result<std::string>()> body;
    std::shared_ptr<Answer> answer;
  };
  void run(const std::stop_token& stop);

  Sum sum_;
  const std::uint32_t queue_max_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Question> waiting_;
  std::jthread thread_;  // Last: it uses what is above.
};

// {"object":"list","by":"model","data":[{"key":...,...}]}
std::string usage_body(store::UsageBy by, const std::vector<store::UsageSum>& sums);

}  // namespace lares::server
