// One input of the fuzzers of what comes in from outside: bodies, settings, pictures. Each is
// accepted, or refused with a reason; a refusal is a client's fault, not the server's. Asserts
// otherwise.
#pragma once

#include <string_view>

namespace lares::fuzz {

void fuzz_openai_body(std::string_view body);  // Chat and completion.
void fuzz_ollama_body(std::string_view body);  // Chat and generate.
void fuzz_embed_body(std::string_view body);   // OpenAI's, Ollama's new and old form.
void fuzz_settings(std::string_view toml);
void fuzz_png(std::string_view bytes);  // What is accepted is written and read back as it is.

}  // namespace lares::fuzz
