// The messages of a chat request, checked and written out again in one form for the templates.
//
// Pure; any thread. Content becomes one string; the role `developer`, which templates do not know,
// becomes `system`; of each message only what a template can use is kept.
#pragma once

#include "core/json.h"
#include "server/generation.h"

namespace lares::server {

// Reads `messages` and `chat_template_kwargs` of the body; notes the first problem.
ChatPrompt read_chat_prompt(const json::Fields& body, json::Problem& problem);

}  // namespace lares::server
