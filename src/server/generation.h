// One request for text, on its way through the server, and what comes back: plain values.
//
// Routes (OpenAI now, Ollama later) turn a body into a Generation; the loop (server/loop.h) carries
// it through text worker, scheduler and device, and reports to a GenerationSink.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/member.h"
#include "core/result.h"
#include "core/types.h"
#include "engine/engine.h"
#include "server/sketch_values.h"
#include "text/text_engine.h"

namespace lares::server {

// Messages as a JSON array in OpenAI's form, checked and normalised (content is a string).
struct ChatPrompt {
  std::string messages{};
  std::string tools{};    // JSON array or "".
  std::string options{};  // JSON object for the template or "".
  text::ToolChoice tool_choice = text::ToolChoice::Auto;
  std::string tool_name{};  // The tool that must be called; "" = any.
  std::optional<bool> parallel_tool_calls{};
  std::string schema{};  // JSON schema of the whole answer, or "".
};
struct TextPrompt {
  std::string text;
};
struct TokenPrompt {
  std::vector<std::int32_t> tokens;
};

// Texts to be turned into vectors, each a string or tokens.
struct EmbedPrompt {
  std::vector<std::variant<std::string, std::vector<std::int32_t>>> inputs;
  std::uint32_t dimensions = 0;  // Of each vector, at most the model's; 0 = all.
  bool truncate = false;         // Texts beyond the model's window are cut, not refused.
};

// A sketch that was planned already, for whoever asks (server/sketch_request.h).
struct SketchPrompt {
  std::shared_ptr<const sketch::Plan> plan;
  std::vector<SketchInput> inputs;
  bool previews = false;  // The sink gets pictures of what is becoming.
  KeptLatents latents{};  // Those that the plan names.
};
inline constexpr std::string_view kImageClass = "image";

// What embeddings are asked from when there is no model of this name.
inline constexpr std::string_view kEmbeddingAlias = "starter-embed";
// The class of requests for embeddings that claim none, where it is configured.
inline constexpr std::string_view kEmbeddingClass = "embedding";

class JobLink;  // server/job_link.h

struct Generation {
  std::string model;   // Name as asked for; "" or "default" is the first that can.
  MemberShare member;  // Who asked, as it was then.
  std::string cls = "chat";
  std::string supersede{};    // Cancels the member's older requests with the same key; "" = none.
  bool queue_events = false;  // The sink hears where the request stands while it waits.
  std::optional<Duration> keep{};  // How long the model stays when unused, from now on; max = auto.
  bool unload_only = false;        // There is nothing to generate: that is all.
  TaskId task{};                   // Groups an agent's calls (X-Lares-Task); 0 = none.
  std::variant<ChatPrompt, TextPrompt, TokenPrompt, EmbedPrompt, SketchPrompt> prompt;
  engine::Sampling sampling;  // seed and choice are filled in by the loop.
  std::optional<std::uint64_t> seed;
  std::optional<std::uint32_t>
      max_tokens;       // Nothing: up to the context, within the configured limit.
  std::uint32_t n = 1;  // Choices.
  std::vector<std::string> stop;
  bool echo = false;               // Begin the text with the prompt (completions only).
  std::shared_ptr<JobLink> job{};  // The job of the journal that this is an attempt of, if any.
};

// A token as the client sees it in logprobs.
struct TokenText {
  std::string bytes;
  float logprob = 0;
};
struct TokenLogprob {
  TokenText token;
  std::vector<TokenText> top;
};

enum class Finish : std::uint8_t { None, Stop, Length, ToolCalls };

// New text of one tool call. The first delta of a call names it.
struct CallDelta {
  std::uint32_t index = 0;
  std::string id{};  // With `name`, in the first delta alone.
  std::string name{};
  std::string arguments{};
};

// New text of one choice: whole code points only.
struct TextDelta {
  std::uint32_t choice = 0;
  std::string text{};
  std::vector<TokenLogprob> logprobs{};  // Of the tokens whose text this completes, if asked for.
  Finish finish = Finish::None;          // Set on a choice's last delta, whose text may be empty.
  std::string reasoning{};               // What the model thought, kept apart from the text.
  std::vector<CallDelta> calls{};
};

// The vector of one text, in all its dimensions and of length 1.
struct Embedding {
  std::uint32_t index = 0;
  std::vector<float> values;
};

// How far a sketch has come, in passes over networks; `total` falls when work turns out cached.
struct SketchProgress {
  std::uint32_t done = 0, total = 0;
};
struct SketchPreview {
  engine::Picture picture;  // One pixel per cell of the latent.
};
// Once, before Ended: what was done, and how long it took.
struct SketchDone {
  SketchCounts counts;
  Duration device{}, queue_wait{}, model_load{}, total{};
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // Of the prompt, found in the KV cache.
  std::uint32_t output_tokens = 0;  // Over all choices.
};

// How a request ended, besides its deltas. `error` is set when it failed or was cancelled.
struct Ended {
  Usage usage;
  std::optional<Error> error;
  std::string
      error_code;  // Stable code of `error`: "model_not_found", "kv_never_fits", "cancelled"...
  Duration retry_after{};  // When asking again may help; 0 = not known.
};

// The request was accepted: which model runs it. Before the first delta.
struct Accepted {
  std::string model;
};

// Where the request stands while it waits, if it wants to hear. Before Accepted, or never.
struct QueueNews {
  std::uint32_t position = 0;  // How many go before it.
  std::string reason;          // Why it waits, for a person.
  Duration estimate{};         // Until it begins.
};

// TextDelta and Embedding exclude each other.
using GenerationEvent = std::variant<Accepted, TextDelta, Embedding, QueueNews, SketchProgress,
                                     SketchPreview, SketchOutput, SketchKeep, SketchDone, Ended>;

// Where a generation's events go. Called on the loop thread, in order, Ended last and exactly once;
// must not block: hand over and return.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  virtual void on_event(GenerationEvent event) = 0;
};

}  // namespace lares::server
