#include "sched/policy.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"

namespace lares::sched {
namespace {

constexpr std::array<std::string_view, 2> kNames{"fifo", "orca"};

}  // namespace

std::span<const std::string_view> policy_names() {
  return kNames;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name) {
  if (name == "fifo") return make_fifo();
  if (name == "orca") return make_orca();
  return fail(Code::NotFound, fmt::format("there is no policy `{}`.{} The policies are {}.", name,
                                          suggestion(name, kNames), fmt::join(kNames, ", ")));
}

}  // namespace lares::sched
