#include "text/llama/chat_answer.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <utility>

#include <common.h>
#include <fmt/format.h>
#include <json-schema-to-grammar.h>
#include <llama-cpp.h>

#include "text/llama/grammar_choice.h"
#include "text/llama/literal_trie.h"

namespace lares::text {
namespace {

common_chat_parser_params loaded(const ChatParser& parser) {
  common_chat_parser_params params;
  params.format = static_cast<common_chat_format>(parser.format);
  params.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  params.generation_prompt = parser.generation_prompt;
  params.parse_tool_calls = parser.tool_calls;
  if (!parser.rules.empty()) params.parser.load(parser.rules);
  return params;
}

// Whether answers are their content and nothing else, so that nobody has to take them apart.
bool is_plain(const ChatParser& parser) {
  const std::string probe = "One word, <two> words.";
  try {
    const common_chat_msg msg = common_chat_parse(probe, true, loaded(parser));
    return msg.content == probe && msg.reasoning_content.empty() && msg.tool_calls.empty();
  } catch (const std::exception&) {
    return false;
  }
}

// Where the prompt leaves off: inside a thought or not.
bool ends_in_thought(const std::string& prompt, const common_chat_params& params) {
  const std::size_t begin = prompt.rfind(params.thinking_start_tag);
  if (params.thinking_start_tag.empty() || begin == std::string::npos) return false;
  return std::none_of(params.thinking_end_tags.begin(), params.thinking_end_tags.end(),
                      [&](const std::string& end) {
                        const std::size_t at = prompt.rfind(end);
                        return at != std::string::npos && at > begin;
                      });
}

void add_trigger(const common_grammar_trigger& trigger, const llama_vocab* vocab, Constraint& out) {
  switch (trigger.type) {
    case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN:
      out.trigger_words.push_back(common_token_to_piece(vocab, trigger.token, true));
      break;
    case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: out.trigger_words.push_back(trigger.value); break;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN: out.trigger_patterns.push_back(trigger.value); break;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL: {
      const std::string& pattern = trigger.value;
      out.trigger_patterns.push_back(fmt::format("{}{}{}", pattern.starts_with('^') ? "" : "^",
                                                 pattern, pattern.ends_with('$') ? "" : "$"));
      break;
    }
  }
}

// The end of the prompt as tokens, for a grammar that begins with it. Some tokenizers put a blank
// before the first control token, which the grammar does not expect.
std::vector<std::int32_t> prefill_of(const llama_vocab* vocab, const std::string& prompt) {
  std::vector<std::int32_t> tokens = common_tokenize(vocab, prompt, false, true);
  if (tokens.empty()) return tokens;
  const std::string first = common_token_to_piece(vocab, tokens.front(), true);
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  if (!first.empty() && blank(first.front()) && !blank(prompt.front())) {
    tokens.erase(tokens.begin());
  }
  return tokens;
}

// Whether llama.cpp takes the grammar, before the device worker has to.
Result<> try_grammar(const llama_vocab* vocab, const Constraint& constraint) {
  llama_sampler_ptr sampler(llama_sampler_init_grammar(vocab, constraint.grammar.c_str(), "root"));
  if (!sampler) {
    return fail(Code::Invalid,
                "no grammar can be made of these schemas: a schema that contains itself without "
                "anything around it, or too many repetitions within each other");
  }
  for (const std::int32_t token : constraint.prefill) llama_sampler_accept(sampler.get(), token);
  return {};
}

Result<Constraint> constraint_of(const llama_vocab* vocab, const ControlGuard& guard,
                                 const common_chat_params& params) {
  Constraint out;
  out.grammar = with_literal_trees(guard.shown(params.grammar));
  if (out.grammar.empty()) return out;
  if (out.grammar.size() > kGrammarBytesMax) {
    return fail(Code::TooLarge,
                fmt::format("the grammar of these schemas has {} bytes; at most {} are possible: "
                            "shorten their lists of values",
                            out.grammar.size(), kGrammarBytesMax));
  }
  out.lazy = params.grammar_lazy;
  if (out.lazy) {
    for (const auto& trigger : params.grammar_triggers) add_trigger(trigger, vocab, out);
    if (!params.thinking_end_tags.empty()) {
      out.think_begin = params.thinking_start_tag;
      out.think_ends = params.thinking_end_tags;
      out.thinking = ends_in_thought(params.generation_prompt, params);
    }
  } else if (!params.generation_prompt.empty()) {
    out.prefill = prefill_of(vocab, params.generation_prompt);
  }
  TRY_VOID(try_grammar(vocab, out));
  return out;
}

// A call, or an answer that keeps the schema: one of them from its first letter on.
Result<common_chat_params> call_or_schema(const AnswerWish& wish) {
  if (wish.call_first.empty()) {
    return fail(Code::Unsupported,
                "with this model `response_format` cannot be kept while `tools` may be called: its "
                "calls have no mark of their own, or it thinks first; leave one of them out, or "
                "set `tool_choice` to \"none\"");
  }
  common_chat_params params;
  params.grammar =
      either_grammar(wish.call_first, json_schema_to_grammar(common_json::parse(wish.schema)));
  return params;
}

std::vector<ShownToken> shown_tokens(const llama_vocab* vocab, const common_chat_params& params) {
  std::vector<ShownToken> out;
  for (const std::string& text : params.preserved_tokens) {
    const std::vector<llama_token> tokens = common_tokenize(vocab, text, false, true);
    if (tokens.size() == 1) out.push_back({tokens.front(), text});
  }
  return out;
}

}  // namespace

Result<> describe_answer(const llama_vocab* vocab, const ControlGuard& guard,
                         common_chat_params params, const AnswerWish& wish, Rendered& out) {
  if (!wish.schema.empty() && !wish.tools && params.grammar.empty()) {
    // common leaves schemas out with a few templates: then the answer is the JSON and nothing else.
    params.grammar = json_schema_to_grammar(common_json::parse(wish.schema));
    params.grammar_lazy = false;
    params.generation_prompt.clear();
    out.constraint = TRY(constraint_of(vocab, guard, params));
    return {};
  }
  const bool special = wish.tools || !wish.schema.empty();
  ChatParser parser;
  parser.format = static_cast<std::uint8_t>(params.format);
  parser.tool_calls = wish.tools;
  parser.generation_prompt = params.generation_prompt;
  parser.rules = guard.shown(params.parser);
  if (wish.tools && !wish.schema.empty()) {
    const common_chat_params either = TRY(call_or_schema(wish));
    out.constraint = TRY(constraint_of(vocab, guard, either));
  } else if (!wish.call_first.empty()) {
    common_chat_params call;
    call.grammar = wish.call_first;
    out.constraint = TRY(constraint_of(vocab, guard, call));
  } else if (special) {
    out.constraint = TRY(constraint_of(vocab, guard, params));
  }
  if (!special && !params.supports_thinking && is_plain(parser)) return {};
  out.shown = shown_tokens(vocab, params);
  out.parser = std::move(parser);
  return {};
}

std::string call_grammar(const common_chat_templates* templates,
                         common_chat_templates_inputs inputs) {
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_AUTO;
  common_chat_params params = common_chat_templates_apply(templates, inputs);
  const bool marked =
      params.grammar_lazy && !params.grammar_triggers.empty() &&
      std::all_of(params.grammar_triggers.begin(), params.grammar_triggers.end(),
                  [](const auto& t) { return t.type == COMMON_GRAMMAR_TRIGGER_TYPE_WORD; });
  return marked ? std::move(params.grammar) : "";
}

Result<ChatParsers::Entry*> ChatParsers::find(const ParseChat& chat) {
  auto found = entries_.find(chat.key);
  if (found == entries_.end()) {
    if (!chat.parser) return fail(Code::NotFound, fmt::format("no parser {}", chat.key));
    if (entries_.size() >= most_) {
      entries_.erase(order_.back());
      order_.pop_back();
    }
    common_chat_parser_params params = loaded(*chat.parser);
    order_.push_front(chat.key);
    found = entries_.emplace(chat.key, Entry{std::move(params), order_.begin()}).first;
  }
  order_.splice(order_.begin(), order_, found->second.used);
  return &found->second;
}

Result<ParsedChat> ChatParsers::parse(const ParseChat& chat) {
  const Entry* entry = TRY(find(chat));
  common_chat_msg msg = common_chat_parse(chat.text, chat.partial, entry->params);
  ParsedChat out;
  out.content = std::move(msg.content);
  out.reasoning = std::move(msg.reasoning_content);
  for (common_chat_tool_call& call : msg.tool_calls) {
    out.calls.push_back({std::move(call.id), std::move(call.name), std::move(call.arguments)});
  }
  return out;
}

}  // namespace lares::text
