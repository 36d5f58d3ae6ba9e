#include "server/http.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <thread>

#include "core/json.h"
#include "server/http_harness.h"

namespace lares::server {
namespace {

using std::chrono::milliseconds;

// An error is JSON in OpenAI's shape, names its request, and ends the connection.
void expect_refused(RawClient& client, int status, const std::string& what) {
  const RawResponse response = client.response();
  EXPECT_EQ(response.status, status) << what << "\n" << response.head;
  const auto body = json::parse(response.body);
  ASSERT_TRUE(body) << what << response.body;
  const json::Value* error = body->find("error");
  ASSERT_NE(error, nullptr) << what;
  EXPECT_NE(error->find("message")->as<std::string>(), nullptr) << what;
  EXPECT_NE(error->find("code")->as<std::string>(), nullptr) << what;
  EXPECT_NE(response.head.find("X-Request-Id: req-"), std::string::npos) << what;
  EXPECT_NE(response.head.find("Connection: close"), std::string::npos) << what;
  EXPECT_TRUE(client.closed()) << what;
}

TEST(Http, AnswersAndKeepsTheConnection) {
  HttpHarness harness;
  RawClient client = harness.client();
  const RawResponse first = client.ask(get("/a%20b?x=1"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "GET /a b?x=1 ");
  EXPECT_NE(first.head.find("Date: "), std::string::npos);
  EXPECT_EQ(client.ask(post("/p", "hello")).body, "POST /p? hello");
  EXPECT_EQ(harness.server->connections(), 1U);
}

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(get("/1") + post("/2", "two") + "\r\n" + get("/hold") + get("/4"));
  EXPECT_EQ(client.response().body, "GET /1? ");
  EXPECT_EQ(client.response().body, "POST /2? two");
  HttpResponse held;
  held.body = "three";
  harness.take()->respond(held);
  EXPECT_EQ(client.response().body, "three");
  EXPECT_EQ(client.response().body, "GET /4? ");
}

TEST(Http, RequestsMayComeInPieces) {
  HttpHarness harness;
  RawClient client = harness.client();
  const std::string request = post("/p", "hello");
  for (const char c : request) ASSERT_TRUE(client.send(std::string_view(&c, 1)));
  EXPECT_EQ(client.response().body, "POST /p? hello");
}

TEST(Http, ManyPipelinedRequestsBeyondTheReadAhead) {
  HttpHarness harness;
  RawClient client = harness.client();
  constexpr int kRequests = 5000;  // 250 KiB; the first one keeps the rest waiting.
  std::jthread writer([&client] {
    std::string all = get("/hold");
    for (int i = 0; i < kRequests; ++i) all += get("/" + std::to_string(i));
    client.send(all);
  });
  harness.take()->respond({});
  client.response();
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(client.response().body, "GET /" + std::to_string(i) + "? ");
  }
}

TEST(Http, HeadHasNoBody) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse head = client.response(false);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.head.find("Content-Length: 9\r\n"), std::string::npos) << head.head;
  EXPECT_EQ(client.ask(get("/y")).body, "GET /y? ");
}

TEST(Http, ChunkedBodies) {
  HttpHarness harness;
  RawClient client = harness.client();
  const std::string head =
      "POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(client.ask(head + "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n").body,
            "POST /c? abc0123456789");
  EXPECT_EQ(client.ask(get("/y")).body, "GET /y? ");
}

TEST(Http, ExpectContinue) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(
      "POST /c HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 3\r\n\r\n");
  EXPECT_EQ(client.head().head, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ask("abc").body, "POST /c? abc");
}

