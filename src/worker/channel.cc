#include "worker/channel.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace lares::worker {
namespace {

constexpr std::size_t kReadBytes = 64U << 10U;

std::string system_reason() {
  return std::strerror(errno);
}

}  // namespace

Channel::Channel(int fd) : fd_(fd) {}

Channel::~Channel() {
  if (fd_ >= 0) ::close(fd_);
}

Result<> Channel::send(const Message& message) {
  const std::lock_guard lock(send_mutex_);
  send_buffer_.clear();
  encode(message, send_buffer_);
  std::size_t sent = 0;
  while (sent < send_buffer_.size()) {
    // MSG_NOSIGNAL: a worker that died must be an error here, not a SIGPIPE for the server.
    const ssize_t n =
        ::send(fd_, send_buffer_.data() + sent, send_buffer_.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return fail(Code::Io, fmt::format("the other side of the worker's socket is gone: {}",
                                        system_reason()));
    }
    sent += static_cast<std::size_t>(n);
  }
  return {};
}

Result<Message> Channel::receive() {
  while (true) {
    std::optional<Message> message = TRY(next_buffered());
    if (message) return std::move(*message);
    TRY(read_some(0));
  }
}

Result<> Channel::receive_available(std::vector<Message>& out) {
  while (true) {
    // What lies in the buffer goes out before the socket is asked again, so that messages sent just
    // before the end are delivered before the end is.
    std::optional<Message> message = TRY(next_buffered());
    if (message) {
      out.push_back(std::move(*message));
      continue;
    }
    if (TRY(read_some(MSG_DONTWAIT)) == 0) return {};
  }
}

Result<std::size_t> Channel::read_some(int flags) {
  // Behind the unread part: the front is cut off only here, once per read, so that it costs at most
  // one move of a partial frame.
  if (offset_ != 0) {
    buffer_.erase(0, offset_);
    offset_ = 0;
  }
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kReadBytes);
  ssize_t n = 0;
  do {
    n = ::recv(fd_, buffer_.data() + had, kReadBytes, flags);
  } while (n < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(had + (n > 0 ? static_cast<std::size_t>(n) : 0));
  if (n > 0) return static_cast<std::size_t>(n);
  if (n == 0) return fail(Code::Io, "the other side closed the worker's socket");
  if (error == EAGAIN || error == EWOULDBLOCK) return std::size_t{0};
  return fail(Code::Io,
              fmt::format("reading the worker's socket failed: {}", std::strerror(error)));
}

Result<std::optional<Message>> Channel::next_buffered() {
  const std::string_view unread = std::string_view(buffer_).substr(offset_);
  std::uint32_t length = 0;
  if (unread.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, unread.data(), sizeof length);
  // Checked before the rest arrives: a wrong length must not make this side wait, or hoard, for
  // ever.
  if (length > kFrameMax) {
    return fail(Code::Corrupt,
                fmt::format("a frame of {} bytes; at most {} are allowed", length, kFrameMax));
  }
  if (unread.size() - sizeof length < length) return std::nullopt;
  Message message = TRY(decode(unread.substr(sizeof length, length)));
  offset_ += sizeof length + length;
  return message;
}

Result<std::pair<int, int>> socket_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(Code::Io, fmt::format("a socket pair could not be made: {}", system_reason()));
  }
  return std::pair(ends[0], ends[1]);
}

}  // namespace lares::worker
