#include "app/chat_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "core/json.h"

namespace lares::app {
namespace {

constexpr std::size_t kHeadMax = 64U << 10U;

// A socket that closes itself.
struct Socket {
  int fd = -1;
  explicit Socket(int open) : fd(open) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

bool starts_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  for (std::size_t i = 0; i < lower.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failed != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

const std::string* string_at(const json::Value* value, std::string_view name) {
  const json::Value* found = value == nullptr ? nullptr : value->find(name);
  return found == nullptr ? nullptr : found->as<std::string>();
}

// What an error of the server says, or nothing if `body` is none.
std::optional<Error> error_in(const json::Value& body, int status) {
  const json::Value* error = body.find("error");
  if (error == nullptr || error->is_null()) return std::nullopt;
  const std::string* message = string_at(error, "message");
  const std::string* code = string_at(error, "code");
  std::string text = message != nullptr ? *message : fmt::format("status {}", status);
  if (code != nullptr && *code == "missing_api_key") {
    text += ". Give it with --key or in the environment variable LARES_KEY";
  }
  return Error{status == 429 || status == 503 ? Code::Busy : Code::Invalid, std::move(text)};
}

// One event of the stream onto the answer.
Result<> read_event(const std::string& data, ChatAnswer& answer, const OnPiece& on_piece) {
  const json::Value event = TRY(json::parse(data));
  if (auto error = error_in(event, 200)) return tl::unexpected(std::move(*error));
  const json::Value* choices = event.find("choices");
  const auto* list = choices == nullptr ? nullptr : choices->as<json::Array>();
  if (list == nullptr || list->empty()) return {};
  if (const std::string* finish = string_at(&list->front(), "finish_reason")) {
    answer.finish = *finish;
  }
  const json::Value* delta = list->front().find("delta");
  if (const std::string* thought = string_at(delta, "reasoning_content")) {
    on_piece(Said::Thought, *thought);
  }
  const std::string* text = string_at(delta, "content");
  if (text == nullptr || text->empty()) return {};
  answer.text += *text;
  on_piece(Said::Text, *text);
  return {};
}

}  // namespace

Result<ServerAddress> parse_server_address(std::string_view text) {
  const std::string written(text);
  if (text.starts_with("http://")) text.remove_prefix(7);
  while (text.ends_with('/')) text.remove_suffix(1);
  ServerAddress out;
  const std::size_t colon = text.rfind(':');
  const auto port = colon == text.npos ? std::nullopt : number(text.substr(colon + 1), 10);
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!port || *port == 0 || *port > 65535 || host.empty() || host.find('/') != host.npos) {
    return fail(Code::Invalid,
                fmt::format("`{}` is not a server such as http://127.0.0.1:8080", written));
  }
  out.host = host;
  out.port = static_cast<std::uint16_t>(*port);
  return out;
}

Result<bool> BodyReader::read_head() {
  const std::size_t end = in_.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (in_.size() > kHeadMax) return fail(Code::Corrupt, "the answer's head does not end");
    return false;
  }
  const std::string_view head(in_.data(), end);
  const auto status = head.starts_with("HTTP/1.") && head.size() > 12
                          ? number(head.substr(9, 3), 10)
                          : std::nullopt;
  if (!status) return fail(Code::Corrupt, "this is not an HTTP server");
  status_ = static_cast<int>(*status);
  for (std::size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (starts_ignoring_case(line, "transfer-encoding: chunked")) chunked_ = true;
    if (starts_ignoring_case(line, "content-length:")) {
      left_ = static_cast<std::int64_t>(number(line.substr(15), 10).value_or(0));
    }
  }
  in_.erase(0, end + 4);
  return true;
}

// False if there is not a whole one yet.
Result<bool> BodyReader::read_chunk() {
  const std::size_t line = in_.find("\r\n");
  if (line == std::string::npos) return false;
  const auto size = number(in_.substr(0, line), 16);
  if (!size) return fail(Code::Corrupt, "a malformed chunk");
  if (in_.size() < line + 2 + *size + 2) return false;
  body_.append(in_, line + 2, *size);
  in_.erase(0, line + 2 + *size + 2);
  complete_ = *size == 0;
  return !complete_;
}

Result<> BodyReader::add(std::string_view bytes) {
  in_ += bytes;
  if (status_ == 0 && !TRY(read_head())) return {};
  if (chunked_) {
    while (TRY(read_chunk())) continue;
    return {};
  }
  if (left_ >= 0) {
    left_ -= static_cast<std::int64_t>(in_.size());
    complete_ = left_ <= 0;
  }
  body_ += in_;
  in_.clear();
  return {};
}

std::string BodyReader::take() {
  return std::exchange(body_, {});
}

std::optional<std::string> EventReader::next() {
  while (true) {
    const std::size_t end = in_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = in_.substr(0, end);
    in_.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with("data: ")) return line.substr(6);
  }
}

