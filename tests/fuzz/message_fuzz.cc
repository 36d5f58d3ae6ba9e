#include "message_fuzz.h"

#include <cstdint>
#include <string>

#include "core/assert.h"
#include "worker/message.h"

namespace lares::fuzz {

void fuzz_message(std::string_view frame) {
  const Result<worker::Message> first = worker::decode(frame);
  if (!first) {
    LARES_ASSERT(first.error().code == Code::Corrupt, "refused with code {}",
                 static_cast<int>(first.error().code));
    return;
  }
  // Not compared with `frame`: a bool may come in as 2 and goes out as 1.
  std::string once;
  worker::encode(*first, once);
  const Result<worker::Message> second =
      worker::decode(std::string_view(once).substr(sizeof(std::uint32_t)));
  LARES_ASSERT(second.has_value(), "a {} is refused when it comes back: {}",
               worker::message_name(*first), second.error().message);
  std::string twice;
  worker::encode(*second, twice);
  LARES_ASSERT(once == twice, "a {} changes when it comes back", worker::message_name(*first));
}

}  // namespace lares::fuzz

#ifdef LARES_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lares::fuzz::fuzz_message({reinterpret_cast<const char*>(data), size});
  return 0;
}
#endif
