#include "server/openai_reply.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

// A token may be part of a code point; JSON holds whole ones.
void append_token(std::string& out, std::string_view bytes) {
  append_quoted(out, is_utf8(bytes) ? bytes : utf8_sanitised(bytes));
}

void append_integer(std::string& out, std::uint64_t number) {
  const fmt::format_int text(number);
  out.append(text.data(), text.size());
}

// OpenAI writes -9999 for a probability of nothing; JSON has no infinity.
void append_logprob(std::string& out, float logprob) {
  if (!std::isfinite(logprob)) {
    out += "-9999.0";
    return;
  }
  fmt::format_to(std::back_inserter(out), "{}", logprob);
}

void append_separator(std::string& list) {
  if (!list.empty()) list += ',';
}

std::uint64_t count_characters(std::string_view text) {
  return static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

// {"token":"a","logprob":-0.1,"bytes":[97]
void append_chat_token(std::string& out, const TokenText& token) {
  out += "{\"token\":";
  append_token(out, token.bytes);
  out += ",\"logprob\":";
  append_logprob(out, token.logprob);
  out += ",\"bytes\":[";
  for (std::size_t i = 0; i < token.bytes.size(); ++i) {
    if (i != 0) out += ',';
    append_integer(out, static_cast<unsigned char>(token.bytes[i]));
  }
  out += ']';
}

void add_chat(LogprobText& to, const TokenLogprob& token) {
  append_separator(to.tokens);
  append_chat_token(to.tokens, token.token);
  to.tokens += ",\"top_logprobs\":[";
  for (std::size_t i = 0; i < token.top.size(); ++i) {
    if (i != 0) to.tokens += ',';
    append_chat_token(to.tokens, token.top[i]);
    to.tokens += '}';
  }
  to.tokens += "]}";
}

// {"a":-0.1,"b":-2.5}: a text that two tokens share is written once, with the better of the two.
void append_tops(std::string& out, const std::vector<TokenText>& top) {
  out += '{';
  bool first = true;
  for (auto it = top.begin(); it != top.end(); ++it) {
    const auto same = [it](const TokenText& t) { return t.bytes == it->bytes; };
    if (std::any_of(top.begin(), it, same)) continue;
    if (!first) out += ',';
    first = false;
    append_token(out, it->bytes);
    out += ':';
    append_logprob(out, it->logprob);
  }
  out += '}';
}

void add_completion(LogprobText& to, const TokenLogprob& token, std::uint64_t offset) {
  append_separator(to.tokens);
  append_token(to.tokens, token.token.bytes);
  append_separator(to.values);
  append_logprob(to.values, token.token.logprob);
  append_separator(to.tops);
  append_tops(to.tops, token.top);
  append_separator(to.offsets);
  append_integer(to.offsets, offset);
}

// `characters` is how long the choice's text was before this delta.
void add_logprobs(LogprobText& to, OpenAiForm form, const TextDelta& delta,
                  std::uint64_t characters) {
  for (const TokenLogprob& token : delta.logprobs) {
    if (form == OpenAiForm::Chat) {
      add_chat(to, token);
    } else {
      add_completion(to, token, characters);
      characters += count_characters(token.token.bytes);
    }
  }
}

// ,"logprobs":...
void append_logprobs(std::string& out, OpenAiForm form, const LogprobText& text, bool wanted) {
  if (!wanted) {
    out += ",\"logprobs\":null";
  } else if (form == OpenAiForm::Chat) {
    fmt::format_to(std::back_inserter(out), ",\"logprobs\":{{\"content\":[{}],\"refusal\":null}}",
                   text.tokens);
  } else {
    fmt::format_to(std::back_inserter(out),
                   ",\"logprobs\":{{\"tokens\":[{}],\"token_logprobs\":[{}],\"top_logprobs\":[{}],"
                   "\"text_offset\":[{}]}}",
                   text.tokens, text.values, text.tops, text.offsets);
  }
}

void append_finish(std::string& out, Finish finish) {
  switch (finish) {
    case Finish::None: out += ",\"finish_reason\":null"; break;
    case Finish::Stop: out += ",\"finish_reason\":\"stop\""; break;
    case Finish::Length: out += ",\"finish_reason\":\"length\""; break;
    case Finish::ToolCalls: out += ",\"finish_reason\":\"tool_calls\""; break;
  }
}

// {"id":"a","type":"function","function":{"name":"light","arguments":"{}"}}; in a stream only the
// first delta of a call carries what names it, and each says which call it continues.
void append_call(std::string& out, const CallDelta& call, bool streamed) {
  out += '{';
  if (streamed) {
    out += "\"index\":";
    append_integer(out, call.index);
    out += ',';
  }
  const bool named = !call.name.empty();
  if (named) {
    out += "\"id\":";
    append_quoted(out, call.id);
    out += ",\"type\":\"function\",";
  }
  out += "\"function\":{";
  if (named) {
    out += "\"name\":";
    append_quoted(out, call.name);
    out += ',';
  }
  out += "\"arguments\":";
  append_quoted(out, call.arguments);
  out += "}}";
}

void append_calls(std::string& out, const std::vector<CallDelta>& calls, bool streamed) {
  out += "\"tool_calls\":[";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i != 0) out += ',';
    append_call(out, calls[i], streamed);
  }
  out += ']';
}

