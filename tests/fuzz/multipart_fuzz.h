// The fuzzer of forms: whatever a body holds, its parts lie within it, and it is refused or read in
// the same way again.
#pragma once

#include <string_view>

namespace lares::fuzz {

// The first line is the Content-Type, the rest the body.
void fuzz_multipart(std::string_view input);

}  // namespace lares::fuzz
