// TextEngine on llama.cpp: vocabulary-only models, and the templates of its `common` library.
//
// One thread. What the libraries throw is caught here. They are silenced, because their logs print
// prompts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "text/llama/chat_answer.h"
#include "text/text_engine.h"

namespace lares::text {

class LlamaText : public TextEngine {
 public:
  LlamaText();
  ~LlamaText() override;
  LlamaText(const LlamaText&) = delete;
  LlamaText& operator=(const LlamaText&) = delete;

  Result<Vocabulary> load(ModelId model, const std::string& path) override;
  void unload(ModelId model) override;
  // As llama-server does it: the model's template by common's Jinja (ChatML where the file has
  // none), the prompt tokenised with control tokens recognised and with BOS where the vocabulary
  // wants one and the template has not written it. Unlike llama-server, a control token's text
  // inside messages, tools or options stays plain text (control_guard.h).
  Result<Rendered> render(const RenderChat& chat) override;
  Result<std::vector<std::int32_t>> tokenize(const Tokenize& request) override;
  Result<ParsedChat> parse(const ParseChat& chat) override;

 private:
  struct Model;
  Result<Model*> find(ModelId model) const;

  std::map<ModelId, std::unique_ptr<Model>> models_;
  ChatParsers parsers_;
};

}  // namespace lares::text
