// Where webhooks go: their URLs, and which addresses a server may be made to call.
//
// A URL comes from whoever submits a job, so it must not become a way into the household's network
// or this machine. Names are resolved once, each address is looked at here, and the connection goes
// to that very address. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace lares::server {

inline constexpr std::size_t kWebhookUrlMax = 2048;

struct WebhookUrl {
  bool tls = false;
  std::string host;  // Lower case, without brackets: a name or an address.
  std::uint16_t port = 80;
  std::string target;     // "/path?query"
  std::string authority;  // For the Host header: "example.org:8443".
};
// Errors: Invalid, with what is wrong: another scheme than http and https, a user, no host...
Result<WebhookUrl> parse_webhook_url(std::string_view url);

// An IP address; v4 is kept as ::ffff:a.b.c.d.
struct NetAddress {
  std::array<std::uint8_t, 16> bytes{};
  [[nodiscard]] bool is_v4() const;
  [[nodiscard]] std::string text() const;
  bool operator==(const NetAddress&) const = default;
};
// "127.0.0.1", "::1". Errors: Invalid.
Result<NetAddress> parse_address(std::string_view text);

// Whether it belongs to the internet at large: not this machine, a private or shared network,
// link-local (where clouds keep their secrets), multicast, documentation, or a way of writing one
// of these as another.
bool is_public(const NetAddress& address);

}  // namespace lares::server