TEST(Http, ConnectionCloseIsHeeded) {
  HttpHarness harness;
  RawClient client = harness.client();
  const RawResponse response =
      client.ask("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(response.head.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(client.closed());
}

TEST(Http, AnAnswerComesAlsoAfterTheClientEndedItsSide) {
  HttpHarness harness;
  RawClient client = harness.client();
  client.send(get("/1") + get("/2"));
  client.end_writing();
  EXPECT_EQ(client.response().body, "GET /1? ");
  EXPECT_EQ(client.response().body, "GET /2? ");
  EXPECT_TRUE(client.closed());
}

struct Shape {
  const char* request;
  int status;
};

TEST(Http, ShapesThatAreRefused) {
  HttpHarness harness;
  const std::vector<Shape> shapes = {
      {"HELLO\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400},
      {"GET / FTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"\x16\x03\x01\x02 \x01\x01\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: x\n\n\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%0d%0ax HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET http://other/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
       "Transfer-Encoding: identity\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
       "FFFFFFFFFFFFFFFFF\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 5\r\n\r\n", 417},
  };
  for (const Shape& shape : shapes) {
    RawClient client = harness.client();
    client.send(shape.request);
    expect_refused(client, shape.status, shape.request);
  }
  EXPECT_EQ(harness.client().ask(get("/well")).status, 200);
}

TEST(Http, HeadersBeyondTheLimit) {
  HttpOptions options;
  options.header_bytes_max = 4096;
  HttpHarness harness(options);
  RawClient one_long = harness.client();
  one_long.send("GET / HTTP/1.1\r\nHost: x\r\nLong: " + std::string(5000, 'a'));
  expect_refused(one_long, 431, "one long line");
  RawClient many = harness.client();
  std::string lines = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 300; ++i) lines += "a: b\r\n";
  many.send(lines + "\r\n");
  expect_refused(many, 431, "many lines");
  RawClient long_target = harness.client();
  long_target.send("GET /" + std::string(5000, 'a'));
  expect_refused(long_target, 431, "long target");
}

TEST(Http, BodiesBeyondTheLimitAreRefusedBeforeTheyAreRead) {
  HttpOptions options;
  options.body_bytes_max = 1000;
  HttpHarness harness(options);
  RawClient declared = harness.client();
  declared.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  expect_refused(declared, 413, "declared");
  RawClient expecting = harness.client();
  expecting.send(
      "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
      "Content-Length: 1000000000\r\n\r\n");
  expect_refused(expecting, 413, "expecting");
  RawClient chunked = harness.client();
  chunked.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n" +
               std::string(1001, 'a'));
  expect_refused(chunked, 413, "chunked");
  EXPECT_EQ(harness.client().ask(post("/", std::string(1000, 'a'))).status, 200);
}

TEST(Http, AllBodiesTogetherHaveALimit) {
  HttpOptions options;
  options.bodies_bytes_max = 1500;
  HttpHarness harness(options);
  RawClient holding = harness.client();
  holding.send(post("/hold", std::string(1000, 'a')));
  const auto exchange = harness.take();
  RawClient second = harness.client();
  second.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + std::string(999, 'a'));
  expect_refused(second, 503, "second");
  exchange->respond({});
  EXPECT_EQ(holding.response().status, 200);
  EXPECT_EQ(holding.ask(post("/", std::string(1400, 'a'))).status, 200);
}

// Whatever comes, the server answers or closes, and then serves the next client.
RC_GTEST_PROP(Http, AnyBytesAreSurvived, ()) {
  static HttpHarness harness;
  const auto piece =
      rc::gen::elementOf(std::vector<std::string>{"GET ",
                                                  "POST ",
                                                  "/",
                                                  " HTTP/1.1",
                                                  "\r\n",
                                                  "Host: x",
                                                  "Content-Length: ",
                                                  "5",
                                                  "0",
                                                  "-",
                                                  "Transfer-Encoding: chunked",
                                                  ":",
                                                  " ",
                                                  "%41",
                                                  "\n",
                                                  "Expect: 100-continue",
                                                  "\xff",
                                                  "abc",
                                                  "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                                  "A\r\n",
                                                  "0\r\n\r\n"});
  std::string bytes;
  for (const std::string& part : *rc::gen::container<std::vector<std::string>>(piece)) {
    bytes += part;
  }
  RawClient client = harness.client();
  client.send(bytes);
  client.end_writing();
  client.drain();
  RC_ASSERT(harness.client().ask(get("/well")).status == 200);
}

// The answer must not be lost because the client is still sending what nobody reads.
TEST(Http, AClientThatGoesOnSendingStillGetsItsAnswer) {
  HttpOptions options;
  options.body_bytes_max = 1000;
  HttpHarness harness(options);
  RawClient client = harness.client();
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" +
              std::string(3000000, 'a'));
  EXPECT_EQ(client.response().status, 413);
}

TEST(Http, AByteNowAndThenIsCutAtTheLimit) {
  HttpOptions options;
  options.header_limit = milliseconds(300);
  options.body_limit = milliseconds(300);
  HttpHarness harness(options);
  for (const std::string& start : {std::string("G"), std::string("POST / HTTP/1.1\r\nHost: x\r\n"
                                                                 "Content-Length: 900\r\n\r\n")}) {
    RawClient client = harness.client();
    client.send(start);
    std::jthread dripping([&client](const std::stop_token& stop) {
      while (!stop.stop_requested() && client.send("a")) {
        std::this_thread::sleep_for(milliseconds(20));  // The client's slowness, no waiting.
      }
    });
    EXPECT_EQ(client.response().status, 408) << start;
  }
}

