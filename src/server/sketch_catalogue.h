// Image models, as the planner of sketches wants to know them.
#pragma once

#include <string>

#include "engine/engine.h"
#include "sketch/catalogue.h"

namespace lares::server {

// `warm`: its weights are on the device.
sketch::Model sketch_model(const std::string& name, const engine::ModelInfo& info, bool warm);

}  // namespace lares::server
