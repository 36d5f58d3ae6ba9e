// What a chat request says about its answer's form: tools, tool_choice, response_format, and the
// calls among its messages. Checked, and written out in one form for the text worker.
//
// Pure; any thread.
#pragma once

#include "core/json.h"
#include "server/generation.h"

namespace lares::server {

inline constexpr std::size_t kToolsMax = 256;
inline constexpr std::size_t kToolNameBytesMax = 128;
inline constexpr std::size_t kCallsMax = 256;  // In one message.

// Reads `tools`, `tool_choice`, `parallel_tool_calls`, `response_format` and `reasoning_effort`;
// notes the first problem.
void read_answer_form(const json::Fields& body, json::Problem& problem, ChatPrompt& out);

// `tool_calls` of an assistant's message, normalised: arguments are the text of a JSON object.
json::Array read_tool_calls(const json::Array& calls, const std::string& path,
                            json::Problem& problem);

// Appends a member; a braced pair would be ambiguous.
void add_member(json::Object& out, std::string_view name, json::Value value);

}  // namespace lares::server