TEST(Http, IdleConnectionsAreClosed) {
  HttpOptions options;
  options.idle_limit = milliseconds(100);
  HttpHarness harness(options);
  RawClient never = harness.client();
  RawClient once = harness.client();
  EXPECT_EQ(once.ask(get("/")).status, 200);
  EXPECT_TRUE(never.closed());
  EXPECT_TRUE(once.closed());
}

TEST(Http, WaitingForAnAnswerIsNotIdling) {
  HttpOptions options;
  options.idle_limit = milliseconds(50);
  options.header_limit = milliseconds(50);
  options.write_limit = milliseconds(50);
  HttpHarness harness(options);
  RawClient held = harness.client();
  held.send(get("/hold"));
  const auto exchange = harness.take();
  // Longer than every limit: another connection idles and is closed, twice over.
  EXPECT_TRUE(harness.client().closed());
  EXPECT_TRUE(harness.client().closed());
  HttpResponse response;
  response.body = "late";
  exchange->respond(response);
  EXPECT_EQ(held.response().body, "late");
  EXPECT_EQ(harness.disconnects(), 0);
}

TEST(Http, TooManyConnections) {
  HttpOptions options;
  options.connections_max = 2;
  HttpHarness harness(options);
  RawClient first = harness.client();
  RawClient second = harness.client();
  EXPECT_EQ(first.ask(get("/")).status, 200);
  EXPECT_EQ(second.ask(get("/")).status, 200);
  RawClient third = harness.client();
  third.send(get("/"));
  const RawResponse refused = third.response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos);
  EXPECT_TRUE(third.closed());
  first.close();
  third.close();
  ASSERT_TRUE(harness.wait_connections(1));
  EXPECT_EQ(harness.client().ask(get("/")).status, 200);
}

TEST(Http, PortInUseAndBadAddress) {
  HttpHarness harness;
  HttpOptions options;
  options.port = harness.server->port();
  const auto second = HttpServer::create(options, [](const auto&) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::Conflict);
  EXPECT_NE(second.error().message.find("--listen"), std::string::npos);
  options.address = "kitchen";
  EXPECT_EQ(HttpServer::create(options, [](const auto&) {}).error().code, Code::Invalid);
  options.address = "203.0.113.7";  // Documentation's network: nobody's.
  EXPECT_EQ(HttpServer::create(options, [](const auto&) {}).error().code, Code::Invalid);
}

TEST(Http, FiveHundredIdleConnections) {
  HttpHarness harness;
  std::vector<RawClient> clients;
  for (int i = 0; i < 500; ++i) {
    clients.push_back(harness.client());
    ASSERT_TRUE(clients.back().connected());
  }
  ASSERT_TRUE(harness.wait_connections(500));
  EXPECT_EQ(harness.client().ask(get("/")).status, 200);
  EXPECT_EQ(clients.front().ask(get("/")).status, 200);
  EXPECT_EQ(clients.back().ask(get("/")).status, 200);
  clients.clear();
  EXPECT_TRUE(harness.wait_connections(0));
}

TEST(HttpPieces, PercentDecoding) {
  EXPECT_EQ(percent_decoded("/a%2Fb%c3%A9+"), "/a/b\xc3\xa9+");
  for (const char* bad : {"%", "%4", "%4x", "%x4", "a%0A", "\x7f"}) {
    EXPECT_EQ(percent_decoded(bad), std::nullopt) << bad;
  }
}

TEST(HttpPieces, QueryValues) {
  EXPECT_EQ(query_value("by=model&x=a+b%21", "by"), "model");
  EXPECT_EQ(query_value("by=model&x=a+b%21", "x"), "a b!");
  EXPECT_EQ(query_value("bya=1", "by"), std::nullopt);
  EXPECT_EQ(query_value("by", "by"), "");
  EXPECT_EQ(query_value("", "by"), std::nullopt);
}

TEST(HttpPieces, HeadsCannotBeSplit) {
  EXPECT_EQ(response_head(200, {{"A", "b\r\nC: d"}}), "HTTP/1.1 200 OK\r\nA: bC: d\r\n\r\n");
  EXPECT_EQ(http_date(784887151), "Tue, 15 Nov 1994 08:12:31 GMT");
}

}  // namespace
}  // namespace lares::server
