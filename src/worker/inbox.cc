#include "worker/inbox.h"

#include <utility>

#include <sys/socket.h>

#include "core/log.h"

namespace lares::worker {

Inbox::Inbox(Channel& channel, Urgent urgent)
    : channel_(channel), urgent_(std::move(urgent)), reader_([this] { read(); }) {}

Inbox::~Inbox() {
  close();
  reader_.join();
}

void Inbox::close() {
  ::shutdown(channel_.fd(), SHUT_RDWR);
}

std::optional<Received> Inbox::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return closed_ || !queue_.empty(); });
  if (closed_) return std::nullopt;
  Received received = std::move(queue_.front());
  queue_.pop_front();
  return received;
}

bool Inbox::has_next() {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

void Inbox::read() {
  std::uint64_t number = 0;
  while (true) {
    Result<Message> message = channel_.receive();
    if (!message) {
      if (message.error().code == Code::Corrupt) {
        log_error("closing the channel", {{"reason", message.error().message}});
      }
      const std::lock_guard lock(mutex_);
      closed_ = true;
      arrived_.notify_all();
      return;
    }
    Received received{++number, std::move(*message)};
    if (urgent_ && urgent_(received)) continue;
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(received));
    arrived_.notify_all();
  }
}

}  // namespace lares::worker
