// Steps of the text engine, timed: LlmEngine driven directly, without server or worker.
//
//   llm_step MODEL.gguf [--decodes N] [--chunk N] [--steps N] [--threads N] [--filled N]
//            [--top-k N] [--constrained N] [--give-way 0|1] [--library FOLDER]
//
// N sequences decode one token each a step, and one more reads a prompt in chunks (0: none); of the
// first, some must follow a grammar (lines of JSON without end). Prints
// the median and the 99th percentile of a step in ms, split into building the batch, llama_decode
// and sampling, and tokens per second. The machine's load is printed too, because ggml's threads
// spin: a busy neighbour changes everything (engine/llm/threads.h).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/llm/llm_engine.h"

namespace {

using namespace lares;

constexpr ModelId kModel{0};

struct Wish {
  std::string path;
  std::map<std::string, std::string> options = {
      {"--decodes", "4"},     {"--chunk", "0"},    {"--steps", "100"},
      {"--threads", "0"},     {"--filled", "64"},  {"--top-k", "40"},
      {"--constrained", "0"}, {"--give-way", "1"}, {"--library", ""}};

  [[nodiscard]] std::uint32_t number(const std::string& name) const {
    return static_cast<std::uint32_t>(std::strtoul(options.at(name).c_str(), nullptr, 10));
  }
};

// Nothing if the arguments make no sense.
bool read_arguments(int argc, char** argv, Wish& wish) {
  if (argc < 2) return false;
  wish.path = argv[1];
  for (int i = 2; i < argc; i += 2) {
    if (i + 1 == argc || wish.options.count(argv[i]) == 0) return false;
    wish.options[argv[i]] = argv[i + 1];
  }
  return wish.number("--steps") > 0;
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one;
  file >> one;
  return one;
}

void print(const char* name, std::vector<double>& ms) {
  std::sort(ms.begin(), ms.end());
  const double p99 = ms[std::min(ms.size() - 1, ms.size() * 99 / 100)];
  fmt::print("  {:<8} {:>9.3f} {:>9.3f}\n", name, ms[ms.size() / 2], p99);
}

double ms_of(Duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

engine::Sampling sampling_for(std::uint32_t seq, const Wish& wish) {
  engine::Sampling sampling;
  sampling.seed = seq;
  sampling.top_k = wish.number("--top-k");
  sampling.ignore_eos = true;
  return sampling;
}

Constraint json_lines() {
  Constraint constraint;
  constraint.grammar = R"(root ::= "{" pair (", " pair){0,4} "}\n" root
pair ::= string ": " (string | number | "true" | "false" | "null")
string ::= "\"" [^"\\\x00-\x1F]{1,20} "\""
number ::= "-"? [0-9]{1,6} ("." [0-9]{1,3})?
)";
  return constraint;
}

Result<> open(llm::LlmEngine& engine, std::uint32_t seq, std::uint32_t tokens, const Wish& wish,
              const engine::Loaded& loaded) {
  engine::Open open;
  open.model = kModel;
  open.seq = SeqId{seq};
  open.prompt_tokens = tokens;
  for (std::uint32_t i = 0; i < tokens; ++i) {
    open.tokens.push_back(static_cast<std::int32_t>((i * 37 + seq * 101) % loaded.info.vocabulary));
  }
  open.sampling = sampling_for(seq, wish);
  if (seq < wish.number("--constrained")) open.constraint = json_lines();
  return engine.open(open);
}

Result<> fill(llm::LlmEngine& engine, const Wish& wish, const engine::Loaded& loaded) {
  for (std::uint32_t seq = 0; seq < wish.number("--decodes"); ++seq) {
    TRY_VOID(open(engine, seq, std::max(1U, wish.number("--filled")), wish, loaded));
    engine::Run run;
    run.model = kModel;
    run.items = {{SeqId{seq}, 512}};
    TRY(engine.run(run));
  }
  return {};
}

struct Timed {
  std::vector<double> whole, build, decode, sample;
  std::map<std::uint32_t, std::uint32_t> threads;  // Steps by number of threads.
  std::uint64_t tokens = 0;
};

Result<Timed> measure(llm::LlmEngine& engine, const Wish& wish, const engine::Loaded& loaded) {
  Timed timed;
  const std::uint32_t decodes = wish.number("--decodes");
  const std::uint32_t chunk = wish.number("--chunk");
  const SeqId reader{decodes};
  std::uint32_t left = 0;
  for (std::uint32_t step = 0; step < wish.number("--steps"); ++step) {
    engine::Run run;
    run.model = kModel;
    for (std::uint32_t seq = 0; seq < decodes; ++seq) run.items.push_back({SeqId{seq}, 1});
    if (chunk > 0) {
      if (left < chunk) {
        engine.drop(kModel, reader);
        left = std::min(1024U, loaded.context - 1);
        TRY_VOID(open(engine, reader.value, left + 1, wish, loaded));
      }
      run.items.push_back({reader, chunk});
      left -= chunk;
    }
    const auto begin = std::chrono::steady_clock::now();
    const engine::Ran ran = TRY(engine.run(run));
    timed.whole.push_back(ms_of(std::chrono::steady_clock::now() - begin));
    const llm::RunTimes times = engine.last_times(kModel);
    timed.build.push_back(ms_of(times.build));
    timed.decode.push_back(ms_of(times.decode));
    timed.sample.push_back(ms_of(times.sample));
    ++timed.threads[ran.threads];
    for (const engine::ItemResult& item : ran.items) timed.tokens += item.tokens;
  }
  return timed;
}

Result<> bench(const Wish& wish) {
  llm::LlmOptions options;
  options.threads = wish.number("--threads");
  options.give_way = wish.number("--give-way") != 0;
  options.library_folder = wish.options.at("--library");
  const auto engine = TRY(llm::LlmEngine::create(options));
  engine::LoadSpec spec;
  spec.model = kModel;
  spec.path = wish.path;
  spec.sequences = wish.number("--decodes") + 1;
  const engine::Loaded loaded = TRY(engine->load(spec));
  TRY_VOID(fill(*engine, wish, loaded));
  Timed timed = TRY(measure(*engine, wish, loaded));
  double total = 0;
  for (const double ms : timed.whole) total += ms;
  fmt::print("{} decodes ({} constrained), chunk {}, {} steps, load {}\n", wish.number("--decodes"),
             wish.number("--constrained"), wish.number("--chunk"), wish.number("--steps"),
             load_average());
  for (const auto& [threads, steps] : timed.threads) {
    fmt::print("  {} steps with {} threads\n", steps, threads);
  }
  fmt::print("  ms          median       p99\n");
  print("step", timed.whole);
  print("build", timed.build);
  print("decode", timed.decode);
  print("sample", timed.sample);
  fmt::print("  {:.1f} tokens/s\n", static_cast<double>(timed.tokens) * 1000 / total);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  if (!read_arguments(argc, argv, wish)) {
    fmt::print(stderr, "usage: llm_step MODEL.gguf [--decodes N] [--chunk N] [--steps N] ...\n");
    return 2;
  }
  if (const Result<> done = bench(wish); !done) {
    fmt::print(stderr, "llm_step: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
