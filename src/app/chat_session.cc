#include "app/chat_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/json.h"
#include "core/text.h"

namespace lares::app {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

void append_message(std::string& out, std::string_view role, std::string_view content) {
  out += "{\"role\":\"";
  append_json_escaped(out, role);
  out += "\",\"content\":\"";
  append_json_escaped(out, utf8_sanitised(content));
  out += "\"}";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

void ChatSession::add(std::string role, std::string content) {
  lines_.push_back({std::move(role), std::move(content)});
}

void ChatSession::drop_last() {
  if (!lines_.empty()) lines_.pop_back();
}

std::string ChatSession::request_body() const {
  std::string out = "{\"stream\":true,";
  if (!model.empty()) {
    out += "\"model\":\"";
    append_json_escaped(out, utf8_sanitised(model));
    out += "\",";
  }
  out += "\"messages\":[";
  if (!system.empty()) append_message(out, "system", system);
  for (const ChatLine& line : lines_) {
    if (out.back() != '[') out += ',';
    append_message(out, line.role, line.content);
  }
  return out + "]}";
}

std::string ChatSession::to_text(std::size_t first) const {
  std::string out;
  for (std::size_t i = first; i < lines_.size(); ++i) {
    append_message(out, lines_[i].role, lines_[i].content);
    out += '\n';
  }
  return out;
}

Result<> ChatSession::read_text(std::string_view text) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const auto value = json::parse(line);
    const json::Value* role = value ? value->find("role") : nullptr;
    const json::Value* content = value ? value->find("content") : nullptr;
    if (role == nullptr || content == nullptr || role->as<std::string>() == nullptr ||
        content->as<std::string>() == nullptr) {
      return fail(
          Code::Corrupt,
          fmt::format("line {} is not a message as {{\"role\":...,\"content\":...}}", number));
    }
    add(*role->as<std::string>(), *content->as<std::string>());
  }
  return {};
}

std::optional<ChatCommand> parse_chat_command(std::string_view line) {
  if (!line.starts_with('/') || line.starts_with("//")) return std::nullopt;
  const std::size_t blank = std::min(line.find(' '), line.size());
  return ChatCommand{std::string(line.substr(1, blank - 1)),
                     std::string(trimmed(line.substr(blank)))};
}

bool MessageLines::add(std::string_view line) {
  if (trimmed(line) == kQuotes) {
    quoted_ = !quoted_;
    return !quoted_ && !text_.empty();
  }
  const bool more = !quoted_ && line.ends_with('\\');
  if (more) line.remove_suffix(1);
  if (!quoted_ && text_.empty() && line.starts_with("//")) line.remove_prefix(1);
  text_ += line;
  if (more || quoted_) text_ += '\n';
  return !more && !quoted_ && !trimmed(text_).empty();
}

std::string MessageLines::take() {
  quoted_ = false;
  std::string out = std::exchange(text_, {});
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string terminal_safe(std::string_view text) {
  constexpr std::string_view kShown = "\xef\xbf\xbd";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // C1 controls: U+0080 to U+009F.
      out += kShown;
      ++i;
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += kShown;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace lares::app
