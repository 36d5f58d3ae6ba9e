// The settings of the journal's jobs, of webhooks and of traces.
#include "app/settings.h"
#include "app/settings_units.h"

namespace lares::app {
namespace {

std::vector<Setting> journal_settings() {
  return {
      {"jobs.keep",
       "--jobs-keep",
       "7d",
       &Config::jobs_keep,
       Form::Plain,
       60 * kSecond,
       24 * 3650 * kHour,
       {},
       "How long a job that is over is kept, with its request and its result. Later it answers "
       "410.",
       "A week: a result that was asked for on Sunday is there on Friday."},
      {"jobs.keep_bytes",
       "--jobs-keep-bytes",
       "4GiB",
       &Config::jobs_keep_bytes,
       Form::Size,
       kMiB,
       1048576 * kGiB,
       {},
       "Most bytes of requests and results; beyond it the oldest go: pictures, then latents, then "
       "whole jobs.",
       "Thousands of pictures, and all the words of a household."},
      {"jobs.attempts",
       "--jobs-attempts",
       "3",
       &Config::jobs_attempts,
       Form::Plain,
       1,
       100,
       {},
       "Attempts in a row, none of which got any further, after which a job has failed.",
       "3: what was not the job's fault is over by then."},
      {"jobs.each",
       "--jobs-each",
       "10000",
       &Config::jobs_each,
       Form::Plain,
       1,
       1000000,
       {},
       "Jobs of one member that wait or run; the next is answered 429.",
       "A large batch; each takes a few KiB of memory."},
      {"jobs.wait",
       "--jobs-wait",
       "10m",
       &Config::jobs_wait,
       Form::Plain,
       1 * kSecond,
       24 * kHour,
       {},
       "How long a call that is not streamed waits for its answer; then it becomes a job, begins "
       "anew, and is answered 202 with its id.",
       "Most clients and proxies have given up by then."},
  };
}

std::vector<Setting> outward_settings() {
  return {
      {"webhooks.reach",
       "--webhooks-reach",
       "internet",
       &Config::webhooks_reach,
       Form::Choice,
       0,
       0,
       {"internet", "any"},
       "Where webhooks may lead: to addresses on the internet, or also into this network and to "
       "this machine.",
       "Whoever may submit jobs could otherwise make the server call what only it can reach."},

      {"telemetry.otlp_endpoint",
       "--otlp-endpoint",
       "",
       &Config::otlp_endpoint,
       Form::Plain,
       0,
       0,
       {},
       "Where traces go, one a request: an OpenTelemetry collector that takes OTLP over HTTP, as "
       "http://127.0.0.1:4318. Empty is nowhere. They hold times, counts and numbers of members, "
       "no words and no names.",
       "Off: who uses how much is this machine's business unless you say so."},
  };
}

}  // namespace

std::vector<Setting> job_settings() {
  std::vector<Setting> all = journal_settings();
  const std::vector<Setting> outward = outward_settings();
  all.insert(all.end(), outward.begin(), outward.end());
  return all;
}

}  // namespace lares::app
