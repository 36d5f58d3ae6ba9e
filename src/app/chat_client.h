// The little of HTTP that our commands need to talk to a server: one request a connection, answers
// whole or as a stream of events.
//
// One thread; every wait also ends when `interrupt_fd` has something to read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace lares::app {

struct ServerAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
};

// "http://127.0.0.1:8080", "127.0.0.1:8080", "http://[::1]:8080". Errors: Invalid.
Result<ServerAddress> parse_server_address(std::string_view text);

// What a streamed answer came to.
struct ChatAnswer {
  std::string text;
  std::string finish;        // "stop", "length"...
  bool interrupted = false;  // By interrupt_fd; the server cancels what it was doing.
};

// What a piece of an answer is.
enum class Said : std::uint8_t { Text, Thought };
using OnPiece = std::function<void(Said, std::string_view)>;

// Takes the bytes of an HTTP/1.1 answer as they come and gives its body out: chunks put together.
class BodyReader {
 public:
  // Errors: Corrupt.
  Result<> add(std::string_view bytes);
  [[nodiscard]] int status() const { return status_; }  // 0 until the head is there.
  [[nodiscard]] bool complete() const { return complete_; }
  // What of the body has come since the last call.
  std::string take();

 private:
  Result<bool> read_head();
  Result<bool> read_chunk();

  std::string in_, body_;
  int status_ = 0;
  bool chunked_ = false, complete_ = false;
  std::int64_t left_ = -1;  // Of the body by Content-Length; -1: until the connection ends.
};

// Cuts events out of a stream of bytes: the data of each, without its line ends.
class EventReader {
 public:
  void add(std::string_view bytes) { in_ += bytes; }
  std::optional<std::string> next();

 private:
  std::string in_;
};

class ChatClient {
 public:
  ChatClient(ServerAddress server, std::string key, std::string cls, int interrupt_fd);

  // Sends `body` to /v1/chat/completions and hands on each piece that comes. Errors: Unavailable
  // (no server there; says what to do), what the server answered, Corrupt.
  Result<ChatAnswer> ask(const std::string& body, const OnPiece& on_piece) const;
  // The body of GET `path`. Errors: Unavailable (no server there), what the server answered.
  Result<std::string> get(std::string_view path) const;
  // Sends a request and returns what was answered, whatever it is. Errors: Unavailable.
  struct Answered {
    int status = 0;
    std::string body;
  };
  Result<Answered> request(std::string_view method, std::string_view path,
                           const std::string& body = "") const;
  // The same for POST. What several faults of a sketch say is in the error, a line each.
  Result<std::string> post(std::string_view path, const std::string& body) const;
  // GET of a stream of events, to its end: the data of each.
  Result<> follow(std::string_view path,
                  const std::function<void(const std::string&)>& on_data) const;
  // Names of the models.
  Result<std::vector<std::string>> models() const;
  // The head of a request with a body of so many bytes, for who sends it otherwise.
  [[nodiscard]] std::string head(std::string_view method, std::string_view path,
                                 std::size_t body_bytes) const;

 private:
  Result<int> connect() const;
  Result<std::string> whole(const std::string& request) const;
  // Calls `on_body` with what of the body has come, until all has; false if interrupted.
  Result<bool> exchange(const std::string& request, int& status,
                        const std::function<Result<>(std::string)>& on_body) const;

  ServerAddress server_;
  std::string key_, cls_;
  int interrupt_fd_;
};

}  // namespace lares::app
