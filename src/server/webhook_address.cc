#include "server/webhook_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

namespace lares::server {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

struct Block {
  const char* address;
  unsigned bits;
};
// IANA's special-purpose registries; what is not globally reachable.
constexpr Block kNotPublic4[] = {{"0.0.0.0", 8},      {"10.0.0.0", 8},     {"100.64.0.0", 10},
                                 {"127.0.0.0", 8},    {"169.254.0.0", 16}, {"172.16.0.0", 12},
                                 {"192.0.0.0", 24},   {"192.0.2.0", 24},   {"192.88.99.0", 24},
                                 {"192.168.0.0", 16}, {"198.18.0.0", 15},  {"198.51.100.0", 24},
                                 {"203.0.113.0", 24}, {"224.0.0.0", 4},    {"240.0.0.0", 4}};
// Global unicast is 2000::/3; of it these lead elsewhere: Teredo and others of 2001::/23, 6to4,
// documentation.
constexpr Block kNotPublic6[] = {
    {"2001::", 23}, {"2001:db8::", 32}, {"2002::", 16}, {"3fff::", 20}};

bool inside(const NetAddress& address, const Block& block, unsigned offset) {
  const auto from = parse_address(block.address);
  const unsigned bits = offset + block.bits;
  for (unsigned bit = 0; bit < bits; ++bit) {
    const unsigned shift = 7 - bit % 8;
    if (((address.bytes[bit / 8] ^ from->bytes[bit / 8]) >> shift & 1U) != 0) return false;
  }
  return true;
}

Result<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0)
    return fail(Code::Invalid, fmt::format("`{}` is no port", text));
  return port;
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

bool NetAddress::is_v4() const {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

std::string NetAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  const bool v4 = is_v4();
  ::inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data() + (v4 ? 12 : 0), out.data(), out.size());
  return out.data();
}

Result<NetAddress> parse_address(std::string_view text) {
  const std::string written(text);
  NetAddress address;
  if (::inet_pton(AF_INET6, written.c_str(), address.bytes.data()) == 1) return address;
  std::ranges::copy(kMapped, address.bytes.begin());
  if (::inet_pton(AF_INET, written.c_str(), address.bytes.data() + 12) == 1) return address;
  return fail(Code::Invalid, fmt::format("`{}` is no address", text));
}

bool is_public(const NetAddress& address) {
  if (address.is_v4()) {
    return std::ranges::none_of(kNotPublic4,
                                [&](const Block& block) { return inside(address, block, 96); });
  }
  if ((address.bytes[0] & 0xe0U) != 0x20U) return false;
  return std::ranges::none_of(kNotPublic6,
                              [&](const Block& block) { return inside(address, block, 0); });
}

Result<WebhookUrl> parse_webhook_url(std::string_view url) {
  if (url.size() > kWebhookUrlMax)
    return fail(Code::Invalid, fmt::format("has more than {} bytes", kWebhookUrlMax));
  const bool plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 127; });
  if (!plain) return fail(Code::Invalid, "holds blanks or letters that must be written as %XX");
  WebhookUrl out;
  const std::size_t colon = url.find("://");
  const std::string scheme = lower(url.substr(0, colon));
  if (colon == url.npos || (scheme != "http" && scheme != "https"))
    return fail(Code::Invalid, "must begin with http:// or https://");
  out.tls = scheme == "https";
  out.port = out.tls ? 443 : 80;
  url.remove_prefix(colon + 3);
  const std::size_t path = std::min(url.find_first_of("/?#"), url.size());
  const std::string_view authority = url.substr(0, path);
  std::string_view rest = url.substr(path);
  rest = rest.substr(0, rest.find('#'));
  out.target = rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
  if (authority.find('@') != authority.npos)
    return fail(Code::Invalid, "must not hold a user or a password");
  const bool brackets = authority.starts_with('[');
  const std::size_t end = brackets ? authority.find(']') : authority.find(':');
  if (brackets && end == authority.npos) return fail(Code::Invalid, "has a `[` without its `]`");
  out.host = lower(brackets ? authority.substr(1, end - 1) : authority.substr(0, end));
  const std::string_view after =
      end == authority.npos ? "" : authority.substr(end + (brackets ? 1 : 0));
  if (!after.empty()) {
    if (!after.starts_with(':')) return fail(Code::Invalid, "has no port where one should be");
    out.port = TRY(port_of(after.substr(1)));
  }
  const auto literal = parse_address(out.host);
  if (brackets ? !literal || out.host.find(':') == std::string::npos : !is_host(out.host))
    return fail(Code::Invalid, "names no host");
  out.authority = lower(authority);
  return out;
}

}  // namespace lares::server
