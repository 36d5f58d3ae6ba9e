// Words that a whole household begins its prompts with: prefixes of the KV cache that one member
// may take over from another.
//
// Everything else is each member's own: whether somebody sent the same words before must not show
// in how fast an answer comes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/detokenizer.h"

namespace lares::server {

// How many of the tokens, from the first on, are words of one of `prompts` and the few that a
// template writes before them (256 bytes at most). 0 if the prompt begins otherwise.
std::size_t shared_tokens(std::span<const std::string> prompts, const PieceTable& pieces,
                          std::span<const std::int32_t> tokens);

}  // namespace lares::server
