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
  info.can.pictures = true;
  info.picture = {.digest = "d",
                  .space = "sd",
                  .family = "KL-f8",
                  .channels = 4,
                  .factor = 8,
                  .scale_millionths = 182150,
                  .shift_millionths = 1,
                  .multiple = 64,
                  .usual = {512, 256},
                  .encoder = "clip-l",
                  .prompt_tokens = 77,
                  .prompt_width = 768,
                  .takes_width = 1024,
                  .sampler = "ddim",
                  .steps = 20,
                  .steps_draft = 10,
                  .steps_fine = 40,
                  .cfg_millionths = 7500000};
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
          Load{{model, "/models/a.gguf", "/models/tone.gguf", 0.5, 1, 2, 3, 4, 5}},
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

inline std::vector<Message> sample_picture_messages() {
  const ModelId model{3};
  const engine::Handle a{11}, b{12}, c{13};
  const engine::Picture picture{{2, 1}, {1, 2, 3, 4, 5, 6}};
  const engine::LatentCopy latent{{8, 4}, {0.5F, -1, 2}};
  const auto prepare = [&](engine::PictureWork work) {
    return Prepare{{model, c, std::move(work)}};
  };
  const engine::SampleLatent fresh{.words = a, .seed = 7, .steps = 9, .size = {64, 32}};
  const engine::SampleLatent on{.words = a,
                                .negative = b,
                                .seed = ~std::uint64_t{0},
                                .steps = 20,
                                .cfg = 3.5,
                                .sampler = "euler",
                                .size = {64, 64},
                                .from = engine::Handle{14},
                                .strength = 0.55,
                                .go_on = engine::GoOn{8, engine::Handle{15}, {1, 2}}};
  const Error error{Code::TooLarge, "4096x64 pixels; at most 2048"};
  return {prepare(engine::EncodeText{"a red apple"}),
          prepare(fresh),
          prepare(on),
          prepare(engine::DecodeLatent{a}),
          prepare(engine::EncodePicture{.picture = picture, .size = {64, 64}}),
          prepare(engine::EncodePicture{.pixels = b, .size = {64, 64}}),
          prepare(engine::AdoptLatent{latent}),
          prepare(engine::ResizeLatent{a, {128, 64}}),
          prepare(engine::BlendLatents{a, b, 0.25, true}),
          Deliver{{model, a, engine::Deliverable::Latent}},
          Discard{model, a},
          PrepareDone{{model, a, 8, Bytes{5}, Bytes{6}}},
          PrepareFailed{model, a, error},
          DeliverDone{{model, a, engine::Deliverable::Preview, picture, latent}},
          DeliverFailed{model, a, engine::Deliverable::Preview, error},
          Run{{.run = RunId{9}, .model = model, .slice = Duration{5}, .pass = {a, b}}},
          RunDone{{.run = RunId{9},
                   .model = model,
                   .device = Duration{4},
                   .pass_done = true,
                   .stepped = {{a, 3, false}, {b, 9, true}},
                   .longest = Duration{2}}}};
}

inline std::vector<Message> sample_messages() {
  const ModelId model{2};
  std::vector<Message> all = sample_device_messages();
  for (Message& message : sample_picture_messages()) all.push_back(std::move(message));
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
