// A client for tests of the HTTP server: a blocking socket, bytes in and out, no help from anybody.
//
// Tests only. Every wait has a limit, at which the test fails; none is a synchronisation by time.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

namespace lares::server {

struct RawResponse {
  int status = 0;
  std::string head;  // With the status line, in the server's letters.
  std::string body;  // Chunks put together.
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) close();
  }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  [[nodiscard]] bool connected() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void end_writing() const { ::shutdown(fd_, SHUT_WR); }

  // False once the server has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  // Reads what comes next into the buffer; false at the end of the stream.
  bool more() {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, kLimitMs) != 1) {
      ADD_FAILURE() << "nothing came from the server in " << kLimitMs << " ms";
      return false;
    }
    char bytes[16384];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  // Up to and with `mark`, or what there was at the end of the stream.
  std::string read_to(std::string_view mark) {
    std::size_t at = buffer_.find(mark);
    while (at == std::string::npos && more()) at = buffer_.find(mark);
    const std::size_t size = at == std::string::npos ? buffer_.size() : at + mark.size();
    std::string out = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return out;
  }

  std::string read_bytes(std::size_t size) {
    while (buffer_.size() < size && more()) {
    }
    std::string out = buffer_.substr(0, size);
    buffer_.erase(0, out.size());
    return out;
  }

  std::string read_chunk() {
    const std::size_t size = std::strtoul(read_to("\r\n").c_str(), nullptr, 16);
    std::string out = read_bytes(size);
    EXPECT_EQ(read_bytes(2), "\r\n");
    return out;
  }

  RawResponse head() {
    RawResponse out;
    out.head = read_to("\r\n\r\n");
    if (out.head.size() > 12) out.status = std::atoi(out.head.c_str() + 9);
    return out;
  }

  RawResponse response(bool has_body = true) {
    RawResponse out = head();
    if (!has_body) return out;
    if (out.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk())
        out.body += chunk;
      return out;
    }
    const std::string name = "Content-Length: ";
    const std::size_t at = out.head.find(name);
    if (at == std::string::npos) return out;
    out.body = read_bytes(std::strtoul(out.head.c_str() + at + name.size(), nullptr, 10));
    return out;
  }

  // True if the server closes and sends nothing more.
  bool closed() {
    if (!buffer_.empty()) return false;
    return !more() && buffer_.empty();
  }

  // Throws away what comes until the server has closed.
  void drain() {
    while (more()) buffer_.clear();
  }

  RawResponse ask(std::string_view request) {
    send(request);
    return response();
  }

 private:
  static constexpr int kLimitMs = 20000;

  int fd_ = -1;
  std::string buffer_;
};

inline std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

inline std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace lares::server
