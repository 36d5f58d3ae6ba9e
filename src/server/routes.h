// From a path to what is done about it: the HTTP interface of the server.
//
// The handler runs on the I/O thread and never blocks: work goes to the Service, what reads the
// disk to a small thread of its own. Every answer carries X-Request-Id: of a generation its job's
// number (which DELETE takes), of anything else a number of the HTTP server's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "server/access.h"
#include "server/http.h"
#include "server/jobs.h"
#include "server/latents.h"
#include "server/metrics.h"
#include "server/openai_request.h"
#include "server/service.h"
#include "server/time_limit.h"
#include "server/usage_reader.h"
#include "server/web_routes.h"
#include "server/webhooks.h"
#include "store/usage.h"

namespace lares::server {

struct RouteOptions {
  // Sums the ledger, of everybody or of one member; called on a thread of the routes, one call at a
  // time. Empty: 503.
  UsageReader::Sum usage;
  // The timeline's present, for latencies. Required.
  std::function<Instant()> now;
  // Wall clock, in Unix seconds, for `created`. Required.
  std::function<std::uint64_t()> unix_seconds;
  // Who may ask for what. Required.
  std::shared_ptr<Access> access;
  // What requests that do not say otherwise get.
  RequestDefaults defaults;
  // "system_fingerprint" of the answers: name and version of this program.
  std::string fingerprint = "lares";
  // Jobs of the journal; must outlive the handler. Null: there is no journal, and no jobs are
  // found.
  Jobs* jobs = nullptr;
  // What the dashboard shows beside the rest.
  WebOptions web;
  // Latents that members keep, in the same journal; must outlive the handler. Null: none are kept.
  Latents* latents = nullptr;
  // Who can be told of jobs' ends; must outlive the handler. Null: nobody.
  const Webhooks* webhooks = nullptr;
  // Of calls that wait for their answer; with `jobs`, and must outlive the handler. Null: none.
  TimeLimit* time_limit = nullptr;
  // Questions to the ledger that may wait; the next is answered 429.
  std::uint32_t usage_queue_max = 32;
};

// A route as a client sees it: "GET", "/v1/models/{id}", and what it needs.
struct RouteInfo {
  std::string_view method, path;
  Need need = Need::Member;
};
std::vector<RouteInfo> route_list();

// The routes, for clients (`handle`) and for the journal's jobs (`run`, any thread).
struct Handlers {
  HttpHandler handle;
  Jobs::Runner run;
};
// `service` and `metrics` must outlive both.
Handlers make_handlers(Service& service, Metrics& metrics, RouteOptions options);
// The first of them alone.
HttpHandler make_routes(Service& service, Metrics& metrics, RouteOptions options);

}  // namespace lares::server
