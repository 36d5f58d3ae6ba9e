#include "server/webhook_transport.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace lares::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeadMax = 64U << 10U;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

Error timed_out() {
  return {Code::Unavailable, "the receiver did not answer in time"};
}

// Until the socket can be read or written, or it is too late.
Result<> wait(int fd, short events, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return tl::unexpected(timed_out());
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR)
      return fail(Code::Unavailable, fmt::format("waiting failed: {}", std::strerror(errno)));
  }
}

Result<> connect_to(int fd, const NetAddress& address, std::uint16_t port,
                    Clock::time_point until) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(port);
  std::memcpy(&to.sin6_addr, address.bytes.data(), address.bytes.size());
  sockaddr_in to4{};
  to4.sin_family = AF_INET;
  to4.sin_port = htons(port);
  std::memcpy(&to4.sin_addr, address.bytes.data() + 12, 4);
  const bool v4 = address.is_v4();
  const auto* name =
      v4 ? reinterpret_cast<const sockaddr*>(&to4) : reinterpret_cast<const sockaddr*>(&to);
  int failed = ::connect(fd, name, v4 ? sizeof to4 : sizeof to) == 0 ? 0 : errno;
  if (failed == EINPROGRESS) {
    TRY_VOID(wait(fd, POLLOUT, until));
    socklen_t size = sizeof failed;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
  }
  if (failed == 0) return {};
  return fail(Code::Unavailable, fmt::format("{} port {} cannot be reached: {}", address.text(),
                                             port, std::strerror(failed)));
}

// One connection, plain or encrypted.
class Line {
 public:
  Line(int fd, Clock::time_point until) : fd_(fd), until_(until) {}

  // Certificates must lead to one that the system trusts, and name the host.
  Result<> encrypt(const std::string& host) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_ || SSL_CTX_set_default_verify_paths(context_.get()) != 1 ||
        SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) != 1) {
      return fail(Code::Unavailable, "TLS cannot be set up: " + last_error());
    }
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    const auto literal = parse_address(host);
    bool named = false;
    if (literal) {
      named = ssl_ && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1;
    } else {
      named = ssl_ && SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
              SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1;
    }
    if (!named || SSL_set_fd(ssl_.get(), fd_) != 1)
      return fail(Code::Unavailable, "TLS cannot be set up: " + last_error());
    return again([this] { return SSL_connect(ssl_.get()); }).map([](int) {});
  }

  Result<> write(std::string_view bytes) {
    while (!bytes.empty()) {
      std::size_t sent = 0;
      if (ssl_) {
        sent = static_cast<std::size_t>(TRY(again([&] {
          return SSL_write(ssl_.get(), bytes.data(),
                           static_cast<int>(std::min<std::size_t>(bytes.size(), 1U << 20U)));
        })));
      } else {
        TRY_VOID(wait(fd_, POLLOUT, until_));
        const ssize_t some = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (some < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (some < 0) return fail(Code::Unavailable, std::strerror(errno));
        sent = static_cast<std::size_t>(some);
      }
      bytes.remove_prefix(sent);
    }
    return {};
  }

  // Some of what comes; "" at the end.
  Result<std::string> read() {
    std::array<char, 4096> buffer{};
    if (ssl_) {
      const int some = TRY(again(
          [&] { return SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size())); }));
      return std::string(buffer.data(), static_cast<std::size_t>(some));
    }
    while (true) {
      TRY_VOID(wait(fd_, POLLIN, until_));
      const ssize_t some = ::recv(fd_, buffer.data(), buffer.size(), 0);
      if (some >= 0) return std::string(buffer.data(), static_cast<std::size_t>(some));
      if (errno != EINTR && errno != EAGAIN) return fail(Code::Unavailable, std::strerror(errno));
    }
  }

 private:
  static std::string last_error() {
    std::array<char, 256> text{};
    ERR_error_string_n(ERR_get_error(), text.data(), text.size());
    return text.data();
  }

  template <class Call>
  Result<int> again(Call call) {
    while (true) {
      ERR_clear_error();
      const int done = call();
      if (done > 0) return done;
      const int why = SSL_get_error(ssl_.get(), done);
      if (why == SSL_ERROR_ZERO_RETURN) return 0;
      if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        TRY_VOID(wait(fd_, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until_));
        continue;
      }
      if (const long verified = SSL_get_verify_result(ssl_.get()); verified != X509_V_OK) {
        return fail(Code::Unavailable, fmt::format("its certificate is not good: {}",
                                                   X509_verify_cert_error_string(verified)));
      }
      return fail(Code::Unavailable, "TLS failed: " + last_error());
    }
  }

  const int fd_;
  const Clock::time_point until_;
  std::unique_ptr<SSL_CTX, FreeContext> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
};

