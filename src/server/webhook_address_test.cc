#include "server/webhook_address.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

TEST(WebhookAddress, UrlsAreTakenApart) {
  const auto plain = parse_webhook_url("http://Example.org/hook?a=1#part");
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->tls);
  EXPECT_EQ(plain->host, "example.org");
  EXPECT_EQ(plain->port, 80);
  EXPECT_EQ(plain->target, "/hook?a=1");
  EXPECT_EQ(plain->authority, "example.org");
  const auto secure = parse_webhook_url("HTTPS://[2001:DB8::1]:8443?x");
  ASSERT_TRUE(secure);
  EXPECT_TRUE(secure->tls);
  EXPECT_EQ(secure->host, "2001:db8::1");
  EXPECT_EQ(secure->port, 8443);
  EXPECT_EQ(secure->target, "/?x");
  EXPECT_EQ(secure->authority, "[2001:db8::1]:8443");
  EXPECT_EQ(parse_webhook_url("https://a")->port, 443);
}

TEST(WebhookAddress, OtherUrlsAreRefused) {
  for (const char* url :
       {"", "example.org", "ftp://example.org/", "file:///etc/passwd", "http://", "http:///x",
        "http://user@example.org/", "http://a:b@c/", "http://example.org:0/",
        "http://example.org:99999/", "http://example.org:x/", "http://[::1/", "http://[::1]x/",
        "http://[127.0.0.1]/", "http://a b/", "http://a\r\nHost: b/", "http://\xc3\xa4.org/",
        "http://exa^mple/"}) {
    EXPECT_FALSE(parse_webhook_url(url)) << url;
  }
  EXPECT_FALSE(parse_webhook_url("http://a/" + std::string(kWebhookUrlMax, 'a')));
}

TEST(WebhookAddress, OnlyTheInternetAtLargeIsPublic) {
  for (const char* good : {"1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "9.255.255.255",
                           "2606:4700::1111", "2a00:1450::1"}) {
    EXPECT_TRUE(is_public(*parse_address(good))) << good;
  }
  for (const char* bad : {"0.0.0.0",
                          "10.1.2.3",
                          "100.64.0.1",
                          "127.0.0.1",
                          "127.255.0.1",
                          "169.254.169.254",
                          "172.16.0.1",
                          "172.31.255.255",
                          "192.168.1.1",
                          "198.18.0.1",
                          "224.0.0.1",
                          "255.255.255.255",
                          "::",
                          "::1",
                          "::ffff:127.0.0.1",
                          "::ffff:10.0.0.1",
                          "::127.0.0.1",
                          "fe80::1",
                          "fc00::1",
                          "fd12::1",
                          "ff02::1",
                          "64:ff9b::7f00:1",
                          "2002:7f00:1::",
                          "2001::1",
                          "2001:db8::1"}) {
    EXPECT_FALSE(is_public(*parse_address(bad))) << bad;
  }
}

TEST(WebhookAddress, AddressesAreRead) {
  EXPECT_EQ(parse_address("127.0.0.1")->text(), "127.0.0.1");
  EXPECT_EQ(*parse_address("::ffff:127.0.0.1"), *parse_address("127.0.0.1"));
  EXPECT_EQ(parse_address("2A00::1")->text(), "2a00::1");
  for (const char* bad : {"", "localhost", "127.1", "0x7f.0.0.1", "2130706433", "1.2.3.4.5", "::g"})
    EXPECT_FALSE(parse_address(bad)) << bad;
}

}  // namespace
}  // namespace lares::server