// The members of a chat's `delta`.
void append_parts(std::string& out, const TextDelta& delta) {
  const std::size_t before = out.size();
  const auto separate = [&] {
    if (out.size() > before) out += ',';
  };
  if (!delta.reasoning.empty()) {
    out += "\"reasoning_content\":";
    append_quoted(out, delta.reasoning);
  }
  if (!delta.text.empty()) {
    separate();
    out += "\"content\":";
    append_quoted(out, delta.text);
  }
  if (!delta.calls.empty()) {
    separate();
    append_calls(out, delta.calls, true);
  }
}

void append_usage(std::string& out, const Usage& usage) {
  fmt::format_to(std::back_inserter(out),
                 "\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},"
                 "\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
                 usage.prompt_tokens, usage.output_tokens,
                 usage.prompt_tokens + usage.output_tokens, usage.cached_tokens);
}

// {"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...,"choices":[
void append_head(std::string& out, const ReplyHead& head, std::string_view object) {
  out += "{\"id\":";
  append_quoted(out, head.id);
  out += ",\"object\":";
  append_quoted(out, object);
  out += ",\"created\":";
  append_integer(out, head.created);
  out += ",\"model\":";
  append_quoted(out, head.model);
  out += ",\"system_fingerprint\":";
  append_quoted(out, head.fingerprint);
  out += ",\"choices\":[";
}

template <class Choice>
Choice& grown(std::vector<Choice>& choices, std::uint32_t index) {
  if (choices.size() <= index) choices.resize(index + 1);
  return choices[index];
}

}  // namespace

// --- Streams
// --------------------------------------------------------------------------------------

StreamReply::StreamReply(const ReplyHead& head) : head_(head) {
  before_ = "data: ";
  append_head(before_, head_,
              head_.form == OpenAiForm::Chat ? "chat.completion.chunk" : "text_completion");
  after_ = head_.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
}

StreamReply::Choice& StreamReply::choice(std::uint32_t index) {
  return grown(choices_, index);
}

void StreamReply::append(std::string& out, const TextDelta& delta) {
  const bool says = !delta.text.empty() || !delta.reasoning.empty() || !delta.calls.empty() ||
                    !delta.logprobs.empty();
  if (says && delta.finish != Finish::None) {
    TextDelta words = delta;
    words.finish = Finish::None;
    append_one(out, words);
    return append_one(out, {.choice = delta.choice, .finish = delta.finish});
  }
  append_one(out, delta);
}

