#include "text/byte_text.h"

#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace lares::text {
namespace {

constexpr std::size_t kDepthMax = 32;

struct ChatMessage {
  std::string role;
  std::string content;
};

// Reads the one form of JSON that RenderChat carries: an array of objects with strings "role" and
// "content"; other members are passed over. Nothing when it is anything else.
class MessageReader {
 public:
  explicit MessageReader(std::string_view in) : in_(in) {}

  std::optional<std::vector<ChatMessage>> read() {
    std::vector<ChatMessage> messages;
    if (!take('[')) return std::nullopt;
    if (!take(']')) {
      do {
        ChatMessage message;
        if (!object(&message)) return std::nullopt;
        messages.push_back(std::move(message));
      } while (take(','));
      if (!take(']')) return std::nullopt;
    }
    skip_blanks();
    if (!in_.empty()) return std::nullopt;
    return messages;
  }

 private:
  void skip_blanks() {
    while (!in_.empty() &&
           std::string_view(" \t\r\n").find(in_.front()) != std::string_view::npos) {
      in_.remove_prefix(1);
    }
  }

  bool take(char c) {
    skip_blanks();
    if (in_.empty() || in_.front() != c) return false;
    in_.remove_prefix(1);
    return true;
  }

  // `message` is filled from the members that it wants; null for a nested object.
  bool object(ChatMessage* message) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      const std::optional<std::string> key = string();
      if (!key || !take(':')) return false;
      skip_blanks();
      const bool wanted = message != nullptr && (*key == "role" || *key == "content");
      if (wanted && !in_.empty() && in_.front() == '"') {
        std::optional<std::string> text = string();
        if (!text) return false;
        (*key == "role" ? message->role : message->content) = std::move(*text);
      } else if (!value()) {
        return false;
      }
    } while (take(','));
    return take('}');
  }

  bool value() {
    skip_blanks();
    if (in_.empty() || depth_ >= kDepthMax) return false;
    ++depth_;
    const bool ok = nested();
    --depth_;
    return ok;
  }

  bool nested() {
    if (in_.front() == '"') return string().has_value();
    if (in_.front() == '{') return object(nullptr);
    if (take('[')) {
      if (take(']')) return true;
      do {
        if (!value()) return false;
      } while (take(','));
      return take(']');
    }
    std::size_t n = 0;
    while (n < in_.size() && (std::isalnum(static_cast<unsigned char>(in_[n])) != 0 ||
                              std::string_view("+-.").find(in_[n]) != std::string_view::npos)) {
      ++n;
    }
    in_.remove_prefix(n);
    return n > 0;
  }

  std::optional<std::string> string() {
    if (!take('"')) return std::nullopt;
    std::string out;
    while (!in_.empty() && in_.front() != '"') {
      const char c = in_.front();
      in_.remove_prefix(1);
      if (c != '\\') {
        out += c;
      } else if (!escape(out)) {
        return std::nullopt;
      }
    }
    if (in_.empty()) return std::nullopt;
    in_.remove_prefix(1);
    return out;
  }

  bool escape(std::string& out) {
    if (in_.empty()) return false;
    const char c = in_.front();
    in_.remove_prefix(1);
    switch (c) {
      case 'n': out += '\n'; return true;
      case 't': out += '\t'; return true;
      case 'r': out += '\r'; return true;
      case 'b': out += '\b'; return true;
      case 'f': out += '\f'; return true;
      case '"':
      case '\\':
      case '/': out += c; return true;
      case 'u': return unicode(out);
      default: return false;
    }
  }

  std::optional<std::uint32_t> hex4() {
    if (in_.size() < 4) return std::nullopt;
    std::uint32_t code = 0;
    for (const char c : in_.substr(0, 4)) {
      const auto digit = std::string_view("0123456789abcdef")
                             .find(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
      if (digit == std::string_view::npos) return std::nullopt;
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    in_.remove_prefix(4);
    return code;
  }

  bool unicode(std::string& out) {
    std::optional<std::uint32_t> code = hex4();
    if (!code) return false;
    if (*code >= 0xd800 && *code < 0xdc00) {
      if (!in_.starts_with("\\u")) return false;
      in_.remove_prefix(2);
      const std::optional<std::uint32_t> low = hex4();
      if (!low || *low < 0xdc00 || *low > 0xdfff) return false;
      code = 0x10000 + ((*code - 0xd800) << 10U) + (*low - 0xdc00);
    } else if (*code >= 0xdc00 && *code <= 0xdfff) {
      return false;
    }
    append_utf8(out, *code);
    return true;
  }

  static void append_utf8(std::string& out, std::uint32_t code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const std::uint32_t lead = more == 1 ? 0xc0U : more == 2 ? 0xe0U : 0xf0U;
    out += static_cast<char>(lead | (code >> static_cast<unsigned>(6 * more)));
    for (int i = more - 1; i >= 0; --i) {
      out += static_cast<char>(0x80U | ((code >> static_cast<unsigned>(6 * i)) & 0x3fU));
    }
  }

  std::string_view in_;
  std::size_t depth_ = 0;
};

void append_bytes(std::vector<std::int32_t>& tokens, std::string_view text) {
  for (const char c : text) tokens.push_back(kByteFirst + static_cast<unsigned char>(c));
}

}  // namespace

