// The receiving half of a worker: a thread that does nothing but read the channel.
//
// It keeps reading while the worker computes, so that the server's sends never block for longer
// than a copy takes, and so that an urgent message (Cancel) is seen while others still wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "worker/channel.h"

namespace lares::worker {

// A message and its place in the order of arrival, from 1.
struct Received {
  std::uint64_t number = 0;
  Message message;
};

class Inbox {
 public:
  // Called on the reading thread for each message before it is queued; true = taken, do not queue.
  using Urgent = std::function<bool(const Received&)>;

  Inbox(Channel& channel, Urgent urgent);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();  // Closes the connection, so that the thread ends, and joins it.

  // Blocks for the next message; nothing once the channel has closed: what is still queued is
  // dropped, for nobody is left to want it.
  std::optional<Received> next();

  // Whether next() would return at once.
  [[nodiscard]] bool has_next();

  // Ends the connection: the peer said something that makes no sense here.
  void close();

 private:
  void read();

  Channel& channel_;
  Urgent urgent_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Received> queue_;
  bool closed_ = false;
  std::thread reader_;
};

}  // namespace lares::worker
