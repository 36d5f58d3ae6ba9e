// A server for tests whose answers the test gives: requests to /hold wait until they are taken.
//
// Tests only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "server/http.h"
#include "server/raw_client.h"

namespace lares::server {

class HttpHarness {
 public:
  explicit HttpHarness(HttpOptions options = {}) {
    options.port = 0;
    auto created = HttpServer::create(
        options, [this](const std::shared_ptr<Exchange>& exchange) { handle(exchange); });
    if (created) {
      server = std::move(*created);
    } else {
      ADD_FAILURE() << created.error().message;
    }
  }

  [[nodiscard]] RawClient client(int receive_buffer = 0) const {
    return RawClient(server->port(), receive_buffer);
  }

  // The next request to /hold.
  std::shared_ptr<Exchange> take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLimit, [this] { return !held_.empty(); })) {
      ADD_FAILURE() << "no request came";
      return nullptr;
    }
    auto out = std::move(held_.front());
    held_.pop_front();
    return out;
  }

  // Waits until `count` clients have gone.
  bool wait_disconnects(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return disconnects_ >= count; });
  }
  int disconnects() {
    const std::scoped_lock lock(mutex_);
    return disconnects_;
  }
  std::function<void()> count_disconnect() {
    return [this] {
      const std::scoped_lock lock(mutex_);
      ++disconnects_;
      changed_.notify_all();
    };
  }

  // Waits until so many connections are open: there is no event for it, so it asks again and again.
  [[nodiscard]] bool wait_connections(std::uint64_t count) const {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (server->connections() != count) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::unique_ptr<HttpServer> server;

 private:
  static constexpr auto kLimit = std::chrono::seconds(20);

  void handle(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.path != "/hold") {
      HttpResponse response;
      response.content_type = "text/plain";
      response.body =
          request.method + " " + request.path + "?" + request.query + " " + request.body;
      return exchange->respond(std::move(response));
    }
    exchange->on_disconnect(count_disconnect());
    const std::scoped_lock lock(mutex_);
    held_.push_back(exchange);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Exchange>> held_;
  int disconnects_ = 0;
};

}  // namespace lares::server
