#include "input_fuzz.h"

#include <cstdint>
#include <string>

#include "app/config.h"
#include "core/assert.h"
#include "server/embeddings.h"
#include "server/errors.h"
#include "server/ollama_request.h"
#include "server/openai_request.h"
#include "server/png.h"

namespace lares::fuzz {
namespace {

template <class Parsed>
void check(const Parsed& parsed) {
  if (parsed) return;
  const int status = server::error_status(parsed.error());
  LARES_ASSERT(status >= 400 && status < 500, "status {}: {}", status, parsed.error().message);
  LARES_ASSERT(!parsed.error().message.empty(), "refused without a reason");
}

}  // namespace

void fuzz_openai_body(std::string_view body) {
  for (const auto form : {server::OpenAiForm::Chat, server::OpenAiForm::Completion})
    check(server::parse_openai_request(form, body));
}

void fuzz_ollama_body(std::string_view body) {
  for (const auto form : {server::OllamaForm::Chat, server::OllamaForm::Generate})
    check(server::parse_ollama_request(form, body));
}

void fuzz_embed_body(std::string_view body) {
  for (const auto form :
       {server::EmbedForm::OpenAi, server::EmbedForm::Ollama, server::EmbedForm::OllamaPrompt})
    check(server::parse_embed_request(form, body, 32));
}

void fuzz_settings(std::string_view toml) {
  app::Config config;
  const auto read = app::read_toml(toml, "lares.toml", config);
  if (!read) {
    LARES_ASSERT(!read.error().message.empty(), "refused without a reason");
    return;
  }
  const auto finished = app::finish_config(config);
  LARES_ASSERT(finished || !finished.error().message.empty(), "refused without a reason");
}

void fuzz_png(std::string_view bytes) {
  const auto picture = server::read_png(bytes);
  if (!picture) return;
  const auto again = server::read_png(server::png_of(*picture));
  LARES_ASSERT(again && again->rgb == picture->rgb, "{} x {} read back as another",
               picture->size.width, picture->size.height);
}

}  // namespace lares::fuzz

#ifdef LARES_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lares::fuzz::LARES_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
#endif