ChatClient::ChatClient(ServerAddress server, std::string key, std::string cls, int interrupt_fd)
    : server_(std::move(server)),
      key_(std::move(key)),
      cls_(std::move(cls)),
      interrupt_fd_(interrupt_fd) {}

Result<int> ChatClient::connect() const {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(server_.port);
  if (::getaddrinfo(server_.host.c_str(), port.c_str(), &hints, &found) != 0) {
    return fail(Code::Unavailable, fmt::format("there is no machine called {}", server_.host));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  std::string why;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0) return fd;
    why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
  }
  return fail(Code::Unavailable,
              fmt::format("no server answers at {}:{} ({}). Start one with `lares serve`, or say "
                          "where it is with --server",
                          server_.host, server_.port, why));
}

std::string ChatClient::head(std::string_view method, std::string_view path,
                             std::size_t body_bytes) const {
  const bool v6 = server_.host.find(':') != std::string::npos;
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n", method,
                                path, v6 ? "[" + server_.host + "]" : server_.host, server_.port);
  if (!key_.empty()) out += fmt::format("Authorization: Bearer {}\r\n", key_);
  if (!cls_.empty()) out += fmt::format("X-Lares-Class: {}\r\n", cls_);
  if (body_bytes > 0) {
    out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body_bytes);
  }
  return out + "\r\n";
}

