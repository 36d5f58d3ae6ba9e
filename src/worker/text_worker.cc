#include <utility>

#include <unistd.h>

#include "core/log.h"
#include "worker/inbox.h"
#include "worker/worker.h"

namespace lares::worker {
namespace {

class TextWorker {
 public:
  TextWorker(Channel& channel, text::TextEngine& engine)
      : channel_(channel), engine_(engine), inbox_(channel, nullptr) {}

  void serve() {
    while (std::optional<Received> received = inbox_.next()) {
      std::visit([this](auto& message) { handle(message); }, received->message);
    }
  }

 private:
  // A send that fails means that the server is gone: the inbox ends, and the loop with it.
  void answer(const Message& message) { (void)channel_.send(message); }

  void handle(LoadVocabulary& m) {
    Result<text::Vocabulary> vocabulary = engine_.load(m.model, m.path);
    if (vocabulary) {
      answer(VocabularyDone{std::move(*vocabulary)});
    } else {
      answer(TextFailed{0, m.model, std::move(vocabulary.error())});
    }
  }

  void handle(Unload& m) { engine_.unload(m.model); }

  void handle(RenderChat& m) {
    Result<text::Rendered> rendered = engine_.render(m.chat);
    if (rendered) {
      answer(TextDone{m.request, std::move(*rendered)});
    } else {
      answer(TextFailed{m.request, m.chat.model, std::move(rendered.error())});
    }
  }

  void handle(Tokenize& m) {
    Result<std::vector<std::int32_t>> tokens = engine_.tokenize(m.text);
    if (tokens) {
      answer(TextDone{m.request, {.tokens = std::move(*tokens), .stops = {}}});
    } else {
      answer(TextFailed{m.request, m.text.model, std::move(tokens.error())});
    }
  }

  void handle(ParseChat& m) {
    Result<text::ParsedChat> parsed = engine_.parse(m.chat);
    if (parsed) {
      answer(ChatParsed{m.request, m.choice, std::move(*parsed)});
    } else {
      answer(TextFailed{m.request, ModelId{}, std::move(parsed.error())});
    }
  }

  template <class Other>
  void handle(Other& m) {
    log_error("closing the channel: a text worker cannot take this message",
              {{"message", message_name(Message(m))}});
    inbox_.close();
  }

  Channel& channel_;
  text::TextEngine& engine_;
  Inbox inbox_;
};

}  // namespace

void run_text_worker(Channel& channel, text::TextEngine& engine) {
  if (!channel.send(Hello{static_cast<std::uint32_t>(::getpid()), "text"})) return;
  TextWorker(channel, engine).serve();
}

}  // namespace lares::worker
