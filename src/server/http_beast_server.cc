// The listening socket, the I/O thread, and stopping.
#include <sys/resource.h>

#include <cerrno>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/assert.h"
#include "core/log.h"
#include "server/compute_first.h"
#include "server/http_beast.h"

namespace lares::server {
namespace beast_http {
namespace {

using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
constexpr asio::use_awaitable_t<Executor> kAwait{};

// Connections that are being told that there are too many; more are closed without a word.
constexpr std::uint32_t kRefusedMax = 64;
// Pause when the system has no descriptor for another connection.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Each connection takes a descriptor, and many systems start programs with 1,024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    log_warn("the limit on open files could not be raised", {{"errno", errno}});
  }
}

// A client whose machine has gone sends no end of stream: the kernel asks after half a minute of
// silence, and gives up after another.
void set_socket_options(Socket& socket) {
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  using Idle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using Count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  socket.set_option(Idle(30), ignored);
  socket.set_option(Interval(10), ignored);
  socket.set_option(Count(3), ignored);
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(HttpOptions options, HttpHandler handler)
      : acceptor_(shared_.io), pause_(shared_.io) {
    shared_.options = std::move(options);
    shared_.handler = std::move(handler);
    shared_.id_prefix = fmt::format("req-{:08x}-", std::random_device{}());
  }
  BeastServer(const BeastServer&) = delete;
  BeastServer& operator=(const BeastServer&) = delete;

  ~BeastServer() override {
    if (!thread_.joinable()) return;
    LARES_ASSERT(thread_.get_id() != std::this_thread::get_id(), "stopped by its own thread");
    asio::post(shared_.io, [this] { stop(); });
    thread_.join();
  }

  [[nodiscard]] Result<> listen();
  void start();

  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::uint64_t connections() const override {
    return shared_.connection_count.load(std::memory_order_relaxed);
  }

 private:
  void stop();
  void admit(Socket socket);
  Task<void> accept();

  Shared shared_;
  Acceptor acceptor_;
  Timer pause_;
  bool stopping_ = false;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

Result<> BeastServer::listen() {
  const HttpOptions& options = shared_.options;
  ErrorCode ec;
  const std::string name = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(name, ec);
  if (ec) {
    return fail(Code::Invalid,
                fmt::format("cannot listen on `{}`: it must be an IP address such as 127.0.0.1",
                            options.address));
  }
  const tcp::endpoint endpoint(address, options.port);
  const char* doing = "open";
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) {
    doing = "bind";
    acceptor_.bind(endpoint, ec);
  }
  if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
  if (ec == asio::error::address_in_use) {
    return fail(Code::Conflict,
                fmt::format("port {} on {} is in use by another program; choose another with "
                            "`--listen {}:PORT` (0 picks a free one)",
                            options.port, options.address, options.address));
  }
  if (ec) {
    return fail(ec == boost::system::errc::address_not_available ? Code::Invalid : Code::Io,
                fmt::format("cannot listen on {}:{} ({}): {}", options.address, options.port, doing,
                            ec.message()));
  }
  port_ = acceptor_.local_endpoint().port();
  return {};
}

void BeastServer::start() {
  asio::co_spawn(shared_.io, accept(), asio::detached);
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "lares-http");
    let_compute_go_first();
    shared_.io.run();
  });
}

void BeastServer::stop() {
  stopping_ = true;
  ErrorCode ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  // abort() may end a connection's last coroutine later, never now: the set does not change here.
  for (Connection* connection : shared_.connections) connection->abort();
  shared_.hub->close();
}

void BeastServer::admit(Socket socket) {
  set_socket_options(socket);
  const bool full = shared_.connection_count.load(std::memory_order_relaxed) - shared_.refused >=
                    shared_.options.connections_max;
  if (full && shared_.refused >= kRefusedMax) return;  // Closed by going out of scope.
  const Admission admission = full ? Admission::Refused : Admission::Served;
  std::make_shared<Connection>(std::move(socket), shared_, admission)->start();
}

Task<void> BeastServer::accept() {
  while (!stopping_) {
    ErrorCode ec;
    Socket socket = co_await acceptor_.async_accept(asio::redirect_error(kAwait, ec));
    if (stopping_) break;
    if (!ec) {
      admit(std::move(socket));
    } else if (ec != asio::error::connection_aborted) {
      log_warn("no connection could be accepted", {{"reason", ec.message()}});
      pause_.expires_after(kAcceptPause);
      co_await pause_.async_wait(asio::redirect_error(kAwait, ec));
    }
  }
}

}  // namespace
}  // namespace beast_http

Result<std::unique_ptr<HttpServer>> HttpServer::create(HttpOptions options, HttpHandler handler) {
  beast_http::raise_descriptor_limit();
  auto server = std::make_unique<beast_http::BeastServer>(std::move(options), std::move(handler));
  TRY_VOID(server->listen());
  server->start();
  return server;
}

}  // namespace lares::server
