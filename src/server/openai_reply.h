// Answers in OpenAI's form, written straight into strings: event streams and whole responses.
//
// Pure; one thread at a time. Text comes in as TextDelta, one event of the stream for each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/errors.h"
#include "server/generation.h"
#include "server/openai_request.h"

namespace lares::server {

// What is the same in every part of one answer.
struct ReplyHead {
  OpenAiForm form = OpenAiForm::Chat;
  std::string id;             // "chatcmpl-12"
  std::string model;          // That runs it.
  std::uint64_t created = 0;  // Unix seconds.
  std::string fingerprint;    // "system_fingerprint"
  bool include_usage = false;
  bool want_logprobs = false;
};

// Log-probabilities on their way into JSON; completions keep four lists side by side, chats one.
struct LogprobText {
  std::string tokens, values, tops, offsets;
};

class StreamReply {
 public:
  explicit StreamReply(const ReplyHead& head);

  // Appends the event, and before a choice's first one the event that names the role.
  // Why it ended comes in a piece of its own, as from OpenAI, whatever came with it.
  void append(std::string& out, const TextDelta& delta);
  // Appends the usage, if it was asked for, and the end mark.
  void append_end(std::string& out, const Usage& usage) const;
  // Appends an error; no end mark follows, so that no client takes the text for complete.
  static void append_error(std::string& out, const ApiError& error);

 private:
  struct Choice {
    bool begun = false;
    std::uint64_t characters = 0;
  };
  Choice& choice(std::uint32_t index);
  void append_one(std::string& out, const TextDelta& delta);
  void append_chat(std::string& out, const TextDelta& delta);
  void append_completion(std::string& out, const TextDelta& delta);

  ReplyHead head_;
  std::string before_;  // `data: {"id":...,"choices":[`
  std::string after_;   // `]}` or `],"usage":null}`, and the blank line.
  std::vector<Choice> choices_;
};

class WholeReply {
 public:
  explicit WholeReply(ReplyHead head) : head_(std::move(head)) {}
  void add(const TextDelta& delta);
  // The body of the response.
  [[nodiscard]] std::string body(const Usage& usage) const;

 private:
  struct Choice {
    std::string text;
    std::string reasoning;
    std::vector<CallDelta> calls;
    std::uint64_t characters = 0;
    LogprobText logprobs;
    Finish finish = Finish::None;
  };
  void append_choice(std::string& out, std::uint32_t index) const;

  ReplyHead head_;
  std::vector<Choice> choices_;
};

}  // namespace lares::server
