// One input of the sketch fuzzers.
#pragma once

#include <string_view>

namespace lares::fuzz {

// Reads a sketch's text, and plans it. What is accepted must be stable: printed it is read back as
// the same tree, and so is its JSON. What is refused has a place in the text. Asserts otherwise.
void fuzz_sketch(std::string_view text);

// The same for the JSON form.
void fuzz_sketch_json(std::string_view text);

}  // namespace lares::fuzz
