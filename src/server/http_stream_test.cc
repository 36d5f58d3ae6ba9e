// Streams, slow readers and clients that vanish.
#include <gtest/gtest.h>

#include <thread>

#include "server/http.h"
#include "server/http_harness.h"

namespace lares::server {
namespace {

using std::chrono::milliseconds;

TEST(HttpStream, ChunksArriveAsTheyAreSent) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(get("/hold"));
  const auto exchange = harness.take();
  exchange->begin_stream(200, "text/event-stream", {{"X-A", "b"}});
  const RawResponse head = client.head();
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.head.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_NE(head.head.find("X-A: b"), std::string::npos);
  exchange->send("one");
  EXPECT_EQ(client.read_chunk(), "one");
  exchange->send("two");
  EXPECT_EQ(client.read_chunk(), "two");
  exchange->end_stream();
  EXPECT_EQ(client.read_chunk(), "");
  EXPECT_EQ(client.ask(get("/next")).status, 200);  // The connection goes on.
  EXPECT_EQ(harness.disconnects(), 0);
}

TEST(HttpStream, AnHttp10ClientGetsPlainBytesAndTheEnd) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send("GET /hold HTTP/1.0\r\n\r\n");
  const auto exchange = harness.take();
  exchange->begin_stream(200, "text/event-stream", {});
  exchange->send("one");
  exchange->send("two");
  exchange->end_stream();
  EXPECT_EQ(client.head().head.find("chunked"), std::string::npos);
  EXPECT_EQ(client.read_to("two"), "onetwo");
  EXPECT_TRUE(client.closed());
}

TEST(HttpStream, AClientThatGoesWhileItWaitsIsNoticed) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(post("/hold", "x"));
  const auto exchange = harness.take();
  EXPECT_EQ(harness.disconnects(), 0);
  client.close();
  EXPECT_TRUE(harness.wait_disconnects(1));
  exchange->respond({});  // Ignored.
  EXPECT_TRUE(harness.wait_connections(0));
}

TEST(HttpStream, AClientThatResetsOrEndsItsSideIsNoticed) {
  HttpHarness harness;
  RawClient half = harness.client();
  half.send(get("/hold"));
  const auto exchange = harness.take();
  exchange->begin_stream(200, "text/plain", {});
  half.head();
  half.end_writing();
  EXPECT_TRUE(harness.wait_disconnects(1));
  exchange->send("x");  // Ignored.
  exchange->end_stream();
}

TEST(HttpStream, AskedToTellAfterTheClientHasGone) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(get("/hold"));
  const auto exchange = harness.take();
  client.close();
  ASSERT_TRUE(harness.wait_disconnects(1));
  exchange->on_disconnect(harness.count_disconnect());
  EXPECT_TRUE(harness.wait_disconnects(2));
}

TEST(HttpStream, AReaderWithoutProgressIsDisconnected) {
  HttpOptions options;
  options.write_limit = milliseconds(200);
  HttpHarness harness(options);
  RawClient client = harness.client(4096);
  client.send(get("/hold"));
  HttpResponse large;
  large.body = std::string(32U << 20U, 'x');
  harness.take()->respond(std::move(large));
  EXPECT_TRUE(harness.wait_disconnects(1));
  EXPECT_TRUE(harness.wait_connections(0));
}

TEST(HttpStream, AReaderThatFallsBehindTheBufferIsDisconnected) {
  HttpOptions options;
  options.stream_buffer_max = 64U << 10U;
  HttpHarness harness(options);
  RawClient client = harness.client(4096);
  client.send(get("/hold"));
  const auto exchange = harness.take();
  exchange->begin_stream(200, "text/plain", {});
  // More than the kernel's buffers and ours hold together.
  for (int i = 0; i < 2000; ++i) exchange->send(std::string(16U << 10U, 'x'));
  EXPECT_TRUE(harness.wait_disconnects(1));
  EXPECT_TRUE(harness.wait_connections(0));
}

