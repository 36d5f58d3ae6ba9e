// The loop's side of the text worker.
#include <fmt/format.h>

#include "core/log.h"
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
  text_since_ = now();
  for (const JobId id : text_queue_) {
    const auto it = requests_.find(id);
    if (it != requests_.end()) send_text_request(it->second);
  }
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
    if (auto* failed = std::get_if<worker::TextFailed>(&message)) handle(*failed);
  }
  if (!read) text_lost(read.error().message);
}

// Whoever was being worked on may be what killed it: it gets one more try.
void LoopCore::text_lost(const std::string& why) {
  log_warn("the text worker ended; starting it again", {{"why", why}});
  text_.reset();
  text_restarts_->add();
  while (!text_queue_.empty() && !requests_.contains(text_queue_.front())) text_queue_.pop_front();
  if (!text_queue_.empty()) {
    Request& request = requests_.at(text_queue_.front());
    if (++request.text_failures >= 2) {
      text_queue_.pop_front();
      fail_request(request.id,
                   Error{Code::Invalid,
                         "the model's template or tokenizer failed on this prompt, twice; "
                         "try a simpler one"},
                   "text_failed");
    }
  }
  std::erase_if(text_queue_, [this](JobId id) { return !requests_.contains(id); });
  if (const Duration delay = restart_delay(text_restart_); delay.count() > 0) {
    text_restart_.retry_at = now() + delay;
  } else {
    start_text();
  }
}

void LoopCore::check_text_limit() {
  if (!text_ || text_queue_.empty() || now() < text_since_ + options_.text_limit) return;
  const JobId id = text_queue_.front();
  const auto it = requests_.find(id);
  if (it != requests_.end()) {
    text_queue_.pop_front();
    fail_request(id,
                 Error{Code::TooLarge,
                       fmt::format("writing out the prompt took longer than {} s",
                                   std::chrono::duration<double>(options_.text_limit).count())},
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
                                .options = chat->options}});
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
  if (text_queue_.empty() || text_queue_.front().value != message.request) return;
  text_since_ = now();
  text_restart_.quick_deaths = 0;
  const auto it = requests_.find(JobId{message.request});
  if (it == requests_.end()) return text_queue_.pop_front();
  Request& request = it->second;
  if (request.embeds() && models_[request.model].pieces) {
    // Its texts are answered one by one; it stays in front until the last.
    if (on_text_tokens(request, std::move(message.rendered.tokens))) text_queue_.pop_front();
    return;
  }
  text_queue_.pop_front();
  if (!models_[request.model].pieces) {
    return fail_request(request.id,
                        Error{Code::Unavailable, "the model's vocabulary could not be read"},
                        "model_failed");
  }
  auto* tokens = std::get_if<TokenPrompt>(&request.generation.prompt);
  on_tokens(request, tokens != nullptr ? tokens->tokens : std::move(message.rendered.tokens),
            std::move(message.rendered.stops));
}

void LoopCore::handle(const worker::TextFailed& message) {
  if (message.request == 0) {
    if (message.model.value < models_.size())
      fail_model(message.model.value, message.error.message);
    return;
  }
  if (text_queue_.empty() || text_queue_.front().value != message.request) return;
  text_queue_.pop_front();
  text_since_ = now();
  const JobId id{message.request};
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
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
