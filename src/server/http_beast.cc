// One connection: reading, parsing, limits, writing.
//
// Nothing with braces or a lambda stands to the right of a co_await here: g++ 12 destroys such
// temporaries twice.
#include "server/http_beast.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>

#include "core/log.h"

namespace lares::server::beast_http {
namespace {

constexpr asio::use_awaitable_t<Executor> kAwait{};

// Read ahead of what is being answered, per connection. Enough for a flood of small pipelined
// requests; a client that sends more waits.
constexpr std::size_t kReadAheadMax = 128U << 10U;
// A buffer that is larger goes back to the allocator between requests: idle connections are many.
constexpr std::size_t kKeptBufferMax = 4U << 10U;
// Time for a client to read our last words before the connection goes.
constexpr auto kLinger = std::chrono::seconds(2);
constexpr std::size_t kHeadersMax = 256;

ApiError protocol_error(int status, std::string message, std::string error_code) {
  ApiError error;
  error.code = status >= 500 ? Code::Unsupported : Code::Invalid;
  error.message = std::move(message);
  error.error_code = std::move(error_code);
  error.status = status;
  return error;
}

ApiError parse_problem(const ErrorCode& ec, const HttpOptions& options) {
  if (ec == http::error::header_limit) {
    return protocol_error(
        431,
        fmt::format("the head of the request is larger than {} bytes", options.header_bytes_max),
        "header_too_large");
  }
  if (ec == http::error::body_limit) {
    return protocol_error(413,
                          fmt::format("the body is larger than {} bytes", options.body_bytes_max),
                          "body_too_large");
  }
  return protocol_error(400, fmt::format("not a valid HTTP/1.1 request: {}", ec.message()),
                        "bad_http");
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

void trim_buffer(std::string& buffer) {
  if (buffer.capacity() <= kKeptBufferMax || buffer.size() > kKeptBufferMax) return;
  std::string smaller(buffer);
  buffer.swap(smaller);
}

}  // namespace

Connection::Connection(Socket socket, Shared& shared, Admission admission)
    : shared_(shared),
      socket_(std::move(socket)),
      wake_(shared.io.get_executor(), Clock::time_point::max()),
      watchdog_(shared.io.get_executor()),
      admission_(admission) {
  shared_.connections.insert(this);
  shared_.connection_count.fetch_add(1, std::memory_order_relaxed);
  if (admission_ == Admission::Refused) ++shared_.refused;
}

Connection::~Connection() {
  account_body(0);
  if (admission_ == Admission::Refused) --shared_.refused;
  shared_.connection_count.fetch_sub(1, std::memory_order_relaxed);
  shared_.connections.erase(this);
}

void Connection::start() {
  const auto ended = [self = shared_from_this()](std::exception_ptr problem) {
    if (!problem) return;
    try {
      std::rethrow_exception(problem);
    } catch (const std::exception& e) {  // Out of memory, in the main.
      log_error("a connection failed", {{"reason", e.what()}});
    }
    self->abort();
  };
  asio::co_spawn(shared_.io.get_executor(), read_bytes(), ended);
  asio::co_spawn(shared_.io.get_executor(), serve(), ended);
}

void Connection::abort() {
  if (!closed_) {
    closed_ = true;
    ErrorCode ignored;
    socket_.close(ignored);
    watchdog_.cancel();
    wake_.cancel();
  }
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->abandon();
}

// --- Limits
// ---------------------------------------------------------------------------------------

void Connection::set_deadline(Clock::time_point at, AtLimit then) {
  deadline_ = at;
  at_limit_ = then;
  if (at < armed_until_) arm_watchdog(at);
}

void Connection::arm_watchdog(Clock::time_point at) {
  armed_until_ = at;
  watchdog_.expires_at(at);
  watchdog_.async_wait([weak = weak_from_this()](const ErrorCode& ec) {
    const auto self = weak.lock();
    if (!ec && self) self->on_watchdog();
  });
}

void Connection::on_watchdog() {
  armed_until_ = kNever;
  if (closed_ || deadline_ == kNever) return;
  if (Clock::now() < deadline_) return arm_watchdog(deadline_);
  if (at_limit_ == AtLimit::Answer) {
    timed_out_ = true;
    notify();
    return;
  }
  if (at_limit_ == AtLimit::Reset) return reset();
  abort();
}

// For a client that does not read: it gets nothing more from the kernel's buffers either.
void Connection::reset() {
  ErrorCode ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  abort();
}

void Connection::exchange_ready(BeastExchange& exchange) {
  if (exchange.overflowed()) return reset();  // serve() may be waiting for the socket.
  notify();
}

// --- Reading
// --------------------------------------------------------------------------------------

// A plain wait for readiness and a read into the buffer shared by all: an idle connection has none.
Task<void> Connection::read_bytes() {
  const auto self = shared_from_this();
  ErrorCode ec;
  while (!closed_) {
    if (in_.size() >= kReadAheadMax && !discard_) {
      reader_paused_ = true;
      co_await wait_for_wake();
      continue;
    }
    reader_paused_ = false;
    co_await socket_.async_wait(tcp::socket::wait_read, asio::redirect_error(kAwait, ec));
    if (ec || closed_) break;
    const std::size_t n = socket_.read_some(asio::buffer(shared_.scratch), ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) continue;
    if (ec == asio::error::eof) break;
    if (ec) {
      abort();
      break;
    }
    if (!discard_) in_.append(shared_.scratch.data(), n);
    notify();
  }
  end_of_stream();
}

void Connection::end_of_stream() {
  eof_ = true;
  // Nobody waits for an answer that is not there yet.
  if (exchange_ && !exchange_->finished()) abort();
  notify();
}

Task<void> Connection::wait_for_wake() {
  return wake_.async_wait(asio::redirect_error(kAwait, wake_error_));
}

// Hands what was read to the parser, up to the end of the head or of the request.
std::optional<ApiError> Connection::feed() {
  const bool head = !parser_->is_header_done();
  while (!in_.empty()) {
    ErrorCode ec;
    const std::size_t used = parser_->put(asio::buffer(in_), ec);
    in_.erase(0, used);
    if (reader_paused_) notify();
    if (ec == http::error::need_more) return std::nullopt;
    if (ec) return parse_problem(ec, shared_.options);
    if (parser_->is_done() || (head && parser_->is_header_done())) return std::nullopt;
  }
  return std::nullopt;
}

// RFC 9112 2.2: an empty line before a request is ignored.
void Connection::skip_blank_line() {
  while (in_.starts_with("\r\n")) in_.erase(0, 2);
}

// A body counts from its first byte until its request is answered.
std::optional<ApiError> Connection::account_body(std::uint64_t bytes) {
  shared_.body_bytes += bytes - body_bytes_;
  body_bytes_ = bytes;
  if (shared_.body_bytes <= shared_.options.bodies_bytes_max || bytes == 0) return std::nullopt;
  ApiError error;
  error.code = Code::Unavailable;
  error.error_code = "bodies_too_large";
  error.message = fmt::format(
      "the bodies of all requests together are larger than {} bytes; try "
      "again later",
      shared_.options.bodies_bytes_max);
  return error;
}

Task<bool> Connection::read_head() {
  account_body(0);
  trim_buffer(in_);
  trim_buffer(out_);
  set_limit(shared_.options.idle_limit, AtLimit::Close);
  for (skip_blank_line(); in_.empty(); skip_blank_line()) {
    if (eof_ || closed_) co_return false;
    co_await wait_for_wake();
  }
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(shared_.options.header_bytes_max);
  parser_->body_limit(shared_.options.body_bytes_max);
  set_limit(shared_.options.header_limit, AtLimit::Answer);
  while (true) {
    std::optional<ApiError> problem = feed();
    if (!problem && parser_->is_header_done()) problem = check_head();
    if (!problem && parser_->is_header_done()) co_return true;
    if (!problem && timed_out_) {
      problem =
          protocol_error(408, "the head of the request did not arrive in time", "request_timeout");
    }
    if (problem) {
      co_await refuse(*problem);
      co_return false;
    }
    if (eof_ || closed_) co_return false;
    co_await wait_for_wake();
  }
}

// What Beast lets pass and we do not: ways to say two lengths at once, above all.
std::optional<ApiError> Connection::check_head() const {
  const auto& head = parser_->get();
  if (head.version() != 10 && head.version() != 11) {
    return protocol_error(505, "only HTTP/1.0 and HTTP/1.1 are spoken here", "http_version");
  }
  if (std::distance(head.begin(), head.end()) > static_cast<std::ptrdiff_t>(kHeadersMax)) {
    return protocol_error(431, fmt::format("more than {} header fields", kHeadersMax),
                          "header_too_large");
  }
  if (const auto encodings = head.count(http::field::transfer_encoding); encodings != 0) {
    if (head.count(http::field::content_length) != 0 || head.version() == 10) {
      return protocol_error(400, "Transfer-Encoding beside Content-Length, or in HTTP/1.0",
                            "bad_http");
    }
    if (encodings > 1 || lower(view(head[http::field::transfer_encoding])) != "chunked") {
      return protocol_error(501, "the only Transfer-Encoding understood is `chunked`",
                            "transfer_encoding");
    }
  }
  const auto hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() == 11)) {
    return protocol_error(400, "a request needs exactly one Host header", "bad_http");
  }
  const auto expect = head.find(http::field::expect);
  if (expect != head.end() && lower(view(expect->value())) != "100-continue") {
    return protocol_error(417, "the only expectation understood is `100-continue`", "expectation");
  }
  const std::string_view target = view(head.target());
  if (!target.starts_with('/') && target != "*") {
    return protocol_error(400, "the request target must be a path", "bad_http");
  }
  return std::nullopt;
}

