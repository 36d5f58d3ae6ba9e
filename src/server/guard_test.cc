#include "server/guard.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

HttpRequest request(std::string method, Headers headers) {
  HttpRequest out;
  out.method = std::move(method);
  out.path = "/v1/chat/completions";
  out.headers = std::move(headers);
  return out;
}

std::string code_of(const HttpRequest& request) {
  const auto error = guard_keyless(request);
  return error ? error->error_code : "";
}

TEST(Guard, LoopbackNames) {
  for (const char* name : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "127.255.3.4",
                           "[::1]", "[::1]:8080"}) {
    EXPECT_TRUE(is_loopback_authority(name)) << name;
  }
  for (const char* name : {"",
                           "example.com",
                           "localhost.example.com",
                           "127.0.0.1.example.com",
                           "127.1",
                           "127.0.0",
                           "127.0.0.256",
                           "127.0.0.1.1",
                           "128.0.0.1",
                           "192.168.0.2:8080",
                           "[::2]",
                           "[::1",
                           "::1",
                           "localhost:80:80",
                           "localhost:",
                           "localhost:x",
                           "localhost:123456",
                           "0.0.0.0",
                           "127.0.0.",
                           "127..0.1",
                           "user@localhost",
                           "localhost/",
                           "0x7f.0.0.1",
                           "2130706433"}) {
    EXPECT_FALSE(is_loopback_authority(name)) << name;
  }
}

struct Case {
  const char* what;
  HttpRequest request;
  const char* code;
};

TEST(Guard, Table) {
  const std::pair<std::string, std::string> host{"host", "localhost:8080"};
  const std::pair<std::string, std::string> json{"content-type", "application/json"};
  const std::vector<Case> cases = {
      {"curl", request("GET", {host}), ""},
      {"curl post", request("POST", {host, json}), ""},
      {"charset", request("POST", {host, {"content-type", "Application/JSON; charset=utf-8"}}), ""},
      {"own page", request("POST", {host, json, {"origin", "http://localhost:8080"}}), ""},
      {"default port",
       request("POST", {{"host", "127.0.0.1"}, json, {"origin", "http://127.0.0.1:80"}}), ""},
      {"v6 page", request("POST", {{"host", "[::1]:9"}, json, {"origin", "http://[::1]:9"}}), ""},
      {"rebinding", request("GET", {{"host", "evil.example:8080"}}), "host_not_allowed"},
      {"no host", request("GET", {}), "host_not_allowed"},
      {"lan address", request("GET", {{"host", "192.168.1.5:8080"}}), "host_not_allowed"},
      {"other site", request("POST", {host, json, {"origin", "https://evil.example"}}),
       "origin_not_allowed"},
      {"other port", request("POST", {host, json, {"origin", "http://localhost:3000"}}),
       "origin_not_allowed"},
      {"other loopback", request("POST", {host, json, {"origin", "http://127.0.0.1:8080"}}),
       "origin_not_allowed"},
      {"null origin", request("POST", {host, json, {"origin", "null"}}), "origin_not_allowed"},
      {"file origin", request("GET", {host, {"origin", "file://"}}), "origin_not_allowed"},
      {"odd scheme", request("GET", {host, {"origin", "ftp://localhost:8080"}}),
       "origin_not_allowed"},
      {"other site reads", request("GET", {host, {"origin", "https://evil.example"}}),
       "origin_not_allowed"},
      {"preflight",
       request(
           "OPTIONS",
           {host, {"origin", "http://localhost:8080"}, {"access-control-request-method", "POST"}}),
       "preflight_refused"},
      {"plain text", request("POST", {host, {"content-type", "text/plain"}}), "content_type"},
      {"form", request("POST", {host, {"content-type", "application/x-www-form-urlencoded"}}),
       "content_type"},
      {"no type", request("POST", {host}), "content_type"},
      {"almost json", request("POST", {host, {"content-type", "application/jsonp"}}),
       "content_type"},
      {"forwarded for", request("GET", {host, {"x-forwarded-for", "10.0.0.1"}}),
       "forwarded_needs_key"},
      {"forwarded", request("GET", {host, {"forwarded", "for=10.0.0.1"}}), "forwarded_needs_key"},
      {"via", request("GET", {host, {"via", "1.1 proxy"}}), "forwarded_needs_key"},
      {"delete", request("DELETE", {host}), ""},
      {"put", request("PUT", {host}), "content_type"},
  };
  for (const Case& c : cases) EXPECT_EQ(code_of(c.request), c.code) << c.what;
}

TEST(Guard, Statuses) {
  EXPECT_EQ(error_status(*guard_keyless(request("GET", {}))), 403);
  const Headers plain{{"host", "localhost"}, {"content-type", "text/plain"}};
  EXPECT_EQ(error_status(*guard_keyless(request("POST", plain))), 415);
}

TEST(Errors, TableAndBody) {
  ApiError error;
  error.code = Code::Busy;
  error.message = "say \"later\"";
  error.param = "n";
  EXPECT_EQ(error_body(error),
            R"({"error":{"message":"say \"later\"","type":"rate_limit_error","param":"n",)"
            R"("code":"busy"}})");
  const HttpResponse response = error_response(error);
  EXPECT_EQ(response.status, 429);
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers[0].first, "Retry-After");
  error.code = Code::Invalid;
  error.param = "";
  error.error_code = "x";
  EXPECT_EQ(error_response(error).status, 400);
  EXPECT_TRUE(error_response(error).headers.empty());
  EXPECT_EQ(error_body(error),
            R"({"error":{"message":"say \"later\"","type":"invalid_request_error","param":null,)"
            R"("code":"x"}})");
}

}  // namespace
}  // namespace lares::server
