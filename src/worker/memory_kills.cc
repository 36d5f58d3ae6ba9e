#include "worker/memory_kills.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace lares::worker {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::uint64_t memory_kills_in(const std::string& text) {
  constexpr std::string_view kName = "oom_kill ";
  std::size_t at = text.find(kName);
  while (at != std::string::npos && at > 0 && text[at - 1] != '\n') at = text.find(kName, at + 1);
  if (at == std::string::npos) return 0;
  std::uint64_t count = 0;
  std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), count);
  return count;
}

std::uint64_t count_memory_kills() {
  return std::max(memory_kills_in(text_of("/sys/fs/cgroup/memory.events")),
                  memory_kills_in(text_of("/proc/vmstat")));
}

}  // namespace lares::worker