Task<bool> Connection::read_body() {
  if (parser_->is_done()) co_return true;
  parser_->eager(true);
  if (in_.empty() && parser_->get().count(http::field::expect) != 0) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await write_out()) co_return false;
  }
  set_limit(shared_.options.body_limit, AtLimit::Answer);
  while (true) {
    std::optional<ApiError> problem = feed();
    if (!problem) problem = account_body(parser_->get().body().size());
    if (!problem && parser_->is_done()) co_return true;
    if (!problem && timed_out_) {
      problem =
          protocol_error(408, "the body of the request did not arrive in time", "request_timeout");
    }
    if (problem) {
      co_await refuse(*problem);
      co_return false;
    }
    if (eof_ || closed_) co_return false;
    co_await wait_for_wake();
  }
}

// --- Answering
// ------------------------------------------------------------------------------------

std::string Connection::next_id() {
  return fmt::format("{}{}", shared_.id_prefix, ++shared_.requests);
}

// Nothing if the path is not well-formed.
std::optional<HttpRequest> Connection::make_request() {
  auto& message = parser_->get();
  const std::string_view target = view(message.target());
  const std::size_t question = target.find('?');
  auto path = percent_decoded(target.substr(0, question));
  if (!path) return std::nullopt;
  HttpRequest request;
  request.method = view(message.method_string());
  request.path = std::move(*path);
  if (question != target.npos) request.query = target.substr(question + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(lower(view(field.name_string())), view(field.value()));
  }
  request.body = std::move(message.body());
  ErrorCode ignored;  // It has gone already: there is nobody to answer then.
  const auto peer = socket_.remote_endpoint(ignored);
  if (!ignored) request.peer = peer.address().to_string();
  request.id = next_id();
  return request;
}

