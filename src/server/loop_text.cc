// The loop's side of the text worker.
#include <fmt/format.h>

#include "core/log.h"
#include "core/text.h"
#include "server/loop_core.h"

namespace lares::server {

void LoopCore::start_text() {
  text_restart_.retry_at.reset();
  auto started = workers_->start(worker::Kind::Text);
  if (!started) {
    log_error("the text worker cannot be started", {{"why", started.error().message}});
    text_restart_.retry_at = now() + std::chrono::seconds(1);
    return;
  }
  text_ = std::move(*started);
  text_restart_.started = now();
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    if (!models_[i].vocabulary_asked) continue;
    models_[i].vocabulary_asked = false;
    ask_vocabulary(i);
  }
  ++text_number_;
  text_since_ = now();
  for (const TextJob& job : text_queue_) {
    const auto it = requests_.find(job.id);
    if (it == requests_.end()) continue;
    if (job.choice) {
      send_parse(it->second, *job.choice);
    } else {
      send_text_request(it->second);
    }
  }
}

void LoopCore::send_text_job(const TextJob& job) {
  if (text_queue_.empty()) text_since_ = now();
  text_queue_.push_back(job);
  Request& request = requests_.at(job.id);
  if (job.choice) {
    send_parse(request, *job.choice);
  } else {
    send_text_request(request);
  }
}

// The job that an answer of the text worker belongs to, which it was working on.
std::optional<TextJob> LoopCore::take_text_job(std::uint64_t request) {
  if (text_queue_.empty() || text_queue_.front().id.value != request) return std::nullopt;
  const TextJob job = text_queue_.front();
  text_queue_.pop_front();
  text_since_ = now();
  text_restart_.quick_deaths = 0;
  return job;
}

void LoopCore::read_text() {
  if (text_restart_.retry_at && now() >= *text_restart_.retry_at) start_text();
  if (!text_) return;
  messages_.clear();
  const auto read = text_->channel().receive_available(messages_);
  for (worker::Message& message : messages_) {
    if (auto* vocabulary = std::get_if<worker::VocabularyDone>(&message))
      handle(std::move(*vocabulary));
    if (auto* done = std::get_if<worker::TextDone>(&message)) handle(std::move(*done));
    if (auto* parsed = std::get_if<worker::ChatParsed>(&message)) handle(*parsed);
    if (auto* failed = std::get_if<worker::TextFailed>(&message)) handle(*failed);
  }
  if (!read) text_lost(read.error().message);
}

// Whoever was being worked on may be what killed it: it gets one more try.
void LoopCore::text_lost(const std::string& why) {
  log_warn("the text worker ended; starting it again", {{"why", why}});
  text_.reset();
  metrics_.text_restarts.add();
  const auto gone = [this](const TextJob& job) { return !requests_.contains(job.id); };
  std::erase_if(text_queue_, gone);
  if (!text_queue_.empty()) {
    const TextJob job = text_queue_.front();
    Request& request = requests_.at(job.id);
    if (job.choice) {
      if (++request.choices[*job.choice].parsing.deaths >= 2) {
        text_queue_.pop_front();
        give_up_parsing(request, *job.choice);
      }
    } else if (++request.text_failures >= 2) {
      text_queue_.pop_front();
      fail_request(request.id,
                   Error{Code::Invalid,
                         "the model's template or tokenizer failed on this prompt, twice; "
                         "try a simpler one"},
                   "text_failed");
    }
  }
  std::erase_if(text_queue_, gone);
  if (const Duration delay = restart_delay(text_restart_); delay.count() > 0) {
    text_restart_.retry_at = now() + delay;
  } else {
    start_text();
  }
}

void LoopCore::check_text_limit() {
  if (!text_ || text_queue_.empty() || now() < text_since_ + options_.text_limit) return;
  const TextJob job = text_queue_.front();
  const auto it = requests_.find(job.id);
  if (it != requests_.end() && job.choice) {
    text_queue_.pop_front();
    give_up_parsing(it->second, *job.choice);
  } else if (it != requests_.end()) {
    text_queue_.pop_front();
    fail_request(job.id,
                 Error{Code::TooLarge, fmt::format("writing out the prompt took longer than {} s",
                                                   in_seconds(options_.text_limit))},
                 "text_too_slow");
  }
  text_->kill();
  text_lost("a request took too long");
}

