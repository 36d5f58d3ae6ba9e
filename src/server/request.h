// What the loop knows of one request on its way: plain data, owned by the loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/answer_parts.h"
#include "server/detokenizer.h"
#include "server/generation.h"
#include "server/sketch_state.h"
#include "store/usage.h"

namespace lares::server {

// An answer that the text worker takes apart while it grows. One question at a time: the slower the
// worker, the larger the pieces.
struct Parsing {
  std::string text;                    // As generated so far.
  std::vector<TokenLogprob> logprobs;  // Of what has not been told yet.
  Finish finish = Finish::None;        // Set once nothing more is generated.
  std::size_t asked = 0;               // Bytes of `text` in the last question.
  bool asked_whole = false;            // It held everything.
  bool waiting = false;                // It has not been answered.
  bool lenient = false;      // The whole has not its form: what can be made out of it is enough.
  std::uint32_t deaths = 0;  // Text workers that died with it in hand.
  bool given_up = false;     // Nobody can take it apart.
  AnswerParts parts{};
};

// One of a request's n texts; a job of the scheduler.
struct Choice {
  JobId sched;                       // Its id in the scheduler.
  std::vector<std::int32_t> tokens;  // Prompt, then output. What a new worker is rebuilt from.
  std::vector<std::uint64_t> keys;   // Prefix keys of `tokens`, as far as computed.
  TextAssembler text{{}};
  SeqId seq;
  bool done = false;  // For the scheduler.
  bool told = false;  // The client has had its last delta.
  engine::Sampling sampling;
  Parsing parsing{};
};

// What the text worker is asked: a request's prompt, or one choice's answer to be taken apart.
struct TextJob {
  JobId id;
  std::optional<std::uint32_t> choice{};
};

// Texts of one request for embeddings that the scheduler knows of at once: enough to fill steps
// with short ones, and few enough that the rest of the household's jobs have room in its table.
inline constexpr std::uint32_t kTextsAtOnce = 64;

struct Request {
  enum class At : std::uint8_t {
    Model,      // Waits until its model's file has been probed.
    Text,       // With the text worker.
    Scheduled,  // With the scheduler.
  };

  JobId id;
  Generation generation;
  std::shared_ptr<GenerationSink> sink;
  At at = At::Model;
  std::uint32_t model = 0;  // Index into the models.
  std::uint32_t cls = 0;
  bool accepted = false;            // The sink was told so.
  std::uint32_t text_failures = 0;  // Text workers that died with it in hand.
  std::uint32_t prompt_tokens = 0;
  std::size_t shared_tokens = 0;  // Of them, from the first on: words of the whole household.
  std::uint32_t output_max = 0;   // For each choice.
  // Of an EmbedPrompt, whose texts are the choices: the next one to be sent to the scheduler, those
  // it has, how many it may have at once, and those it had no room for.
  std::uint32_t texts_next = 0, texts_out = 0, texts_at_once = kTextsAtOnce, texts_done = 0;
  std::vector<std::uint32_t> texts_back;
  std::vector<Choice> choices;
  std::unique_ptr<SketchState> sketch;  // Of a SketchPrompt that has begun.
  Constraint constraint;
  std::vector<text::ShownToken> shown;
  std::optional<text::ChatParser> parser;
  std::uint64_t parser_known_to = 0;  // The text worker that has been sent it, by its number.
  Usage usage;
  std::uint32_t resumed_tokens = 0;  // Of its output: made by earlier attempts of its job.
  Duration device{};

  // Of a request that wants to hear where it stands: what it heard last, and its first estimate.
  std::optional<QueueNews> told_queue{};
  std::optional<Duration> first_estimate{};

  // Moments on the loop's clock; nothing = not reached.
  Instant accepted_at;
  std::int64_t accepted_unix_ms = 0;
  std::optional<Instant> text_from, scheduled_at, model_ready_at, first_run_at, first_token_at,
      last_token_at;

  [[nodiscard]] bool embeds() const {
    return std::holds_alternative<EmbedPrompt>(generation.prompt);
  }
  [[nodiscard]] bool sketches() const {
    return std::holds_alternative<SketchPrompt>(generation.prompt);
  }
  [[nodiscard]] store::UsageRow usage_row(Instant now, const std::string& model_name) const;
};

}  // namespace lares::server
