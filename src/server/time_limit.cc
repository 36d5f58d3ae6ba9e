#include "server/time_limit.h"

#include <utility>
#include <vector>

namespace lares::server {

class TimeLimit::Watched final : public Exchange, public std::enable_shared_from_this<Watched> {
 public:
  Watched(std::shared_ptr<Exchange> inner, TakeOver take_over)
      : inner_(std::move(inner)), take_over_(std::move(take_over)) {}

  [[nodiscard]] const HttpRequest& request() const override { return inner_->request(); }

  void respond(HttpResponse response) override {
    if (claim(At::Answered)) inner_->respond(std::move(response));
  }
  void begin_stream(int status, std::string content_type, Headers headers) override {
    if (claim(At::Answered))
      inner_->begin_stream(status, std::move(content_type), std::move(headers));
  }
  void send(std::string data) override {
    if (!taken()) inner_->send(std::move(data));
  }
  void end_stream() override {
    if (!taken()) inner_->end_stream();
  }
  void on_disconnect(std::function<void()> callback) override {
    {
      const std::scoped_lock lock(mutex_);
      if (at_ != At::Taken) gone_ = callback;
    }
    // Taken away before its route was ready to hear of it: the same.
    if (taken()) return callback();
    inner_->on_disconnect([self = weak_from_this(), callback = std::move(callback)] {
      const auto alive = self.lock();
      if (alive && !alive->taken()) callback();
    });
  }

  void take_away() {
    if (!claim(At::Taken)) return;
    std::function<void()> gone;
    {
      const std::scoped_lock lock(mutex_);
      gone = std::exchange(gone_, nullptr);
    }
    take_over_(inner_);
    if (gone) gone();
  }

 private:
  enum class At : std::uint8_t { Waiting, Answered, Taken };

  bool claim(At at) {
    const std::scoped_lock lock(mutex_);
    if (at_ != At::Waiting) return false;
    at_ = at;
    if (at == At::Answered) gone_ = nullptr;
    return true;
  }
  bool taken() {
    const std::scoped_lock lock(mutex_);
    return at_ == At::Taken;
  }

  const std::shared_ptr<Exchange> inner_;
  const TakeOver take_over_;
  std::mutex mutex_;
  At at_ = At::Waiting;
  std::function<void()> gone_;
};

std::shared_ptr<Exchange> TimeLimit::watch(const std::shared_ptr<Exchange>& exchange, Instant now,
                                           TakeOver take_over) {
  auto watched = std::make_shared<Watched>(exchange, std::move(take_over));
  const std::scoped_lock lock(mutex_);
  entries_.push_back({now + limit_, watched});
  return watched;
}

void TimeLimit::look(Instant now) {
  std::vector<std::shared_ptr<Watched>> late;
  {
    const std::scoped_lock lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      auto exchange = it->exchange.lock();
      const bool over = exchange && now >= it->until;
      if (exchange && !over) {
        ++it;
        continue;
      }
      if (over) late.push_back(std::move(exchange));
      it = entries_.erase(it);
    }
  }
  for (const auto& exchange : late) {
    if (!waits_ || waits_(exchange->request())) exchange->take_away();
  }
}

}  // namespace lares::server
