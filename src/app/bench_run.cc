#include "app/bench_run.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "core/json.h"
#include "core/text.h"

namespace lares::app {
namespace {

constexpr std::size_t kErrorMax = 300;  // Bytes of a refusal that are kept.
constexpr int kPollMs = 100;            // So often the time is looked at, if nothing comes.

// One request under way. Owns its socket.
struct Flight {
  int fd = -1;
  std::uint32_t lane = 0;
  std::size_t record = 0;
  std::string out;
  std::size_t sent = 0;
  BodyReader reader;
  EventReader events;
  std::string refusal;

  Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() {
    if (fd >= 0) ::close(fd);
  }
};

// The member `name` of an object within `value`, as a number of tokens.
std::uint32_t tokens_at(const json::Value& value, std::string_view name) {
  const json::Value* found = value.find(name);
  return static_cast<std::uint32_t>(
      found == nullptr ? 0 : std::clamp<std::int64_t>(found->integer().value_or(0), 0, 1 << 30));
}

bool has_text(const json::Value& delta) {
  for (const char* name : {"content", "reasoning_content"}) {
    const json::Value* found = delta.find(name);
    const auto* text = found == nullptr ? nullptr : found->as<std::string>();
    if (text != nullptr && !text->empty()) return true;
  }
  return false;
}

std::string error_text(const json::Value& error) {
  const json::Value* message = error.find("message");
  const auto* text = message == nullptr ? nullptr : message->as<std::string>();
  return text != nullptr ? *text : json::to_text(error);
}

// One event onto the record. True if it was the last.
bool take_event(const std::string& data, Duration now, BenchRecord& record) {
  if (data == "[DONE]") {
    record.done = now;
    return true;
  }
  const auto event = json::parse(data);
  if (!event) {
    record.error = "an event that is no JSON: " + event.error().message;
    return true;
  }
  if (const json::Value* error = event->find("error"); error != nullptr && !error->is_null()) {
    record.error = error_text(*error);
    return true;
  }
  if (const json::Value* usage = event->find("usage"); usage != nullptr && !usage->is_null()) {
    record.prompt = tokens_at(*usage, "prompt_tokens");
    record.output = tokens_at(*usage, "completion_tokens");
  }
  const json::Value* choices = event->find("choices");
  const auto* list = choices == nullptr ? nullptr : choices->as<json::Array>();
  const json::Value* delta =
      list == nullptr || list->empty() ? nullptr : list->front().find("delta");
  if (delta != nullptr && has_text(*delta)) record.pieces.push_back(now);
  return false;
}

class Runner {
 public:
  Runner(const BenchTarget& target, const BenchLimits& limits, Load& load, std::uint64_t seed)
      : target_(target), limits_(limits), load_(load), seed_(seed) {}

  Result<BenchRun> run(int interrupt_fd);

 private:
  [[nodiscard]] Duration now() const { return std::chrono::steady_clock::now() - start_; }
  Result<> resolve();
  void send_due();
  void start(Load::Due due);
  // True if the flight is over.
  bool go_on(Flight& flight, short events);
  bool write(Flight& flight);
  bool read(Flight& flight);
  void take_body(Flight& flight);
  void finish(Flight& flight);
  [[nodiscard]] int wait_ms() const;
  [[nodiscard]] bool at_end() const;

