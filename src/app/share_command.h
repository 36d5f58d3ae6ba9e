// `lares share lat:ID MEMBER`: another member may use a latent that one keeps.
#pragma once

#include <span>
#include <string>

namespace lares::app {

int run_share_command(std::span<const std::string> arguments);

}  // namespace lares::app
