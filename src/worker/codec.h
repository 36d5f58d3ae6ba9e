// How the engine's and the text worker's values are written as bytes, for core/archive.h.
//
// Each `fields` stands in the namespace of its type, where argument-dependent lookup finds it. The
// order of the fields is the wire format: a change here is a change of kProtocolVersion.
#pragma once

#include <type_traits>
#include <utility>

#include "core/archive.h"
#include "core/constraint.h"
#include "core/result.h"
#include "engine/engine.h"
#include "text/text_engine.h"
#include "worker/picture_codec.h"

namespace lares {

template <class Archive, class First, class Second>
void fields(Archive& a, std::pair<First, Second>& pair) {
  archive_all(a, pair.first, pair.second);
}

template <class Archive>
void fields(Archive& a, Constraint& c) {
  archive_all(a, c.grammar, c.prefill, c.lazy, c.trigger_words, c.trigger_patterns);
  archive_all(a, c.think_begin, c.think_ends, c.thinking);
}

template <class Archive>
void fields(Archive& a, Error& error) {
  archive_enum(a, error.code, Code::Conflict);
  a(error.message);
}

}  // namespace lares

namespace lares::engine {

template <class Archive>
void fields(Archive& a, Capabilities& can) {
  archive_all(a, can.cut_anywhere, can.sliding_window, can.recurrent, can.whole_text);
  archive_all(a, can.generates, can.embeds, can.has_chat_template, can.window, can.longest_node);
  a(can.pictures);
}

template <class Archive>
void fields(Archive& a, ModelInfo& info) {
  archive_all(a, info.architecture, info.description, info.parameters, info.weights);
  archive_all(a, info.kv_per_token, info.context, info.vocabulary, info.embedding, info.can);
  a(info.picture);
}

template <class Archive>
void fields(Archive& a, LoadSpec& spec) {
  archive_all(a, spec.model, spec.path, spec.adapter, spec.adapter_scale, spec.context);
  archive_all(a, spec.pool_tokens, spec.sequences);
  archive_all(a, spec.outputs, spec.batch_tokens, spec.measure_steps);
  archive_all(a, spec.embeds, spec.pictures);
}

template <class Archive>
void fields(Archive& a, StepTime& step) {
  archive_all(a, step.decodes, step.position, step.prompt, step.from, step.time);
}

template <class Archive>
void fields(Archive& a, Loaded& loaded) {
  archive_all(a, loaded.model, loaded.info, loaded.context, loaded.pool_tokens, loaded.sequences);
  archive_all(a, loaded.weights, loaded.kv, loaded.compute, loaded.took);
  archive_all(a, loaded.step_times);
}

template <class Archive>
void fields(Archive& a, Sampling& s) {
  archive_all(a, s.temperature, s.top_k, s.top_p, s.min_p, s.presence_penalty);
  archive_all(a, s.frequency_penalty, s.repeat_penalty, s.penalty_window, s.seed, s.choice);
  archive_all(a, s.ignore_eos, s.logprobs, s.want_logprob, s.logit_bias);
}

template <class Archive>
void fields(Archive& a, Open& open) {
  archive_all(a, open.model, open.seq, open.tokens, open.prompt_tokens, open.from);
  archive_all(a, open.from_tokens, open.sampling, open.constraint);
}

template <class Archive>
void fields(Archive& a, Save& save) {
  archive_all(a, save.model, save.seq, save.state, save.from, save.tokens);
}

template <class Archive>
void fields(Archive& a, Restore& restore) {
  archive_all(a, restore.model, restore.seq, restore.state, restore.end);
}

template <class Archive>
void fields(Archive& a, Saved& saved) {
  archive_all(a, saved.model, saved.state, saved.bytes, saved.took);
}

template <class Archive>
void fields(Archive& a, RunItem& item) {
  archive_all(a, item.seq, item.tokens);
}

template <class Archive>
void fields(Archive& a, Run& run) {
  archive_all(a, run.run, run.model, run.items, run.slice, run.pass);
}

template <class Archive>
void fields(Archive& a, TopToken& top) {
  archive_all(a, top.token, top.logprob);
}

template <class Archive>
void fields(Archive& a, ItemResult& item) {
  a(item.seq);
  archive_enum(a, item.state, ItemState::Embedded);
  archive_all(a, item.tokens, item.token, item.logprob, item.best[0], item.best[1], item.top);
  a(item.embedding);
}

template <class Archive>
void fields(Archive& a, Ran& ran) {
  archive_all(a, ran.run, ran.model, ran.items, ran.device, ran.sampling, ran.copied);
  archive_all(a, ran.span_tokens, ran.threads, ran.idle, ran.pass_done, ran.stepped, ran.longest);
}

template <class Archive>
void fields(Archive& a, RunFailed& failed) {
  archive_all(a, failed.run, failed.model, failed.error);
}

template <class Archive>
void fields(Archive& a, MemoryUse& use) {
  archive_all(a, use.model, use.weights, use.kv, use.compute, use.pool_tokens, use.used_tokens);
  a(use.sequences_open);
}

template <class Archive>
void fields(Archive& a, MemoryReport& report) {
  archive_all(a, report.device_total, report.device_free, report.host_saved, report.models);
}

template <class Archive>
void fields(Archive& a, Lease& lease) {
  archive_all(a, lease.handle, lease.bytes);
}

}  // namespace lares::engine

namespace lares::text {

template <class Archive>
void fields(Archive& a, Vocabulary& v) {
  archive_all(a, v.model, v.offsets, v.bytes, v.flags, v.has_chat_template);
}

template <class Archive>
void fields(Archive& a, RenderChat& chat) {
  archive_all(a, chat.model, chat.messages, chat.tools, chat.options, chat.add_generation_prompt);
  archive_enum(a, chat.tool_choice, ToolChoice::None);
  archive_all(a, chat.tool_name, chat.parallel_tool_calls, chat.schema);
}

template <class Archive>
void fields(Archive& a, Rendered& rendered) {
  archive_all(a, rendered.tokens, rendered.stops, rendered.constraint, rendered.shown);
  a(rendered.parser);
}

template <class Archive>
void fields(Archive& a, ShownToken& shown) {
  archive_all(a, shown.token, shown.text);
}

template <class Archive>
void fields(Archive& a, ChatParser& parser) {
  archive_all(a, parser.format, parser.tool_calls, parser.generation_prompt, parser.rules);
}

template <class Archive>
void fields(Archive& a, ParseChat& chat) {
  archive_all(a, chat.key, chat.parser, chat.text, chat.partial);
}

template <class Archive>
void fields(Archive& a, ToolCall& call) {
  archive_all(a, call.id, call.name, call.arguments);
}

template <class Archive>
void fields(Archive& a, ParsedChat& chat) {
  archive_all(a, chat.content, chat.reasoning, chat.calls);
}

template <class Archive>
void fields(Archive& a, Tokenize& request) {
  archive_all(a, request.model, request.text, request.add_special, request.parse_special);
}

}  // namespace lares::text
