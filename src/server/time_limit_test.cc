#include "server/time_limit.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

class Client final : public Exchange {
 public:
  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override { answers.push_back(response.status); }
  void begin_stream(int status, std::string, Headers) override { answers.push_back(status); }
  void send(std::string data) override { sent += data; }
  void end_stream() override { sent += "."; }
  void on_disconnect(std::function<void()> callback) override { leave = std::move(callback); }

  std::vector<int> answers;
  std::string sent;
  std::function<void()> leave;

 private:
  HttpRequest request_;
};

HttpResponse with_status(int status) {
  HttpResponse response;
  response.status = status;
  return response;
}

class TimeLimits : public ::testing::Test {
 protected:
  std::shared_ptr<Exchange> watched() {
    auto exchange = limit_.watch(client_, Instant(std::chrono::seconds(5)),
                                 [this](const std::shared_ptr<Exchange>& taken) {
                                   ++taken_;
                                   taken->respond(with_status(202));
                                 });
    exchange->on_disconnect([this] { ++gone_; });
    return exchange;
  }
  void look(int second) { limit_.look(Instant(std::chrono::seconds(second))); }

  TimeLimit limit_{std::chrono::seconds(10)};
  std::shared_ptr<Client> client_ = std::make_shared<Client>();
  int taken_ = 0, gone_ = 0;
};

TEST_F(TimeLimits, WhatIsAnsweredInTimeIsLeftAlone) {
  const auto exchange = watched();
  look(14);
  exchange->respond(with_status(200));
  look(100);
  EXPECT_EQ(client_->answers, std::vector{200});
  EXPECT_EQ(taken_, 0);
  EXPECT_EQ(gone_, 0);
}

TEST_F(TimeLimits, WhatIsLateIsTakenOverAndItsRouteHearsNobodyIsThere) {
  const auto exchange = watched();
  look(15);
  EXPECT_EQ(client_->answers, std::vector{202});
  EXPECT_EQ(gone_, 1);
  // What the route still says reaches nobody, and the client's leaving is not its business.
  exchange->respond(with_status(200));
  exchange->send("x");
  exchange->end_stream();
  client_->leave();
  look(100);
  EXPECT_EQ(client_->answers, std::vector{202});
  EXPECT_EQ(client_->sent, "");
  EXPECT_EQ(gone_, 1);
  EXPECT_EQ(taken_, 1);
}

TEST_F(TimeLimits, WhatDoesNotWaitIsAskedOnceAndLeftAlone) {
  int asked = 0;
  TimeLimit limit(std::chrono::seconds(10), [&](const HttpRequest&) {
    ++asked;
    return false;
  });
  const auto exchange = limit.watch(client_, Instant{}, [this](const auto&) { ++taken_; });
  limit.look(Instant(std::chrono::seconds(5)));
  EXPECT_EQ(asked, 0);
  limit.look(Instant(std::chrono::seconds(10)));
  limit.look(Instant(std::chrono::seconds(20)));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(taken_, 0);
  exchange->respond(with_status(200));
  EXPECT_EQ(client_->answers, std::vector{200});
}

TEST_F(TimeLimits, AStreamThatHasBegunGoesOn) {
  const auto exchange = watched();
  exchange->begin_stream(200, "text/plain", {});
  look(100);
  exchange->send("x");
  exchange->end_stream();
  EXPECT_EQ(client_->sent, "x.");
  EXPECT_EQ(taken_, 0);
}

TEST_F(TimeLimits, AClientThatLeavesIsHeardOf) {
  auto exchange = watched();
  client_->leave();
  EXPECT_EQ(gone_, 1);
  exchange.reset();
  look(100);
  EXPECT_EQ(taken_, 0);
}

TEST_F(TimeLimits, ARouteThatIsReadyTooLateHearsItAtOnce) {
  const auto exchange = limit_.watch(client_, Instant{}, [](const auto&) {});
  look(100);
  exchange->on_disconnect([this] { ++gone_; });
  EXPECT_EQ(gone_, 1);
}

}  // namespace
}  // namespace lares::server
