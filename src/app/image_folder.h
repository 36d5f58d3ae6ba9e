// Image models on disk: folders in the layout of diffusers, described without opening a tensor.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "engine/engine.h"
#include "sketch/catalogue.h"

namespace lares::app {

// Every folder with a `model_index.json` in `folder` and up to three below it, by path.
std::vector<std::string> find_image_models(const std::string& folder);

// What the configurations in the folder say, and digests of sizes, beginnings and ends of the
// weights: nobody wants to wait until gigabytes are read. Errors: Corrupt, NotFound, Unsupported
// (what it is, where that cannot be run).
Result<sketch::Model> read_image_model(const std::string& folder);

// The same as a worker says it.
Result<engine::ModelInfo> probe_image_model(const std::string& folder);

}  // namespace lares::app