ByteText::ByteText(ByteTextOptions options) : options_(options) {}

Result<Vocabulary> ByteText::load(ModelId model, const std::string& path) {
  std::error_code ignored;
  if (options_.needs_file && !std::filesystem::is_regular_file(path, ignored)) {
    return fail(Code::NotFound, fmt::format("there is no model file {}", path));
  }
  models_.insert(model);
  Vocabulary vocabulary;
  vocabulary.model = model;
  vocabulary.has_chat_template = true;
  vocabulary.offsets.push_back(0);
  for (std::int32_t token = 0; token < kByteVocabulary; ++token) {
    if (token >= kByteFirst) vocabulary.bytes += static_cast<char>(token - kByteFirst);
    vocabulary.offsets.push_back(static_cast<std::uint32_t>(vocabulary.bytes.size()));
    vocabulary.flags.push_back(token >= kByteFirst ? 0 : kTokenControl);
  }
  vocabulary.flags[kByteEnd] |= kTokenEndOfGeneration;
  return vocabulary;
}

void ByteText::unload(ModelId model) {
  models_.erase(model);
}

Result<> ByteText::check(ModelId model, std::size_t bytes) const {
  if (!models_.contains(model)) {
    return fail(Code::NotFound, fmt::format("model {} is not loaded", model.value));
  }
  if (bytes > options_.text_bytes) {
    return fail(Code::TooLarge, fmt::format("a text of {} bytes; at most {} are allowed", bytes,
                                            options_.text_bytes));
  }
  return {};
}

Result<Rendered> ByteText::render(const RenderChat& chat) {
  TRY_VOID(check(chat.model, chat.messages.size()));
  const auto messages = MessageReader(chat.messages).read();
  if (!messages) return fail(Code::Invalid, "the messages are not an array of role and content");
  if (messages->empty()) return fail(Code::Invalid, "there are no messages");
  Rendered rendered;
  for (const ChatMessage& message : *messages) {
    if (message.role.empty()) return fail(Code::Invalid, "a message without a role");
    rendered.tokens.push_back(message.role == "assistant" ? kByteAssistant : kByteUser);
    append_bytes(rendered.tokens, message.content);
    rendered.tokens.push_back(kByteEnd);
  }
  if (chat.add_generation_prompt) rendered.tokens.push_back(kByteAssistant);
  if (!chat.tools.empty() && chat.tool_choice != ToolChoice::None) {
    rendered.parser = ChatParser{.tool_calls = true};
  }
  return rendered;
}

Result<ParsedChat> ByteText::parse(const ParseChat& chat) {
  if (chat.parser) parsers_.insert(chat.key);
  if (!parsers_.contains(chat.key)) return fail(Code::NotFound, "a parser never heard of");
  ParsedChat parsed;
  std::string_view rest = chat.text;
  while (!rest.empty()) {
    const std::size_t open = rest.find('<');
    parsed.content += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    rest.remove_prefix(open + 1);
    const std::size_t close = rest.find('>');
    const std::string_view call = rest.substr(0, close);
    const std::size_t blank = call.find(' ');
    if (blank != std::string_view::npos) {
      parsed.calls.push_back(
          {"", std::string(call.substr(0, blank)), std::string(call.substr(blank + 1))});
    }
    rest.remove_prefix(close == std::string_view::npos ? rest.size() : close + 1);
  }
  return parsed;
}

Result<std::vector<std::int32_t>> ByteText::tokenize(const Tokenize& request) {
  TRY_VOID(check(request.model, request.text.size()));
  std::vector<std::int32_t> tokens;
  tokens.reserve(request.text.size());
  append_bytes(tokens, request.text);
  return tokens;
}

}  // namespace lares::text
