// What `lares chat` remembers of a conversation, and how typed lines are read.
//
// Pure; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace lares::app {

struct ChatLine {
  std::string role, content;
};

class ChatSession {
 public:
  std::string model;   // "" = the server's default.
  std::string system;  // Said before everything else; "" = nothing.

  void add(std::string role, std::string content);
  void drop_last();  // A question that was not answered.
  void clear() { lines_.clear(); }
  [[nodiscard]] const std::vector<ChatLine>& lines() const { return lines_; }

  // Body for /v1/chat/completions.
  [[nodiscard]] std::string request_body() const;

  // One JSON object a line: what /save and --history write, and --history reads.
  [[nodiscard]] std::string to_text(std::size_t first = 0) const;
  // Errors: Corrupt, naming the line.
  Result<> read_text(std::string_view text);

 private:
  std::vector<ChatLine> lines_;
};

// A line that begins with a slash: "/save FILE" is {"save", "FILE"}. Nothing for any other; two
// slashes begin a message that begins with one.
struct ChatCommand {
  std::string name, argument;
};
std::optional<ChatCommand> parse_chat_command(std::string_view line);

// Puts typed lines together to messages: a backslash at the end goes on in the next line, and so
// does everything between two lines of three quotes.
class MessageLines {
 public:
  // True if a message is complete.
  bool add(std::string_view line);
  [[nodiscard]] bool pending() const { return !text_.empty() || quoted_; }
  std::string take();

 private:
  std::string text_;
  bool quoted_ = false;
};

// Text of a model for a terminal: control characters but tab and line end could do things to it,
// and are shown as U+FFFD.
std::string terminal_safe(std::string_view text);

}  // namespace lares::app
