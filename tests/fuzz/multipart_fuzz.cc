#include "multipart_fuzz.h"

#include <algorithm>
#include <cstdint>

#include "core/assert.h"
#include "server/multipart.h"

namespace lares::fuzz {

void fuzz_multipart(std::string_view input) {
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view type = input.substr(0, line);
  const std::string_view body = input.substr(std::min(line + 1, input.size()));
  const auto parts = server::read_multipart(type, body);
  if (!parts) return;
  LARES_ASSERT(server::is_multipart(type), "a form of the type `{}`", type);
  const char* last = body.data();
  for (const server::FormPart& part : *parts) {
    LARES_ASSERT(!part.name.empty(), "a part without a name");
    if (part.data.empty()) continue;
    LARES_ASSERT(part.data.data() >= last, "a part begins before the one ahead of it ends");
    last = part.data.data() + part.data.size();
    LARES_ASSERT(last <= body.data() + body.size(), "a part ends behind the body");
  }
}

}  // namespace lares::fuzz

#ifdef LARES_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lares::fuzz::fuzz_multipart({reinterpret_cast<const char*>(data), size});
  return 0;
}
#endif
