// One or more messages of every type with every field set, for the tests of the encoding and as the
// seeds of its fuzzer.
#pragma once

#include <vector>

#include "worker/message.h"

namespace lares::worker {

inline engine::Sampling sample_sampling() {
  engine::Sampling s;
  s.temperature = 0.5F;
  s.top_k = 7;
  s.presence_penalty = -1.5F;
  s.penalty_window = 9;
  s.seed = 0xfeedface12345678ULL;
  s.choice = 3;
  s.ignore_eos = true;
  s.logprobs = 5;
  s.want_logprob = true;
  s.logit_bias = {{12, -100.0F}, {99, 1.5F}};
  return s;
}

inline Constraint sample_constraint() {
  Constraint c;
  c.grammar = "root ::= \"a\"";
  c.prefill = {1, 2};
  c.lazy = true;
  c.trigger_words = {"<tool_call>"};
  c.trigger_patterns = {"^a$"};
  c.think_begin = "<think>";
  c.think_ends = {"</think>"};
  c.thinking = true;
  return c;
}

inline engine::ModelInfo sample_info() {
  engine::ModelInfo info;
  info.architecture = "qwen3";
  info.description = "qwen3 0.1B Q8_0";
  info.parameters = 123456789;
  info.weights = Bytes{1 << 20};
  info.kv_per_token = Bytes{4096};
  info.context = 2048;
  info.vocabulary = 151936;
  info.embedding = 768;
  info.can.sliding_window = true;
  info.can.window = 512;
  info.can.longest_node = Duration{5};
  return info;
}

inline std::vector<Message> sample_device_messages() {
  const ModelId model{2};
  const SeqId seq{5};
  engine::Open again{model,    seq, {1, 2, 3, -4},     2,
                     SeqId{7}, 1,   sample_sampling(), sample_constraint()};
  engine::Open fresh;
  fresh.model = model;
  fresh.seq = seq;
  fresh.tokens = {9};
  fresh.prompt_tokens = 1;
  engine::ItemResult item;
  item.seq = seq;
  item.state = engine::ItemState::Ended;
  item.tokens = 4;
  item.token = 77;
  item.embedding = {0.5F, -1};
  item.logprob = -0.25F;
  item.best[0] = 3;
  item.best[1] = 2;
  item.top = {{77, -0.25F}, {78, -1.0F}};
  const engine::Ran ran{RunId{8},    model,     {item, {}}, Duration{123456},
                        Duration{3}, Bytes{99}, 512,        2};
  const engine::Loaded loaded{model,    sample_info(), 1024,     4096,       64,
                              Bytes{1}, Bytes{2},      Bytes{3}, Duration{4}};
  const engine::MemoryReport report{
      Bytes{100}, Bytes{50}, Bytes{25}, {{model, Bytes{1}, Bytes{2}, Bytes{3}, 4, 5, 6}}};
  const Error error{Code::Busy, "no room: 5 of 4"};
  return {Hello{123, "device"},
          Load{{model, "/models/a.gguf", 1, 2, 3, 4, 5}},
          Unload{model},
          Open{again},
          Open{fresh},
          Run{{RunId{8}, model, {{seq, 32}, {SeqId{6}, 1}}, Duration{50}}},
          Run{},
          Save{{.model = model, .seq = seq, .state = StateId{5}, .from = 16, .tokens = 40}},
          Restore{{.model = model, .seq = seq, .state = StateId{5}, .end = 56}},
          Forget{model, StateId{5}},
          Drop{model, seq},
          LeaseTensor{{11, Bytes{22}}},
          ReleaseTensor{11},
          Cancel{model, seq},
          AskMemory{},
          SetThreads{2},
          LoadDone{loaded},
          LoadFailed{model, error},
          RunDone{ran},
          RunFailed{{RunId{8}, model, error}},
          OpenFailed{model, seq, error},
          SaveDone{{.model = model, .state = StateId{5}, .bytes = Bytes{33}, .took = Duration(7)}},
          SaveFailed{model, StateId{5}, error},
          RestoreFailed{model, seq, error},
          VerbFailed{"release", model, seq, error},
          Memory{report}};
}

inline std::vector<Message> sample_messages() {
  const ModelId model{2};
  std::vector<Message> all = sample_device_messages();
  all.push_back(LoadVocabulary{model, "/models/a.gguf"});
  all.push_back(RenderChat{1, {model, R"([{"role":"user","content":"hi"}])", "[]", "{}", false}});
  all.push_back(Tokenize{2, {model, std::string("a\0b", 3), false, true}});
  all.push_back(VocabularyDone{{model, {0, 1, 3}, "abc", {0, 3}, true}});
  const text::ChatParser parser{1, true, "<|im_start|>assistant\n", "{}"};
  text::RenderChat tools{model, "[]", "[{}]", "", true};
  tools.tool_choice = text::ToolChoice::Required;
  tools.tool_name = "light";
  tools.parallel_tool_calls = false;
  tools.schema = "{}";
  all.push_back(RenderChat{4, tools});
  all.push_back(TextDone{3, {{4, 5, 6}, {"</s>", "stop"}}});
  all.push_back(TextDone{4, {{4}, {}, sample_constraint(), {{7, "<tool_call>"}}, parser}});
  all.push_back(ParseChat{5, 1, {9, parser, "<tool_call>", true}});
  all.push_back(ParseChat{5, 0, {9, std::nullopt, "", false}});
  all.push_back(ChatParsed{5, 1, {"Hi", "hm", {{"1", "light", "{}"}}}});
  all.push_back(TextFailed{0, model, {Code::Corrupt, "not a GGUF file"}});
  return all;
}

}  // namespace lares::worker
