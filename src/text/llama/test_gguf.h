// For tests: the starter model's vocabulary under another chat template.
#pragma once

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include <gguf.h>
#include <gtest/gtest.h>

namespace lares::text {

// Writes the model file `model` without its tensors and returns the new path; "" if it cannot be
// written.
inline std::string gguf_with_template(const std::string& model, const std::string& name,
                                      const std::string& chat_template) {
  gguf_context* from = gguf_init_from_file(model.c_str(), {.no_alloc = true, .ctx = nullptr});
  if (from == nullptr) return "";
  gguf_context* to = gguf_init_empty();
  gguf_set_kv(to, from);
  gguf_set_val_str(to, "tokenizer.chat_template", chat_template.c_str());
  const std::string path =
      testing::TempDir() + "lares_template_" + std::to_string(getpid()) + "_" + name + ".gguf";
  const bool written = gguf_write_to_file(to, path.c_str(), true);
  gguf_free(to);
  gguf_free(from);
  return written ? path : "";
}

inline std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace lares::text
