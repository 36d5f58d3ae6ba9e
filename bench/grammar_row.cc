// What one constrained sequence adds to a step, in the worst case: a vocabulary of any size, and
// logits that know nothing of the grammar, so that nearly every token sampled is not allowed.
//
//   grammar_row VOCABULARY.gguf [ROWS]
//
// Samples rows of random logits with and without a grammar (lines of JSON) and prints median, 99th
// percentile and maximum in us. llama.cpp's sources hold such files: models/ggml-vocab-qwen2.gguf.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <llama-cpp.h>

#include "engine/llm/grammar.h"
#include "engine/llm/sampler.h"

namespace {

using namespace lares;

constexpr const char* kJsonLines = R"(root ::= "{" pair (", " pair){0,4} "}\n" root
pair ::= string ": " (string | number | "true" | "false" | "null")
string ::= "\"" [^"\\\x00-\x1F]{1,20} "\""
number ::= "-"? [0-9]{1,6} ("." [0-9]{1,3})?
)";

void print(const char* name, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  fmt::print("  {:<14} {:>9.1f} {:>9.1f} {:>9.1f}\n", name, us[us.size() / 2],
             us[us.size() * 99 / 100], us.back());
}

// Time to sample each row, in us.
std::vector<double> measure(std::size_t rows, std::size_t vocabulary, llm::Grammar* grammar) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  llm::Sampler sampler;
  engine::Sampling sampling;
  std::vector<float> logits(vocabulary);
  std::vector<std::int32_t> made;
  std::vector<double> us;
  for (std::size_t i = 0; i < rows; ++i) {
    for (float& x : logits) x = normal(random);
    sampling.seed = i;
    const auto begin = std::chrono::steady_clock::now();
    const llm::Sampled sampled = sampler.sample({logits, made, 0, {}, grammar}, sampling);
    if (grammar != nullptr) grammar->accept(sampled.token);
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                     .count());
  }
  return us;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: grammar_row VOCABULARY.gguf [ROWS]\n");
    return 2;
  }
  const std::size_t rows = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 500;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const llama_model_ptr model(llama_model_load_from_file(argv[1], params));
  if (!model || rows == 0) {
    fmt::print(stderr, "grammar_row: {} cannot be read\n", argv[1]);
    return 1;
  }
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const auto size = static_cast<std::size_t>(llama_vocab_n_tokens(vocab));
  Constraint constraint;
  constraint.grammar = kJsonLines;
  const llm::TokenIndex index(vocab);
  const auto grammar = llm::Grammar::create(vocab, constraint, {}, &index);
  if (!grammar) {
    fmt::print(stderr, "grammar_row: {}\n", grammar.error().message);
    return 1;
  }
  fmt::print("{} rows of {} logits\n  us              median       p99   longest\n", rows, size);
  print("free", measure(rows, size, nullptr));
  print("constrained", measure(rows, size, grammar->get()));
  return 0;
}
