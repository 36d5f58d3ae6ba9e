#include "sched/policy.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"

namespace lares::sched {
namespace {

constexpr std::array<std::string_view, 6> kNames{"lares",   "fifo", "orca",
                                                 "sarathi", "vtc",  "priority"};

}  // namespace

std::span<const std::string_view> policy_names() {
  return kNames;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  if (name == "lares") return make_lares(options);
  if (name == "fifo") return make_fifo();
  if (name == "orca") return make_orca();
  if (name == "sarathi") return make_sarathi();
  if (name == "vtc") return make_vtc();
  if (name == "priority") return make_priority(options);
  return fail(Code::NotFound, fmt::format("there is no policy `{}`.{} The policies are {}.", name,
                                          suggestion(name, kNames), fmt::join(kNames, ", ")));
}

}  // namespace lares::sched