TEST(HttpStream, AReaderThatFallsBehindWhileTheServerWaitsForItIsDisconnectedAtOnce) {
  HttpOptions options;
  options.stream_buffer_max = 33U << 20U;
  HttpHarness harness(options);
  RawClient client = harness.client(4096);
  client.send(get("/hold"));
  const auto exchange = harness.take();
  exchange->begin_stream(200, "text/plain", {});
  exchange->send(std::string(32U << 20U, 'x'));
  RawClient other = harness.client();
  EXPECT_EQ(other.ask(get("/one")).status, 200);  // By now the server waits for the reader.
  exchange->send("y");
  EXPECT_EQ(other.ask(get("/two")).status, 200);  // And has been told that there is more.
  exchange->send(std::string(2U << 20U, 'z'));
  EXPECT_TRUE(harness.wait_disconnects(1));
  EXPECT_TRUE(harness.wait_connections(1));
}

TEST(HttpStream, ALargeAnswerArrivesWhole) {
  HttpHarness harness;
  RawClient client = harness.client(4096);
  client.send(get("/hold"));
  HttpResponse large;
  large.body = std::string(8U << 20U, 'x');
  large.body.back() = 'y';
  const std::string expected = large.body;
  harness.take()->respond(std::move(large));
  EXPECT_EQ(client.response().body, expected);
  EXPECT_EQ(client.ask(get("/next")).status, 200);
  EXPECT_EQ(harness.disconnects(), 0);
}

TEST(HttpStream, TwoHundredStreamsAtOnce) {
  constexpr int kStreams = 200;
  constexpr int kTokens = 50;
  HttpHarness harness;
  std::vector<RawClient> clients;
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(harness.client());
    clients.back().send(get("/hold?" + std::to_string(i)));
  }
  for (int i = 0; i < kStreams; ++i) exchanges.push_back(harness.take());
  std::jthread producer([&exchanges] {
    for (const auto& exchange : exchanges) exchange->begin_stream(200, "text/plain", {});
    for (int t = 0; t < kTokens; ++t) {
      for (const auto& exchange : exchanges) {
        exchange->send(exchange->request().query + ":" + std::to_string(t) + ";");
      }
    }
    for (const auto& exchange : exchanges) exchange->end_stream();
  });
  for (int i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int t = 0; t < kTokens; ++t) {
      expected += std::to_string(i) + ":" + std::to_string(t) + ";";
    }
    ASSERT_EQ(clients[static_cast<std::size_t>(i)].response().body, expected) << i;
  }
  EXPECT_EQ(harness.disconnects(), 0);
}

TEST(HttpStream, ClientsVanishWhileOthersStream) {
  constexpr int kStreams = 60;
  HttpHarness harness;
  std::vector<RawClient> clients;
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(harness.client());
    clients.back().send(get("/hold"));
    exchanges.push_back(harness.take());
    exchanges.back()->begin_stream(200, "text/plain", {});
  }
  std::jthread producer([&exchanges] {
    for (int t = 0; t < 200; ++t) {
      for (const auto& exchange : exchanges) exchange->send("token");
    }
    for (const auto& exchange : exchanges) exchange->end_stream();
  });
  for (int i = 0; i < kStreams; i += 2) clients[static_cast<std::size_t>(i)].close();
  for (int i = 1; i < kStreams; i += 2) {
    EXPECT_EQ(clients[static_cast<std::size_t>(i)].response().body.size(), 1000U);
  }
}

TEST(HttpStream, StoppingEndsEverythingAndLateSendsAreIgnored) {
  HttpHarness harness;
  RawClient streaming = harness.client();
  streaming.send(get("/hold"));
  RawClient idle = harness.client();
  ASSERT_EQ(idle.ask(get("/")).status, 200);
  const auto exchange = harness.take();
  exchange->begin_stream(200, "text/plain", {});
  streaming.head();
  harness.server.reset();
  EXPECT_EQ(harness.disconnects(), 1);
  EXPECT_TRUE(streaming.closed());
  EXPECT_TRUE(idle.closed());
  exchange->send("late");
  exchange->end_stream();
}

TEST(HttpStream, NobodyIsToldWhenAllWasSent) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(get("/hold"));
  harness.take()->respond({});
  EXPECT_EQ(client.response().status, 200);
  client.close();
  EXPECT_TRUE(harness.wait_connections(0));
  EXPECT_EQ(harness.disconnects(), 0);
}

}  // namespace
}  // namespace lares::server
