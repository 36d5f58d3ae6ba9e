// One input of the message fuzzer.
#pragma once

#include <string_view>

namespace lares::fuzz {

// Decodes `frame`. What is accepted must be stable: encoded and decoded once more it is accepted
// again and encodes to the same bytes. Asserts (aborts) otherwise; a malformed frame is simply
// refused.
void fuzz_message(std::string_view frame);

}  // namespace lares::fuzz
