// Requests for embeddings: many texts, each a job of the scheduler that has no output. They run in
// a context of their own, the twin of the model's entry, which is loaded at the first of them.
#include <algorithm>

#include <fmt/format.h>

#include "server/loop_core.h"

namespace lares::server {
// By name, or what is meant for embeddings, or else the chat model. While that is not known yet, a
// model that is being probed: the request waits for it and asks again.
std::optional<std::uint32_t> LoopCore::find_embedding_model(const std::string& name) const {
  std::optional<std::uint32_t> probing;
  const bool any = name.empty() || name == "default";
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    const ModelState& model = models_[i];
    if (model.embeds || model.gone) continue;
    if (!any && model.entry.name == name) return i;
    if (model.at == ModelState::At::Probing && !probing) probing = i;
    const bool meant = model.at != ModelState::At::Failed && model.info.can.embeds;
    if (any && meant) return i;
  }
  if (!any && name != kEmbeddingAlias) return std::nullopt;
  if (!any) return find_embedding_model("");
  return probing ? probing : find_model("");
}

void LoopCore::send_texts(Request& request, const EmbedPrompt& prompt) {
  request.choices.clear();  // Of a text worker that died.
  for (const auto& input : prompt.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    // Tokens need nobody, but each input has its answer.
    to_text(worker::Tokenize{request.id.value,
                             {.model = ModelId{request.model},
                              .text = text == nullptr ? "" : *text,
                              .add_special = text != nullptr}});
  }
}

// Whether the text worker has more of the request's texts to answer, after the next one.
bool LoopCore::more_texts(const Request& request) {
  const auto* prompt = std::get_if<EmbedPrompt>(&request.generation.prompt);
  return prompt != nullptr && request.choices.size() + 1 < prompt->inputs.size();
}

// One more text of the request; the last may make it fail.
void LoopCore::on_text_tokens(Request& request, std::vector<std::int32_t> tokens) {
  const auto& prompt = std::get<EmbedPrompt>(request.generation.prompt);
  const std::size_t index = request.choices.size();
  const auto* given = std::get_if<std::vector<std::int32_t>>(&prompt.inputs[index]);
  request.choices.emplace_back().tokens = given != nullptr ? *given : std::move(tokens);
  if (request.choices.size() == prompt.inputs.size()) schedule_texts_first(request);
}

// What is wrong with one text of a request, if anything; cuts it where that is wanted.
std::optional<std::pair<Error, std::string>> LoopCore::check_text(
    const Request& request, std::size_t index, std::vector<std::int32_t>& tokens) const {
  const ModelState& model = models_[request.model];
  const ModelState& twin = models_[model.twin];
  if (tokens.empty()) {
    return std::pair(Error{Code::Invalid, fmt::format("input[{}] has no tokens", index)},
                     std::string("prompt_empty"));
  }
  const auto foreign = std::ranges::find_if(tokens, [&](auto t) { return !model.pieces->has(t); });
  if (foreign != tokens.end()) {
    return std::pair(
        Error{Code::Invalid,
              fmt::format("token {} of input[{}] is not in the vocabulary of {} (0 to {})",
                          *foreign, index, model.entry.name, model.pieces->size() - 1)},
        std::string("token_unknown"));
  }
  if (tokens.size() <= twin.context) return std::nullopt;
  if (std::get<EmbedPrompt>(request.generation.prompt).truncate) {
    // The last token may be what ends a text for the model.
    if (twin.info.can.whole_text) tokens[twin.context - 1] = tokens.back();
    tokens.resize(twin.context);
    return std::nullopt;
  }
  return std::pair(
      Error{Code::Invalid, fmt::format("input[{}] has {} tokens; {} takes {} of one "
                                       "text. Shorten it, or send it in parts.",
                                       index, tokens.size(), model.entry.name, twin.context)},
      std::string("context_length_exceeded"));
}

void LoopCore::schedule_texts_first(Request& request) {
  const ModelState& model = models_[request.model];
  const std::uint32_t wanted = std::get<EmbedPrompt>(request.generation.prompt).dimensions;
  if (wanted > model.info.embedding) {
    return fail_request(
        request.id,
        Error{Code::Invalid, fmt::format("`dimensions` is {}; the vectors of {} have {}", wanted,
                                         model.entry.name, model.info.embedding)},
        "dimensions_invalid");
  }
  for (std::size_t i = 0; i < request.choices.size(); ++i) {
    if (auto wrong = check_text(request, i, request.choices[i].tokens)) {
      return fail_request(request.id, std::move(wrong->first), std::move(wrong->second));
    }
    request.prompt_tokens += static_cast<std::uint32_t>(request.choices[i].tokens.size());
  }
  request.model = model.twin;
  request.at = Request::At::Scheduled;
  request.scheduled_at = now();
  schedule_texts(request);
}

void LoopCore::schedule_texts(Request& request) {
  tell_limits(request.generation.member);
  while (request.texts_out < request.texts_at_once) {
    std::uint32_t index = request.texts_next;
    if (!request.texts_back.empty()) {
      index = request.texts_back.back();
      request.texts_back.pop_back();
    } else if (index < request.choices.size()) {
      ++request.texts_next;
    } else {
      return;
    }
    ++request.texts_out;
    Choice& choice = request.choices[index];
    choice.sched = JobId{++next_sched_id_};
    choices_[choice.sched] = {request.id, index};
    // No keys: every row is needed, so nothing of another text can be taken over.
    events_.emplace_back(
        sched::Submitted{.job = choice.sched,
                         .member = request.generation.member.id,
                         .cls = ClassId{request.cls},
                         .task = request.generation.task,
                         .model = ModelId{request.model},
                         .prompt = static_cast<std::uint32_t>(choice.tokens.size()),
                         .output_max = 0,
                         .blocks = {}});
  }
}

// The scheduler, or the member's limit, has no room for one more text. True if it may wait until
// another one of the same request is done; what is left at once is then as many as there was room
// for.
bool LoopCore::text_waits(Request& request, JobId job) {
  if (!request.embeds() || request.texts_out < 2) return false;
  const auto refused = choices_.find(job);
  request.texts_back.push_back(refused->second.second);
  choices_.erase(refused);
  request.texts_at_once = --request.texts_out;
  return true;
}

void LoopCore::on_embedding(Request& request, std::uint32_t index, const engine::ItemResult& item) {
  Choice& choice = request.choices[index];
  choice.done = true;
  choice.tokens = {};
  choices_.erase(choice.sched);
  done_choices_[choice.sched] = request.id;
  events_.emplace_back(sched::Ended{choice.sched, sched::EndCause::Finished, {}});
  tell(request, Embedding{index, item.embedding});
  --request.texts_out;
  if (++request.texts_done == request.choices.size()) {
    return end_request(request.id, store::Outcome::Done, std::nullopt, "");
  }
  if (request.texts_done == 1) note_progress(request);
  schedule_texts(request);
}

}  // namespace lares::server
