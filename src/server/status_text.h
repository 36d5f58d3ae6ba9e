// The service's status as people and programs read it.
#pragma once

#include <string>

#include "server/metrics.h"
#include "server/service.h"

namespace lares::server {

// One entry of GET /v1/models.
void append_model(std::string& out, const ModelStatus& model);

void set_status_gauges(Metrics& metrics, const ServiceStatus& status);

}  // namespace lares::server
