// Looks a JSON schema over before common turns it into a grammar: what that cannot do becomes an
// error that names the place, or is taken out, instead of an exception, a wrong grammar, an endless
// recursion or a line on stderr.
#pragma once

#include <string>

#include <json.h>

#include "core/result.h"

namespace lares::text {

enum class SchemaUse : std::uint8_t {
  // Of a tool: a limit that no grammar can hold (a pattern, a length of thousands) is taken out of
  // the schema; the model still reads it in its prompt. Schemas of tools come from elsewhere.
  Tool,
  // Of the whole answer: whoever asks for it wants it kept, so that limit is an error.
  Answer,
};

// Most repetitions that a grammar can count (llama-grammar.cpp, MAX_REPETITION_THRESHOLD).
inline constexpr std::int64_t kRepetitionsMax = 2000;
// Most alternatives at one place: schemas of an anyOf, optional members of an object. llama.cpp
// compares them all with each other at every letter.
inline constexpr std::size_t kAlternativesMax = 256;
// Most values of one enum, and most schemas within one.
inline constexpr std::size_t kEnumMax = 16384;
inline constexpr std::size_t kSchemasMax = 4096;

// `place` is what the schema is called in errors: "tools[0].function.parameters". REQUIRES: nested
// at most as deep as chat_json.cc allows.
Result<> check_schema(common_json& schema, const std::string& place, SchemaUse use);

}  // namespace lares::text