Result<bool> ChatClient::exchange(const std::string& request, int& status,
                                  const std::function<Result<>(std::string)>& on_body) const {
  const Socket socket(TRY(connect()));
  std::string_view left = request;
  while (!left.empty()) {
    const ssize_t sent = ::send(socket.fd, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;  // It may have answered already: a refusal is read below.
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  BodyReader reader;
  std::array<char, 16384> buffer{};
  while (!reader.complete()) {
    std::array<pollfd, 2> fds{{{socket.fd, POLLIN, 0}, {interrupt_fd_, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;  // A signal; its pipe tells next time.
    if (fds[1].revents != 0) return false;
    const ssize_t got = ::recv(socket.fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    TRY_VOID(reader.add({buffer.data(), static_cast<std::size_t>(got)}));
    status = reader.status();
    TRY_VOID(on_body(reader.take()));
  }
  if (reader.status() == 0) return fail(Code::Unavailable, "the server closed the connection");
  return true;
}

Result<ChatAnswer> ChatClient::ask(const std::string& body, const OnPiece& on_piece) const {
  ChatAnswer answer;
  EventReader events;
  std::string refusal;
  bool done = false;
  int status = 0;
  const auto read = [&](const std::string& piece) -> Result<> {
    if (status != 200) {
      refusal += piece;
      return {};
    }
    events.add(piece);
    while (const auto data = events.next()) {
      if (*data == "[DONE]") {
        done = true;
      } else {
        TRY_VOID(read_event(*data, answer, on_piece));
      }
    }
    return {};
  };
  const std::string request = head("POST", "/v1/chat/completions", body.size()) + body;
  answer.interrupted = !TRY(exchange(request, status, read));
  if (answer.interrupted) return answer;
  if (status != 200) {
    const auto parsed = json::parse(refusal);
    auto error = parsed ? error_in(*parsed, status) : std::nullopt;
    return tl::unexpected(error.value_or(
        Error{Code::Invalid, fmt::format("the server answered with status {}", status)}));
  }
  if (!done) return fail(Code::Unavailable, "the connection ended in the middle of the answer");
  return answer;
}

Result<ChatClient::Answered> ChatClient::request(std::string_view method, std::string_view path,
                                                 const std::string& body) const {
  Answered answered;
  const auto read = [&answered](const std::string& piece) -> Result<> {
    answered.body += piece;
    return {};
  };
  if (!TRY(exchange(head(method, path, body.size()) + body, answered.status, read))) {
    return fail(Code::Io, "interrupted");
  }
  return answered;
}

Result<std::string> ChatClient::get(std::string_view path) const {
  return whole(head("GET", path, 0));
}

Result<std::string> ChatClient::post(std::string_view path, const std::string& body) const {
  return whole(head("POST", path, body.size()) + body);
}

Result<> ChatClient::follow(std::string_view path,
                            const std::function<void(const std::string&)>& on_data) const {
  EventReader events;
  std::string refusal;
  int status = 0;
  const auto read = [&](const std::string& piece) -> Result<> {
    if (status != 200) {
      refusal += piece;
      return {};
    }
    events.add(piece);
    while (const auto data = events.next()) on_data(*data);
    return {};
  };
  if (!TRY(exchange(head("GET", path, 0), status, read))) return fail(Code::Io, "interrupted");
  if (status == 200) return {};
  const auto parsed = json::parse(refusal);
  auto error = parsed ? error_in(*parsed, status) : std::nullopt;
  return tl::unexpected(error.value_or(
      Error{Code::Invalid, fmt::format("the server answered with status {}", status)}));
}

Result<std::string> ChatClient::whole(const std::string& request) const {
  std::string body;
  int status = 0;
  const auto read = [&body](const std::string& piece) -> Result<> {
    body += piece;
    return {};
  };
  if (!TRY(exchange(request, status, read))) return fail(Code::Io, "interrupted");
  const auto parsed = json::parse(body);
  const bool good = status >= 200 && status < 300;
  auto error = parsed && !good ? error_in(*parsed, status) : std::nullopt;
  const json::Value* faults = parsed && !good ? parsed->find("errors") : nullptr;
  if (error && faults != nullptr && faults->as<json::Array>() != nullptr) {
    error->message.clear();
    for (const json::Value& fault : *faults->as<json::Array>()) {
      const std::string* code = string_at(&fault, "code");
      const std::string* message = string_at(&fault, "message");
      if (code == nullptr || message == nullptr) continue;
      const auto place = [&fault](std::string_view name) {
        const json::Value* number = fault.find(name);
        return number == nullptr ? 0 : number->integer().value_or(0);
      };
      error->message +=
          fmt::format("{}{} line {}, column {}: {}", error->message.empty() ? "" : "\n", *code,
                      place("line"), place("column"), *message);
    }
  }
  if (error) return tl::unexpected(std::move(*error));
  if (!good) {
    return fail(Code::Invalid, fmt::format("the server answered with status {}", status));
  }
  return body;
}

Result<std::vector<std::string>> ChatClient::models() const {
  const json::Value parsed = TRY(json::parse(TRY(get("/v1/models"))));
  std::vector<std::string> names;
  const json::Value* data = parsed.find("data");
  const auto* list = data == nullptr ? nullptr : data->as<json::Array>();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (const std::string* name = string_at(&(*list)[i], "id")) names.push_back(*name);
  }
  return names;
}

}  // namespace lares::app