// "HTTP/1.1 200 OK..."
Result<int> status_of(std::string_view head) {
  constexpr std::string_view kVersion = "HTTP/1.";
  int status = 0;
  const std::size_t blank = head.find(' ');
  if (head.starts_with(kVersion) && blank != head.npos && head.size() >= blank + 4) {
    const char* const digits = head.data() + blank + 1;
    const auto [end, error] = std::from_chars(digits, digits + 3, status);
    if (error == std::errc{} && end == digits + 3 && status >= 100) return status;
  }
  return fail(Code::Corrupt, "the receiver does not speak HTTP");
}

class SocketTransport final : public Transport {
 public:
  Result<int> post(const WebhookUrl& url, const NetAddress& address, const Headers& headers,
                   const std::string& body, Duration deadline) override {
    const auto until = Clock::now() + deadline;
    const Socket socket(::socket(address.is_v4() ? AF_INET : AF_INET6,
                                 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0) return fail(Code::Unavailable, std::strerror(errno));
    TRY_VOID(connect_to(socket.fd(), address, url.port, until));
    Line line(socket.fd(), until);
    if (url.tls) TRY_VOID(line.encrypt(url.host));
    std::string request = fmt::format(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\nConnection: close\r\n",
        url.target, url.authority, body.size());
    for (const auto& [name, value] : headers) request += fmt::format("{}: {}\r\n", name, value);
    TRY_VOID(line.write(request + "\r\n" + body));
    // The body of the answer is nobody's business.
    std::string head;
    while (true) {
      if (const std::size_t end = head.find("\r\n"); end != head.npos) {
        const int status = TRY(status_of(head));
        if (status >= 200) return status;
        const std::size_t over = head.find("\r\n\r\n");  // 100 Continue and the like.
        if (over != head.npos) {
          head.erase(0, over + 4);
          continue;
        }
      }
      if (head.size() > kHeadMax) return fail(Code::Corrupt, "the receiver's answer never begins");
      const std::string more = TRY(line.read());
      if (more.empty()) return fail(Code::Unavailable, "the receiver closed without an answer");
      head += more;
    }
  }
};

class SystemResolver final : public Resolver {
 public:
  Result<std::vector<NetAddress>> resolve(const std::string& host) override {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    if (const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); failed != 0) {
      return fail(Code::Unavailable,
                  fmt::format("{} is not found: {}", host, ::gai_strerror(failed)));
    }
    std::vector<NetAddress> addresses;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      NetAddress address;
      if (one->ai_family == AF_INET6) {
        const auto* in = reinterpret_cast<const sockaddr_in6*>(one->ai_addr);
        std::memcpy(address.bytes.data(), &in->sin6_addr, 16);
      } else if (one->ai_family == AF_INET) {
        const auto* in = reinterpret_cast<const sockaddr_in*>(one->ai_addr);
        address.bytes[10] = address.bytes[11] = 0xff;
        std::memcpy(address.bytes.data() + 12, &in->sin_addr, 4);
      } else {
        continue;
      }
      addresses.push_back(address);
    }
    ::freeaddrinfo(found);
    return addresses;
  }
};

}  // namespace

std::unique_ptr<Resolver> system_resolver() {
  return std::make_unique<SystemResolver>();
}

std::unique_ptr<Transport> socket_transport() {
  return std::make_unique<SocketTransport>();
}

}  // namespace lares::server
