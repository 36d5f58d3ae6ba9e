// The JSON forms of what the device's memory holds.
#include <iterator>

#include <fmt/format.h>

#include "core/text.h"
#include "server/service.h"

namespace lares::server {

std::string memory_json(const MemoryStatus& status) {
  MemoryStatus::Part sum;
  std::string models;
  for (const MemoryStatus::Part& part : status.models) {
    sum.weights += part.weights;
    sum.kv += part.kv;
    sum.compute += part.compute;
    sum.cache += part.cache;
    fmt::format_to(
        std::back_inserter(models),
        R"({}{{"name":{},"embeddings":{},"weights":{},"kv":{},"compute":{},"cache":{}}})",
        models.empty() ? "" : ",", json_quoted(part.name), part.embeds, part.weights.count,
        part.kv.count, part.compute.count, part.cache.count);
  }
  return fmt::format(
      R"({{"object":"memory","devices":[{{"name":{},"total":{},"budget":{},"weights":{},"kv":{},)"
      R"("compute":{},"leases":0,"cache":{},"free":{}}}],)"
      R"("host":{{"budget":{},"saved":{}}},"models":[{}]}})",
      json_quoted(status.device), status.total.count, status.budget.count, sum.weights.count,
      sum.kv.count, sum.compute.count, sum.cache.count, status.free.count, status.host_budget.count,
      status.host_saved.count, models);
}

std::string loads_json(const std::vector<ModelStatus>& models) {
  std::string loads, unloads;
  for (const ModelStatus& model : models) {
    if (!model.alias_of.empty()) continue;
    const std::string comma = loads.empty() ? "" : ",";
    loads += fmt::format("{}{}:{}", comma, json_quoted(model.name), model.loads);
    unloads += fmt::format("{}{}:{}", comma, json_quoted(model.name), model.unloads);
  }
  return fmt::format(R"({{"object":"loads","loads":{{{}}},"unloads":{{{}}}}})", loads, unloads);
}

}  // namespace lares::server
