// The JSON of a chat request as the inputs of common's templates, with people's words guarded.
#pragma once

#include <string>

#include <chat.h>

#include "core/result.h"
#include "text/llama/control_guard.h"
#include "text/text_engine.h"

namespace lares::text {

// Errors: Invalid, naming the place ("messages[2] has no role"). Throws what common throws.
Result<common_chat_templates_inputs> chat_inputs(const RenderChat& chat, const ControlGuard& guard,
                                                 const common_chat_templates* templates);

}  // namespace lares::text
