// One exchange and the hub: the part of the server that other threads touch.
#include <charconv>
#include <ctime>

#include <fmt/format.h>
#include <boost/asio/post.hpp>

#include "core/assert.h"
#include "server/http_beast.h"

namespace lares::server::beast_http {
namespace {

void append_chunk(std::string& out, std::string_view data) {
  std::array<char, 18> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16).ptr;
  out.append(size.data(), end);
  out += "\r\n";
  out += data;
  out += "\r\n";
}

bool has_no_body(int status) {
  return status == 204 || status == 304;
}

}  // namespace

void Hub::schedule(std::shared_ptr<BeastExchange> exchange) {
  const std::scoped_lock lock(mutex_);
  if (io_ == nullptr) return;
  ready_.push_back(std::move(exchange));
  if (posted_) return;
  posted_ = true;
  asio::post(*io_, [self = shared_from_this()] { self->drain(); });
}

void Hub::run(std::function<void()> callback) {
  const std::scoped_lock lock(mutex_);
  if (io_ != nullptr) asio::post(*io_, std::move(callback));
}

void Hub::close() {
  std::vector<std::shared_ptr<BeastExchange>> dropped;  // Destroyed after the lock is given up.
  const std::scoped_lock lock(mutex_);
  io_ = nullptr;
  dropped.swap(ready_);
}

void Hub::drain() {
  {
    const std::scoped_lock lock(mutex_);
    posted_ = false;
    draining_.swap(ready_);
  }
  for (const auto& exchange : draining_) {
    if (const auto connection = exchange->connection()) connection->exchange_ready(*exchange);
  }
  draining_.clear();
}

BeastExchange::BeastExchange(std::shared_ptr<Hub> hub, std::weak_ptr<Connection> connection,
                             HttpRequest request, Framing framing, std::uint64_t buffer_max)
    : hub_(std::move(hub)),
      connection_(std::move(connection)),
      request_(std::move(request)),
      framing_(framing),
      buffer_max_(buffer_max) {}

// Gives the lock up before it takes the hub's.
void BeastExchange::wake(std::unique_lock<std::mutex> lock) {
  if (scheduled_) return;
  scheduled_ = true;
  lock.unlock();
  hub_->schedule(shared_from_this());
}

void BeastExchange::respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (gone_) return;
  LARES_ASSERT(state_ == State::Waiting, "{} answered twice", request_.path);
  Headers headers = std::move(response.headers);
  headers.emplace_back("Date", http_date(std::time(nullptr)));
  if (!has_no_body(response.status)) {
    headers.emplace_back("Content-Type", std::move(response.content_type));
    headers.emplace_back("Content-Length", std::to_string(response.body.size()));
  }
  if (!framing_.keep_alive) headers.emplace_back("Connection", "close");
  head_ = response_head(response.status, headers);
  if (!framing_.head_only && !has_no_body(response.status)) pending_ = std::move(response.body);
  state_ = State::Finished;
  wake(std::move(lock));
}

void BeastExchange::begin_stream(int status, std::string content_type, Headers headers) {
  std::unique_lock lock(mutex_);
  if (gone_) return;
  LARES_ASSERT(state_ == State::Waiting, "{} answered twice", request_.path);
  headers.emplace_back("Date", http_date(std::time(nullptr)));
  headers.emplace_back("Content-Type", std::move(content_type));
  headers.emplace_back("Cache-Control", "no-cache");
  if (framing_.chunks) headers.emplace_back("Transfer-Encoding", "chunked");
  if (!framing_.keep_alive) headers.emplace_back("Connection", "close");
  head_ = response_head(status, headers);
  state_ = State::Streaming;
  streamed_ = true;
  wake(std::move(lock));
}

void BeastExchange::send(std::string data) {
  std::unique_lock lock(mutex_);
  if (gone_ || overflow_ || data.empty()) return;
  LARES_ASSERT(state_ == State::Streaming, "send to {} outside of a stream", request_.path);
  if (framing_.head_only) return;
  if (pending_.size() + in_flight_ + data.size() > buffer_max_) {
    overflow_ = true;
    pending_ = {};
    scheduled_ = false;  // The writer may be waiting for the socket: tell it again.
  } else if (pending_.empty()) {
    pending_ = std::move(data);
  } else {
    pending_ += data;
  }
  wake(std::move(lock));
}

void BeastExchange::end_stream() {
  std::unique_lock lock(mutex_);
  if (gone_) return;
  LARES_ASSERT(state_ == State::Streaming, "end of a stream of {} that has not begun",
               request_.path);
  state_ = State::Finished;
  wake(std::move(lock));
}

void BeastExchange::on_disconnect(std::function<void()> callback) {
  {
    const std::scoped_lock lock(mutex_);
    if (completed_) return;
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
  }
  hub_->run(std::move(callback));
}

BeastExchange::Taken BeastExchange::take(std::string& out) {
  const std::scoped_lock lock(mutex_);
  scheduled_ = false;
  if (overflow_) return Taken::Overflow;
  const bool last = state_ == State::Finished;
  const bool chunked = streamed_ && framing_.chunks && !framing_.head_only;
  out += head_;
  if (chunked && !pending_.empty()) {
    append_chunk(out, pending_);
  } else {
    out += pending_;
  }
  if (chunked && last) out += "0\r\n\r\n";
  head_.clear();
  pending_.clear();
  in_flight_ = out.size();
  return last ? Taken::Last : Taken::More;
}

bool BeastExchange::finished() const {
  const std::scoped_lock lock(mutex_);
  return state_ == State::Finished;
}

bool BeastExchange::overflowed() const {
  const std::scoped_lock lock(mutex_);
  return overflow_;
}

void BeastExchange::complete() {
  std::function<void()> dropped;  // Outlives the lock: what it holds may call us as it goes.
  const std::scoped_lock lock(mutex_);
  gone_ = true;
  completed_ = true;
  dropped.swap(callback_);
}

void BeastExchange::abandon() {
  std::function<void()> callback;
  {
    const std::scoped_lock lock(mutex_);
    gone_ = true;
    callback.swap(callback_);
    head_ = {};
    pending_ = {};
  }
  if (callback) callback();
}

}  // namespace lares::server::beast_http
