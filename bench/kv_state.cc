// What leaves a pool and comes back, timed against computing it again: LlmEngine driven directly.
//
//   kv_state MODEL.gguf [--tokens N] [--rounds N] [--threads N] [--library FOLDER]
//
// Prints medians in ms for a sequence of N tokens: computing it, copying it to the host, putting it
// back whole, and putting back its second half behind a shared first one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/llm/llm_engine.h"

namespace {

using namespace lares;

constexpr ModelId kModel{0};
constexpr std::uint32_t kBatch = 512;

using Options = std::map<std::string, std::string>;

std::uint32_t number(const Options& options, const std::string& name) {
  return static_cast<std::uint32_t>(std::strtoul(options.at(name).c_str(), nullptr, 10));
}

class Timer {
 public:
  [[nodiscard]] double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Bench {
 public:
  Bench(llm::LlmEngine& engine, std::uint32_t tokens, std::uint32_t vocabulary)
      : engine_(engine), length_(tokens) {
    for (std::uint32_t i = 0; i <= tokens; ++i)
      tokens_.push_back(static_cast<std::int32_t>(i * 37 % vocabulary));
  }

  Result<> round() {
    TRY_VOID(open(0));
    times_["1 computed"].push_back(TRY(compute(0)));
    Timer save;
    TRY(engine_.save({kModel, SeqId{0}, StateId{1}, 0, length_}));
    times_["2 saved"].push_back(save.ms());
    TRY(engine_.save({kModel, SeqId{0}, StateId{2}, length_ / 2, length_ - length_ / 2}));
    TRY_VOID(open(1));
    Timer whole;
    TRY_VOID(engine_.restore({kModel, SeqId{1}, StateId{1}, length_}));
    times_["3 put back"].push_back(whole.ms());
    TRY_VOID(open(2, length_ / 2));
    Timer half;
    TRY_VOID(engine_.restore({kModel, SeqId{2}, StateId{2}, length_}));
    times_["4 second half put back"].push_back(half.ms());
    for (std::uint32_t seq = 0; seq < 3; ++seq) engine_.drop(kModel, SeqId{seq});
    for (std::uint64_t state = 1; state < 3; ++state) engine_.forget(kModel, StateId{state});
    return {};
  }

  void print() {
    for (auto& [name, ms] : times_) {
      std::ranges::sort(ms);
      const double median = ms[ms.size() / 2];
      fmt::print("  {:<24} {:>9.3f} ms {:>9.3f} ms per 1,000 tokens\n", name.substr(2), median,
                 median * 1000 / (name[0] == '4' ? length_ / 2.0 : length_));
    }
  }

 private:
  Result<> open(std::uint32_t seq, std::uint32_t shared = 0) {
    engine::Open open;
    open.model = kModel;
    open.seq = SeqId{seq};
    open.tokens = tokens_;
    open.prompt_tokens = static_cast<std::uint32_t>(tokens_.size());
    if (shared > 0) {
      open.from = SeqId{0};
      open.from_tokens = shared;
    }
    return engine_.open(open);
  }

  // All but the last token; ms.
  Result<double> compute(std::uint32_t seq) {
    const Timer timer;
    for (std::uint32_t done = 0; done < length_; done += kBatch) {
      engine::Run run;
      run.model = kModel;
      run.items = {{SeqId{seq}, std::min(kBatch, length_ - done)}};
      TRY(engine_.run(run));
    }
    return timer.ms();
  }

  llm::LlmEngine& engine_;
  std::uint32_t length_;
  std::vector<std::int32_t> tokens_;
  std::map<std::string, std::vector<double>> times_;
};

Result<> run(const std::string& path, const Options& options) {
  auto engine = TRY(llm::LlmEngine::create({.threads = number(options, "--threads"),
                                            .give_way = false,
                                            .library_folder = options.at("--library")}));
  const std::uint32_t tokens = number(options, "--tokens");
  engine::LoadSpec spec;
  spec.model = kModel;
  spec.path = path;
  spec.pool_tokens = 4 * tokens + 4096;
  spec.sequences = 4;
  spec.outputs = 4;
  spec.batch_tokens = kBatch;
  const engine::Loaded loaded = TRY(engine->load(spec));
  Bench bench(*engine, tokens, loaded.info.vocabulary);
  for (std::uint32_t i = 0; i < number(options, "--rounds"); ++i) TRY_VOID(bench.round());
  fmt::print("{}, {} tokens of {} bytes\n", path, tokens, loaded.info.kv_per_token.count);
  bench.print();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options{{"--tokens", "1000"}, {"--rounds", "5"}, {"--threads", "0"}, {"--library", ""}};
  bool ok = argc >= 2 && argc % 2 == 0;
  for (int i = 2; ok && i < argc; i += 2) {
    ok = options.contains(argv[i]);
    options[argv[i]] = argv[i + 1];
  }
  if (!ok) {
    fmt::print(stderr,
               "kv_state MODEL.gguf [--tokens N] [--rounds N] [--threads N] [--library FOLDER]\n");
    return 2;
  }
  const Result<> done = run(argv[1], options);
  if (!done) fmt::print(stderr, "kv_state: {}\n", done.error().message);
  return done ? 0 : 1;
}
