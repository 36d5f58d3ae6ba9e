// Finds the models in a folder and names them.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"

namespace lares::app {

struct FoundModel {
  std::string name;  // As clients say it: "starter-chat"
  std::string path;  // "models/starter/chat/starter-chat-q8_0.gguf"
};

// Every GGUF file in `folder` and up to three folders below, by path; of a split model its first
// file. A model is named after its file without the quantisation ("starter-chat-q8_0.gguf" is
// starter-chat); where several files would share a name, the smallest has it and the others keep
// their whole stem. Errors: NotFound, Io.
Result<std::vector<FoundModel>> find_models(const std::string& folder);

// Every file of the model whose first is `path`: more than one if it is "x-00001-of-00003.gguf".
std::vector<std::string> model_parts(const std::string& path);

}  // namespace lares::app