// Calls the handler and writes what it answers, until all is written. False if the connection is
// not to be used again.
Task<bool> Connection::answer() {
  clear_deadline();
  Framing framing;
  framing.keep_alive = parser_->keep_alive();
  framing.chunks = parser_->get().version() == 11;
  framing.head_only = parser_->get().method() == http::verb::head;
  // A stream to an HTTP/1.0 client ends with the connection; so that nobody has to know in advance
  // what the answer will be, no HTTP/1.0 connection is kept.
  if (!framing.chunks) framing.keep_alive = false;
  std::optional<HttpRequest> request = make_request();
  parser_.reset();
  if (!request) {
    const ApiError problem = protocol_error(400, "the path is not well-formed", "bad_http");
    co_await refuse(problem);
    co_return false;
  }
  const auto exchange =
      std::make_shared<BeastExchange>(shared_.hub, weak_from_this(), std::move(*request), framing,
                                      shared_.options.stream_buffer_max);
  exchange_ = exchange;
  shared_.handler(exchange);
  while (true) {
    const BeastExchange::Taken taken = exchange->take(out_);
    if (taken == BeastExchange::Taken::Overflow) {
      reset();
      co_return false;
    }
    const bool idle = out_.empty();
    if (!idle && !co_await write_out()) co_return false;
    if (taken == BeastExchange::Taken::Last) break;
    if (closed_) co_return false;
    if (eof_ && !exchange->finished()) {
      abort();
      co_return false;
    }
    if (idle) co_await wait_for_wake();
  }
  exchange_.reset();
  exchange->complete();
  co_return framing.keep_alive;
}