void StreamReply::append_one(std::string& out, const TextDelta& delta) {
  if (head_.form == OpenAiForm::Chat) {
    append_chat(out, delta);
  } else {
    append_completion(out, delta);
  }
}

void StreamReply::append_chat(std::string& out, const TextDelta& delta) {
  Choice& to = choice(delta.choice);
  if (!to.begun) {
    to.begun = true;
    out += before_;
    out += "{\"index\":";
    append_integer(out, delta.choice);
    out +=
        ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
        "\"finish_reason\":null}";
    out += after_;
  }
  out += before_;
  out += "{\"index\":";
  append_integer(out, delta.choice);
  out += ",\"delta\":{";
  append_parts(out, delta);
  out += '}';
  LogprobText logprobs;
  if (head_.want_logprobs) add_logprobs(logprobs, head_.form, delta, 0);
  append_logprobs(out, head_.form, logprobs, head_.want_logprobs && !delta.logprobs.empty());
  append_finish(out, delta.finish);
  out += '}';
  out += after_;
}

void StreamReply::append_completion(std::string& out, const TextDelta& delta) {
  Choice& to = choice(delta.choice);
  out += before_;
  out += "{\"index\":";
  append_integer(out, delta.choice);
  out += ",\"text\":";
  append_quoted(out, delta.text);
  LogprobText logprobs;
  if (head_.want_logprobs) {
    add_logprobs(logprobs, head_.form, delta, to.characters);
    to.characters += count_characters(delta.text);
  }
  append_logprobs(out, head_.form, logprobs, head_.want_logprobs && !delta.logprobs.empty());
  append_finish(out, delta.finish);
  out += '}';
  out += after_;
}

void StreamReply::append_end(std::string& out, const Usage& usage) const {
  if (head_.include_usage) {
    out += before_;
    out += "],";
    append_usage(out, usage);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

void StreamReply::append_error(std::string& out, const ApiError& error) {
  out += "data: ";
  out += error_body(error);
  out += "\n\n";
}

// --- Whole responses
// ------------------------------------------------------------------------------

void WholeReply::add(const TextDelta& delta) {
  Choice& to = grown(choices_, delta.choice);
  if (head_.want_logprobs) {
    add_logprobs(to.logprobs, head_.form, delta, to.characters);
    to.characters += count_characters(delta.text);
  }
  to.text += delta.text;
  to.reasoning += delta.reasoning;
  for (const CallDelta& call : delta.calls) {
    CallDelta& whole = grown(to.calls, call.index);
    if (!call.name.empty()) whole = {call.index, call.id, call.name, ""};
    whole.arguments += call.arguments;
  }
  if (delta.finish != Finish::None) to.finish = delta.finish;
}

void WholeReply::append_choice(std::string& out, std::uint32_t index) const {
  const Choice& choice = choices_[index];
  out += "{\"index\":";
  append_integer(out, index);
  if (head_.form == OpenAiForm::Chat) {
    out += ",\"message\":{\"role\":\"assistant\",\"content\":";
    if (choice.text.empty() && !choice.calls.empty()) {
      out += "null";
    } else {
      append_quoted(out, choice.text);
    }
    out += ",\"refusal\":null";
    if (!choice.reasoning.empty()) {
      out += ",\"reasoning_content\":";
      append_quoted(out, choice.reasoning);
    }
    if (!choice.calls.empty()) {
      out += ',';
      append_calls(out, choice.calls, false);
    }
    out += '}';
  } else {
    out += ",\"text\":";
    append_quoted(out, choice.text);
  }
  append_logprobs(out, head_.form, choice.logprobs, head_.want_logprobs);
  append_finish(out, choice.finish);
  out += '}';
}

std::string WholeReply::body(const Usage& usage) const {
  std::string out;
  append_head(out, head_, head_.form == OpenAiForm::Chat ? "chat.completion" : "text_completion");
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    if (i != 0) out += ',';
    append_choice(out, i);
  }
  out += "],";
  append_usage(out, usage);
  out += '}';
  return out;
}

}  // namespace lares::server