void LoopCore::ask_vocabulary(std::uint32_t model) {
  if (models_[model].vocabulary_asked) return;
  models_[model].vocabulary_asked = true;
  to_text(worker::LoadVocabulary{ModelId{model}, models_[model].entry.path});
}

void LoopCore::send_text_request(Request& request) {
  const ModelId model{request.model};
  if (const auto* embed = std::get_if<EmbedPrompt>(&request.generation.prompt)) {
    return send_texts(request, *embed);
  }
  if (const auto* chat = std::get_if<ChatPrompt>(&request.generation.prompt)) {
    to_text(worker::RenderChat{request.id.value,
                               {.model = model,
                                .messages = chat->messages,
                                .tools = chat->tools,
                                .options = chat->options,
                                .tool_choice = chat->tool_choice,
                                .tool_name = chat->tool_name,
                                .parallel_tool_calls = chat->parallel_tool_calls,
                                .schema = chat->schema}});
  } else if (const auto* text = std::get_if<TextPrompt>(&request.generation.prompt)) {
    to_text(worker::Tokenize{request.id.value,
                             {.model = model, .text = text->text, .parse_special = true}});
  } else {
    // Tokens need nobody, but the vocabulary must be here first: the worker answers in order.
    to_text(worker::Tokenize{request.id.value, {.model = model, .text = "", .add_special = false}});
  }
}

void LoopCore::handle(worker::VocabularyDone message) {
  const std::uint32_t index = message.vocabulary.model.value;
  if (index >= models_.size() || models_[index].pieces) return;
  auto table = PieceTable::create(std::move(message.vocabulary));
  if (!table) return fail_model(index, table.error().message);
  models_[index].pieces = std::move(*table);
}

void LoopCore::handle(worker::TextDone message) {
  const auto it = requests_.find(JobId{message.request});
  const bool known = it != requests_.end();
  if (known && !text_queue_.empty() && text_queue_.front().id == it->first &&
      more_texts(it->second)) {
    text_since_ = now();
    text_restart_.quick_deaths = 0;
    return on_text_tokens(it->second, std::move(message.rendered.tokens));
  }
  if (!take_text_job(message.request) || !known) return;
  Request& request = it->second;
  if (!models_[request.model].pieces) {
    return fail_request(request.id,
                        Error{Code::Unavailable, "the model's vocabulary could not be read"},
                        "model_failed");
  }
  if (request.embeds()) return on_text_tokens(request, std::move(message.rendered.tokens));
  auto* tokens = std::get_if<TokenPrompt>(&request.generation.prompt);
  if (tokens != nullptr) message.rendered.tokens = tokens->tokens;
  on_tokens(request, std::move(message.rendered));
}

void LoopCore::handle(const worker::TextFailed& message) {
  if (message.request == 0) {
    if (message.model.value < models_.size())
      fail_model(message.model.value, message.error.message);
    return;
  }
  const auto job = take_text_job(message.request);
  const JobId id{message.request};
  const auto it = requests_.find(id);
  if (!job || it == requests_.end()) return;
  if (job->choice) return parse_failed(it->second, *job->choice, message.error);
  const ModelState& model = models_[it->second.model];
  if (model.at == ModelState::At::Failed) {
    fail_request(id,
                 Error{Code::Unavailable,
                       fmt::format("model {} cannot be used: {}", model.entry.name, model.error)},
                 "model_failed");
  } else {
    fail_request(id, message.error, "prompt_invalid");
  }
}

void LoopCore::to_text(const worker::Message& message) {
  // What cannot be sent is sent again after the restart, which reading the channel's end brings
  // about.
  if (text_) [[maybe_unused]]
    const auto sent = text_->channel().send(message);
}

}  // namespace lares::server
