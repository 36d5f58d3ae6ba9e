// The insides of the HTTP server: exchanges, connections and what they share. Included by
// http_beast*.cc only.
//
// A connection is two coroutines on the one I/O thread: read_bytes() does nothing but read and
// notice the end of the stream; serve() takes requests out of what was read, calls the handler and
// writes. serve() sleeps on the timer `wake_`, which never expires: notify() cancels its wait. One
// more timer per connection, the watchdog, stands for whatever limit applies at the moment; it is
// moved only when the limit comes nearer, so a stream does not touch it for each token.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/errors.h"
#include "server/http.h"

namespace lares::server::beast_http {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;
// A concrete executor: type-erased ones cost an indirection and an allocation for each operation.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;
template <class T>
using Task = asio::awaitable<T, Executor>;
using Clock = std::chrono::steady_clock;

class Connection;
class BeastExchange;

// Collects the exchanges that have something to send, from any thread, and wakes the I/O thread
// once for all of them. Shared with the exchanges, so that they may outlive the server.
class Hub : public std::enable_shared_from_this<Hub> {
 public:
  explicit Hub(asio::io_context& io) : io_(&io) {}
  void schedule(std::shared_ptr<BeastExchange> exchange);
  void run(std::function<void()> callback);  // On the I/O thread.
  void close();                              // What is handed in later is dropped.
 private:
  void drain();

  std::mutex mutex_;
  asio::io_context* io_;  // Null once closed.
  std::vector<std::shared_ptr<BeastExchange>> ready_;
  std::vector<std::shared_ptr<BeastExchange>> draining_;  // I/O thread only.
  bool posted_ = false;
};

// How an answer is to be framed.
struct Framing {
  bool keep_alive = true;
  bool chunks = true;      // False for HTTP/1.0: a stream ends with the connection.
  bool head_only = false;  // HEAD.
};

class BeastExchange final : public Exchange, public std::enable_shared_from_this<BeastExchange> {
 public:
  BeastExchange(std::shared_ptr<Hub> hub, std::weak_ptr<Connection> connection, HttpRequest request,
                Framing framing, std::uint64_t buffer_max);

  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_stream(int status, std::string content_type, Headers headers) override;
  void send(std::string data) override;
  void end_stream() override;
  void on_disconnect(std::function<void()> callback) override;

  // --- For the connection, on the I/O thread.
  enum class Taken : std::uint8_t { More, Last, Overflow };
  // Moves what waits to be written into `out`, framed.
  Taken take(std::string& out);
  // True once the answer is complete, written or not.
  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool overflowed() const;
  void complete();  // All was written: forgets the callback.
  void abandon();   // The client has gone: calls it.
  [[nodiscard]] std::shared_ptr<Connection> connection() const { return connection_.lock(); }

 private:
  enum class State : std::uint8_t { Waiting, Streaming, Finished };
  void wake(std::unique_lock<std::mutex> lock);

  const std::shared_ptr<Hub> hub_;
  const std::weak_ptr<Connection> connection_;
  const HttpRequest request_;
  const Framing framing_;
  const std::uint64_t buffer_max_;

  mutable std::mutex mutex_;
  State state_ = State::Waiting;
  bool streamed_ = false;
  bool gone_ = false;       // Nothing can be sent any more.
  bool completed_ = false;  // Because all was.
  bool overflow_ = false;
  bool scheduled_ = true;  // take() is on its way: it follows the call of the handler.
  std::string head_;
  std::string pending_;
  std::uint64_t in_flight_ = 0;  // Bytes of the last take().
  std::function<void()> callback_;
};

// What the connections of one server share. I/O thread only, but for the atomic.
struct Shared {
  HttpOptions options;
  HttpHandler handler;
  asio::io_context io{1};
  std::shared_ptr<Hub> hub = std::make_shared<Hub>(io);
  std::unordered_set<Connection*> connections;
  std::atomic<std::uint64_t> connection_count{0};
  std::uint32_t refused = 0;     // Connections beyond connections_max, being told so.
  std::uint64_t body_bytes = 0;  // Of all requests being received or answered.
  std::string id_prefix;         // Of request ids.
  std::uint64_t requests = 0;
  std::array<char, 64U << 10U> scratch;  // Every read goes through it: idle ones hold no buffer.
};

enum class Admission : std::uint8_t { Served, Refused };

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, Shared& shared, Admission admission);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void notify() { wake_.cancel(); }
  void exchange_ready(BeastExchange& exchange);  // It has something to be taken.
  void
  abort();  // Closes at once; an exchange that is not complete learns that the client has gone.

 private:
  using Parser = http::request_parser<http::string_body>;
  enum class AtLimit : std::uint8_t { Close, Answer, Reset };  // Answer: serve() sends 408.
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  Task<void> read_bytes();
  void end_of_stream();
  Task<void> serve();
  Task<bool> read_head();
  Task<bool> read_body();
  Task<bool> answer();
  Task<bool> write_out();
  Task<void> refuse(const ApiError& error);  // The error must outlive the co_await.
  Task<void> linger();
  Task<void> wait_for_wake();
  std::optional<ApiError> feed();
  [[nodiscard]] std::optional<ApiError> check_head() const;
  std::optional<HttpRequest> make_request();
  void skip_blank_line();
  std::optional<ApiError> account_body(std::uint64_t bytes);
  [[nodiscard]] std::string next_id();
  void set_deadline(Clock::time_point at, AtLimit then);
  void set_limit(Duration limit, AtLimit then) { set_deadline(Clock::now() + limit, then); }
  void clear_deadline() { deadline_ = kNever; }
  void arm_watchdog(Clock::time_point at);
  void on_watchdog();
  void reset();
  Shared& shared_;
  Socket socket_;
  Timer wake_;
  Timer watchdog_;
  Clock::time_point armed_until_ = kNever;
  Clock::time_point deadline_ = kNever;
  AtLimit at_limit_ = AtLimit::Close;
  Admission admission_;
  bool closed_ = false;
  bool eof_ = false;
  bool timed_out_ = false;
  bool discard_ = false;          // Lingering: what still comes is thrown away.
  bool reader_paused_ = false;    // `in_` is full.
  std::uint64_t body_bytes_ = 0;  // Its part of Shared::body_bytes.
  ErrorCode wake_error_;
  std::string in_;   // Read, not yet parsed; the next requests too, if they are pipelined.
  std::string out_;  // Being written.
  std::unique_ptr<Parser> parser_;
  std::shared_ptr<BeastExchange> exchange_;  // Until answered.
};

}  // namespace lares::server::beast_http