  const BenchTarget& target_;
  const BenchLimits& limits_;
  Load& load_;
  std::uint64_t seed_;
  sockaddr_storage address_{};
  socklen_t address_bytes_ = 0;
  std::chrono::steady_clock::time_point start_;
  BenchRun run_;
  std::vector<std::unique_ptr<Flight>> flights_;
};

// The first address that takes connections is the one for all of them.
Result<> Runner::resolve() {
  // Also says it best where nobody listens.
  const std::string& key = target_.keys.empty() ? target_.key : target_.keys.begin()->second;
  const auto greeted = TRY(ChatClient(target_.server, key, "", -1).request("GET", "/v1/models"));
  if (greeted.status == 401 || greeted.status == 403)
    return fail(Code::Invalid, "the server asks for keys: --key MEMBER=KEY, or $LARES_KEY for all");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(target_.server.port);
  if (::getaddrinfo(target_.server.host.c_str(), port.c_str(), &hints, &found) != 0)
    return fail(Code::Unavailable, "there is no machine called " + target_.server.host);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool open = fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0;
    if (fd >= 0) ::close(fd);
    if (!open) continue;
    std::memcpy(&address_, at->ai_addr, at->ai_addrlen);
    address_bytes_ = at->ai_addrlen;
    return {};
  }
  return fail(Code::Unavailable, "the server does not answer any more");
}

void Runner::start(Load::Due due) {
  const auto own = target_.keys.find(due.ask.member);
  const std::string& key = own == target_.keys.end() ? target_.key : own->second;
  auto flight = std::make_unique<Flight>();
  const std::string body = bench_body(due.ask, target_.model, seed_, due.number);
  flight->out = ChatClient(target_.server, key, due.ask.cls, -1)
                    .head("POST", "/v1/chat/completions", body.size()) +
                body;
  flight->lane = due.lane;
  flight->record = run_.records.size();
  run_.records.push_back({.member = due.ask.member, .cls = due.ask.cls, .sent = now()});
  const int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  flight->fd = ::socket(address_.ss_family, kind, 0);
  const auto* address = reinterpret_cast<const sockaddr*>(&address_);
  if (flight->fd < 0 ||
      (::connect(flight->fd, address, address_bytes_) != 0 && errno != EINPROGRESS)) {
    run_.records.back().error = std::strerror(errno);
    load_.over(due.lane, now(), true);
    return;
  }
  flights_.push_back(std::move(flight));
}

void Runner::send_due() {
  while (flights_.size() < limits_.under_way && run_.records.size() < limits_.requests) {
    auto due = load_.due(now());
    if (!due) return;
    start(std::move(*due));
  }
}

bool Runner::write(Flight& flight) {
  while (flight.sent < flight.out.size()) {
    const ssize_t sent = ::send(flight.fd, flight.out.data() + flight.sent,
                                flight.out.size() - flight.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) {
      run_.records[flight.record].error = std::strerror(errno);
      return true;
    }
    flight.sent += static_cast<std::size_t>(sent);
  }
  return false;
}

void Runner::take_body(Flight& flight) {
  BenchRecord& record = run_.records[flight.record];
  const std::string body = flight.reader.take();
  if (flight.reader.status() != 200) {
    flight.refusal +=
        body.substr(0, kErrorMax * 4 - std::min(kErrorMax * 4, flight.refusal.size()));
    return;
  }
  flight.events.add(body);
  while (const auto data = flight.events.next()) {
    if (take_event(*data, now(), record)) return;
  }
}

// At most one buffer, so that no stream keeps the others' times waiting.
bool Runner::read(Flight& flight) {
  BenchRecord& record = run_.records[flight.record];
  std::array<char, 16384> buffer{};
  const ssize_t got = ::recv(flight.fd, buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return true;
  if (const auto added = flight.reader.add({buffer.data(), static_cast<std::size_t>(got)});
      !added) {
    record.error = added.error().message;
    return true;
  }
  if (flight.reader.status() != 0) take_body(flight);
  return record.done || !record.error.empty() || flight.reader.complete();
}

bool Runner::go_on(Flight& flight, short events) {
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && read(flight)) return true;
  return (events & POLLOUT) != 0 && write(flight);
}

// What a flight that is over came to.
void Runner::finish(Flight& flight) {
  BenchRecord& record = run_.records[flight.record];
  if (!record.done && record.error.empty()) {
    const int status = flight.reader.status();
    const auto parsed = json::parse(flight.refusal);
    const json::Value* error = parsed ? parsed->find("error") : nullptr;
    if (error != nullptr) {
      record.error = fmt::format("status {}: {}", status, error_text(*error));
    } else if (status != 0 && status != 200) {
      record.error = fmt::format("status {}: {}", status, utf8_sanitised(flight.refusal));
    } else {
      record.error = "the connection ended in the middle of the answer";
    }
  }
  if (record.error.size() > kErrorMax) record.error.resize(kErrorMax);
  record.error = utf8_sanitised(record.error);
  load_.over(flight.lane, now(), !record.error.empty());
}

int Runner::wait_ms() const {
  const auto next = flights_.size() < limits_.under_way ? load_.next() : std::nullopt;
  if (!next) return kPollMs;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kPollMs));
}

bool Runner::at_end() const {
  if (now() > load_.length() + limits_.drain) return true;
  if (!flights_.empty()) return false;
  return !load_.next() || run_.records.size() >= limits_.requests;
}

Result<BenchRun> Runner::run(int interrupt_fd) {
  TRY_VOID(resolve());
  start_ = std::chrono::steady_clock::now();
  run_.length = load_.length();
  std::vector<pollfd> fds;
  while (true) {
    send_due();
    if (at_end()) break;
    fds.assign(1, {interrupt_fd, POLLIN, 0});
    for (const auto& flight : flights_) {
      const bool writes = flight->sent < flight->out.size();
      fds.push_back({flight->fd, static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (::poll(fds.data(), fds.size(), wait_ms()) < 0) continue;  // A signal.
    if (fds[0].revents != 0) {
      run_.interrupted = true;
      break;
    }
    for (std::size_t i = flights_.size(); i-- > 0;) {
      if (fds[i + 1].revents == 0 || !go_on(*flights_[i], fds[i + 1].revents)) continue;
      finish(*flights_[i]);
      flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  run_.wall = now();
  return std::move(run_);
}

}  // namespace

std::string bench_body(const Ask& ask, const std::string& model, std::uint64_t seed,
                       std::uint64_t number) {
  json::Array messages;
  const auto message = [&messages](const char* role, std::string content) {
    messages.emplace_back(json::Object{{"role", role}, {"content", std::move(content)}});
  };
  if (ask.shared_words > 0) message("system", shared_words(ask.shared_words));
  message("user", own_words(seed, number, ask.words));
  json::Object body;
  if (!model.empty()) body.emplace_back("model", model);
  body.emplace_back("messages", std::move(messages));
  body.emplace_back("max_tokens", std::int64_t{ask.output});
  body.emplace_back("temperature", 0.8);
  body.emplace_back("stream", true);
  body.emplace_back("stream_options", json::Object{{"include_usage", true}});
  body.emplace_back("ignore_eos", true);  // So that every answer is as long as it should be.
  return json::to_text(body);
}

Result<BenchRun> run_bench(const BenchTarget& target, const BenchLimits& limits, Load& load,
                           std::uint64_t seed, int interrupt_fd) {
  return Runner(target, limits, load, seed).run(interrupt_fd);
}

}  // namespace lares::app
