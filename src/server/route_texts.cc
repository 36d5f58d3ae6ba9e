#include "server/route_texts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "server/routes.h"

namespace lares::server {
namespace {

struct Text {
  std::string_view section, method, path, text;
};

// In the order of the page; sections stay together.
constexpr std::array kTexts{
    Text{
        "Texts", "POST", "/v1/chat/completions",
        "Answers a chat: `messages`, and what of OpenAI's fields docs/api.md names. With `stream` "
        "as server-sent events, with `X-Lares-Events: queue` also where it stands while it waits."},
    Text{"Texts", "POST", "/v1/completions",
         "Goes on from a `prompt`, text or tokens, without a chat template."},
    Text{"Texts", "POST", "/v1/embeddings", "Vectors of `input`: one text or many, or tokens."},
    Text{"Texts", "DELETE", "/v1/chat/completions/{id}",
         "Cancels a request of one's own, by the id of its answer or its `X-Request-Id`."},
    Text{"Texts", "DELETE", "/v1/completions/{id}", "The same for completions."},

    Text{"Pictures", "POST", "/v1/sketches",
         "Runs a sketch: `{\"sketch\": text, \"inputs\": {...}}`. 202 and an id at once, or with "
         "`Prefer: wait` the record at the end."},
    Text{"Pictures", "POST", "/v1/sketches/check",
         "The plan of a sketch, what it costs and what is cached; nothing runs."},
    Text{"Pictures", "GET", "/v1/sketches/{id}",
         "The record of a sketch; `/events` after the id streams its progress and previews, "
         "`/results/N` is the Nth file that it put out."},
    Text{"Pictures", "DELETE", "/v1/sketches/{id}", "Cancels it at the next slice."},
    Text{"Pictures", "POST", "/v1/images/generations", "Pictures of a `prompt`, as OpenAI asks."},
    Text{"Pictures", "POST", "/v1/images/edits",
         "Another picture from `image` and `prompt`: a form, or JSON."},
    Text{"Pictures", "GET", "/v1/latents", "Latents that one keeps or that were shared with one."},
    Text{"Pictures", "GET", "/v1/latents/{id}", "One of them."},
    Text{"Pictures", "POST", "/v1/latents/{id}",
         "With `/share` after the id and `{\"member\": NAME}`: lets somebody else use it."},
    Text{"Pictures", "DELETE", "/v1/latents/{id}", "Lets go of it."},

    Text{"Jobs", "POST", "/v1/jobs",
         "Takes any request that makes work as a job: `{\"request\": {\"path\", \"body\"}}` or a "
         "sketch; `webhook.url` is told of its end. 202 once it is on the disk."},
    Text{"Jobs", "GET", "/v1/jobs",
         "One's jobs, the newest first: `state`, `class`, `limit`, `after`. `all=true` with an "
         "admin's key: everybody's."},
    Text{"Jobs", "GET", "/v1/jobs/{id}",
         "A job: state, attempts, place in the queue. After the id `/result` is its answer, "
         "`/result/N` the Nth file, `/events` a stream of what happens to it."},
    Text{"Jobs", "POST", "/v1/jobs/{id}",
         "`/retry` after the id: once more, one that failed or was cancelled; `/cancel`: as "
         "DELETE."},
    Text{"Jobs", "DELETE", "/v1/jobs/{id}", "Cancels it; answers once that is written."},
    Text{"Jobs", "GET", "/v1/webhooks", "The secret that one's webhooks are signed with."},

    Text{"Models and memory", "GET", "/v1/models",
         "Models with kind, state, sizes, and why each is held or not."},
    Text{"Models and memory", "GET", "/v1/models/{id}", "One of them."},
    Text{"Models and memory", "GET", "/v1/models/loads",
         "How often each was loaded and taken off."},
    Text{"Models and memory", "GET", "/v1/memory",
         "What each device's memory holds, in bytes: weights, KV, cache, buffers, free."},

    Text{"Queue and usage", "GET", "/v1/queue",
         "What of yours runs and waits, behind whom, why, and about how long; an admin sees all."},
    Text{
        "Queue and usage", "GET", "/v1/usage",
        "Sums of the ledger, `by` member, class, model or day: one's own, an admin's everybody's."},
    Text{"Queue and usage", "GET", "/v1/usage/hours", "The same for each hour, for plots."},
    Text{"Queue and usage", "GET", "/v1/usage/requests",
         "Single requests that are over, with their clocks, the newest first: `limit`, `before`."},
    Text{"Queue and usage", "GET", "/v1/timeline",
         "Whose step ran on the device when, of late; `since` for what is new."},
    Text{"Queue and usage", "GET", "/v1/me", "Whose key it is, with its classes and limits."},

    Text{"The server", "GET", "/healthz", "200 while the server runs."},
    Text{"The server", "GET", "/health", "The same."},
    Text{"The server", "GET", "/readyz", "200 while the default model can be used, else 503."},
    Text{"The server", "GET", "/metrics", "Prometheus text: docs/metrics.md."},
    Text{"The server", "GET", "/v1/settings", "Every setting with its value, default and meaning."},
    Text{"The server", "GET", "/", "The dashboard."},
    Text{"The server", "GET", "/web/{id}", "A file of the dashboard."},

    Text{"Ollama", "POST", "/api/chat", "Answers a chat, a line of JSON for each piece."},
    Text{"Ollama", "POST", "/api/generate",
         "Goes on from a prompt; without one, loads or unloads."},
    Text{"Ollama", "POST", "/api/embed", "Vectors of `input`."},
    Text{"Ollama", "POST", "/api/embeddings", "The vector of `prompt`."},
    Text{"Ollama", "GET", "/api/tags", "Models."},
    Text{"Ollama", "GET", "/api/ps", "Models that are in memory."},
    Text{"Ollama", "POST", "/api/show", "What is known of a model."},
    Text{"Ollama", "GET", "/api/version", "The version."},
    Text{"Ollama", "POST", "/api/pull", "501: models are files of the models folder."},
    Text{"Ollama", "POST", "/api/create", "501, too."},
    Text{"Ollama", "POST", "/api/push", "501, too."},
    Text{"Ollama", "POST", "/api/copy", "501, too."},
    Text{"Ollama", "DELETE", "/api/delete", "501, too."},
    Text{"Ollama", "GET", "/api/blobs/{id}", "501, too."},
    Text{"Ollama", "POST", "/api/blobs/{id}", "501, too."},
    Text{"Ollama", "PUT", "/api/blobs/{id}", "501, too."},

    Text{"Stable Diffusion web UI", "POST", "/sdapi/v1/txt2img", "Pictures of a `prompt`."},
    Text{"Stable Diffusion web UI", "POST", "/sdapi/v1/img2img",
         "Another picture from `init_images` and `prompt`."},
    Text{"Stable Diffusion web UI", "GET", "/sdapi/v1/progress", "How far one's own picture is."},
    Text{"Stable Diffusion web UI", "GET", "/sdapi/v1/sd-models", "Models that make pictures."},
    Text{"Stable Diffusion web UI", "POST", "/sdapi/v1/interrupt", "Cancels one's own picture."},
};

const Text* find(std::string_view method, std::string_view path) {
  const auto found = std::ranges::find_if(
      kTexts, [&](const Text& t) { return t.method == method && t.path == path; });
  return found == kTexts.end() ? nullptr : &*found;
}

std::string_view needed(Need need) {
  if (need == Need::Nothing) return "nothing";
  return need == Need::Admin ? "admin" : "key";
}

constexpr std::string_view kIntroduction =
    "# API reference\n"
    "\n"
    "Every route of the server, made from its own table (`src/server/route_texts.cc`; run\n"
    "`LARES_BLESS=1 build/server_tests --gtest_filter='ApiReference*'` after a change). Which "
    "fields\n"
    "of each API work: [api.md](api.md). Jobs: [jobs.md](jobs.md). Sketches: "
    "[sketches.md](sketches.md).\n"
    "\n"
    "*needs*: `key`, a member's key as `Authorization: Bearer KEY`; `admin`, an admin's; "
    "`nothing`.\n"
    "On loopback no key is needed: without one a request is of the member `home`, and what needs "
    "an\n"
    "admin's is open.\n"
    "\n"
    "| header | of a request |\n"
    "|---|---|\n"
    "| `X-Lares-Class` | what kind of work it is, within what the key allows |\n"
    "| `X-Lares-Task` | groups an agent's calls |\n"
    "| `X-Lares-Supersede` | cancels one's older request with that key |\n"
    "| `X-Lares-Events: queue` | of a stream: also events of where it stands while it waits |\n"
    "| `Idempotency-Key` | the same key and body are one job |\n"
    "| `Prefer: respond-async` | a job, answered 202 at once |\n"
    "| `Last-Event-ID` | of a stream of a job: skips what came before |\n"
    "\n"
    "Every answer has `X-Request-Id`. Errors have a stable `code` and say what to do; 429 and 503\n"
    "carry `Retry-After` where waiting helps.\n";

}  // namespace

std::string_view route_text(std::string_view method, std::string_view path) {
  const Text* text = find(method, path);
  return text == nullptr ? "" : text->text;
}

std::size_t route_text_count() {
  return kTexts.size();
}

std::string api_reference() {
  const std::vector<RouteInfo> routes = route_list();
  std::string out(kIntroduction);
  std::string_view section;
  for (const Text& text : kTexts) {
    const auto route = std::ranges::find_if(
        routes, [&](const RouteInfo& r) { return r.method == text.method && r.path == text.path; });
    if (route == routes.end()) continue;
    if (text.section != section) {
      section = text.section;
      out += fmt::format("\n## {}\n\n| route | needs | |\n|---|---|---|\n", section);
    }
    out += fmt::format("| `{} {}` | {} | {} |\n", text.method, text.path, needed(route->need),
                       text.text);
  }
  return out;
}

}  // namespace lares::server