// Writes at once what the socket takes, and waits only for the rest: a token on its way to a client
// that reads costs one system call.
Task<bool> Connection::write_out() {
  std::size_t sent = 0;
  while (true) {
    ErrorCode ec;
    if (closed_) co_return false;
    sent += socket_.write_some(asio::buffer(out_.data() + sent, out_.size() - sent), ec);
    if (!ec && sent == out_.size()) break;
    if (!ec) continue;
    if (ec != asio::error::would_block && ec != asio::error::try_again) {
      abort();
      co_return false;
    }
    set_limit(shared_.options.write_limit, AtLimit::Reset);
    co_await socket_.async_wait(tcp::socket::wait_write, asio::redirect_error(kAwait, ec));
    clear_deadline();
  }
  out_.clear();
  co_return true;
}

// Answers with an error and says that the connection ends.
Task<void> Connection::refuse(const ApiError& error) {
  HttpResponse response = error_response(error);
  response.headers.emplace_back("X-Request-Id", next_id());
  response.headers.emplace_back("Date", http_date(std::time(nullptr)));
  response.headers.emplace_back("Content-Type", response.content_type);
  response.headers.emplace_back("Content-Length", std::to_string(response.body.size()));
  response.headers.emplace_back("Connection", "close");
  out_ = response_head(response.status, response.headers) + response.body;
  parser_.reset();
  account_body(0);
  clear_deadline();
  co_await write_out();
}

Task<void> Connection::serve() {
  const auto self = shared_from_this();
  if (admission_ == Admission::Refused) {
    ApiError full;
    full.code = Code::Unavailable;
    full.error_code = "too_many_connections";
    full.message = fmt::format("{} connections are open, the most allowed; try again later",
                               shared_.options.connections_max);
    co_await refuse(full);
  } else {
    bool more = true;
    while (more) {
      more = co_await read_head();
      if (more) more = co_await read_body();
      if (more) more = co_await answer();
    }
  }
  co_await linger();
  abort();
}

// Closing while the client still sends would reset the connection, and the client might lose the
// answer; so our side is closed first and what comes is thrown away for a moment.
Task<void> Connection::linger() {
  if (closed_ || eof_) co_return;
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  discard_ = true;
  in_ = {};
  if (reader_paused_) notify();
  set_limit(std::min<Duration>(kLinger, shared_.options.idle_limit), AtLimit::Close);
  while (!closed_ && !eof_) co_await wait_for_wake();
}

}  // namespace lares::server::beast_http
