// One end of a worker's socket pair: frames in, frames out.
//
// Owned by one thread, except that `send` may be called by several (frames never interleave).
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "worker/message.h"

namespace lares::worker {

class Channel {
 public:
  // Takes the descriptor over (a SOCK_STREAM end) and closes it in the destructor.
  explicit Channel(int fd);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  [[nodiscard]] int fd() const { return fd_; }

  // Writes the whole frame; blocks while the peer is slow. Errors: Io when the peer is gone.
  // Both ends may block in here only because each worker has a thread that does nothing but read.
  Result<> send(const Message& message);

  // Blocks for the next message. Errors: Io at end of stream, Corrupt for a malformed frame.
  Result<Message> receive();

  // Reads what has arrived, without blocking, and appends whole messages to `out`. Errors as
  // receive; messages that came before the end are delivered first.
  Result<> receive_available(std::vector<Message>& out);

 private:
  // The next whole message of what has been read; nothing if it has not all arrived.
  Result<std::optional<Message>> next_buffered();
  // One recv(2); 0 if nothing is there and `flags` say not to wait.
  Result<std::size_t> read_some(int flags);

  int fd_;
  std::mutex send_mutex_;
  std::string send_buffer_;
  std::string buffer_;  // Received, not yet decoded from offset_ on.
  std::size_t offset_ = 0;
};

// A connected pair of descriptors, close-on-exec. Errors: Io.
Result<std::pair<int, int>> socket_pair();

}  // namespace lares::worker
