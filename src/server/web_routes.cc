#include "server/web_routes.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "server/errors.h"
#include "server/web_data.h"
#include "server/web_files.h"

namespace lares::server {
namespace {

constexpr std::string_view kWelcome =
    R"(Lares is running: one accelerator for the whole household. In a browser this address shows
what it does. Three things to try:

  curl http://HOST/v1/models

  curl http://HOST/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages":[{"role":"user","content":"Hello! Who are you?"}]}'

  curl -N http://HOST/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages":[{"role":"user","content":"Tell me a story."}],"stream":true}'
)";

// Pictures come as data: (previews) and blob: (results, which are fetched with the key).
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

constexpr std::string_view kFolder = "/web/";
constexpr std::string_view kIndex = "index.html";
constexpr std::string_view kDoor = "door";  // Whether one may come in without a key.
constexpr std::int64_t kHours = 24, kHoursMax = 24 * 31;
constexpr std::int64_t kPage = 50, kPageMax = 500;

HttpResponse welcome(std::string_view host) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = kWelcome;
  for (auto at = response.body.find("HOST"); at != std::string::npos;
       at = response.body.find("HOST", at + host.size())) {
    response.body.replace(at, 4, host);
  }
  response.headers = {{"Vary", "Accept"}};
  return response;
}

bool accepts_gzip(const HttpRequest& request) {
  const std::string_view accepted = request.header("accept-encoding");
  const std::size_t at = accepted.find("gzip");
  return at != accepted.npos && !accepted.substr(at).starts_with("gzip;q=0");
}

HttpResponse file_response(const WebFile& file, const HttpRequest& request) {
  HttpResponse response;
  response.content_type = file.type;
  response.headers = {{"ETag", std::string(file.etag)},
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept, Accept-Encoding"},
                      {"Content-Security-Policy", std::string(kPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"}};
  if (request.header("if-none-match").find(file.etag) != std::string_view::npos) {
    response.status = 304;
  } else if (!file.gzip.empty() && accepts_gzip(request)) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = file.gzip;
  } else {
    response.body = file.bytes;
  }
  return response;
}

// A whole number of the query, or `fallback` where it is absent; nothing if it is out of range.
std::optional<std::int64_t> number_of(const HttpRequest& request, std::string_view name,
                                      std::int64_t fallback, std::int64_t least,
                                      std::int64_t most) {
  const auto text = query_value(request.query, name);
  if (!text) return fallback;
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failed != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return value < least || value > most ? std::nullopt : std::optional(value);
}

ApiError out_of_range(std::string_view name, std::int64_t least, std::int64_t most) {
  ApiError error;
  error.param = name;
  error.message = fmt::format("`{}` must be a whole number, {} .. {}", name, least, most);
  return error;
}

ApiError no_ledger() {
  ApiError error;
  error.code = Code::Unavailable;
  error.message = "this server keeps no usage ledger";
  return error;
}

}  // namespace

WebRoutes::WebRoutes(WebOptions options, std::shared_ptr<const Access> access,
                     std::function<Instant()> now, std::function<std::uint64_t()> unix_seconds)
    : options_(std::move(options)),
      access_(std::move(access)),
      now_(std::move(now)),
      unix_seconds_(std::move(unix_seconds)) {}

void WebRoutes::handle(const std::shared_ptr<Answer>& answer, UsageReader* reader) const {
  const std::string& path = answer->request().path;
  if (path == "/" || path.starts_with(kFolder)) return page(*answer);
  if (path == "/v1/timeline") return timeline(*answer);
  if (path == "/v1/usage/hours") return hours(answer, reader);
  if (path == "/v1/usage/requests") return requests(answer, reader);
  if (path == "/v1/settings")
    return answer->respond(json_response(settings_json(options_.settings)));
  answer->respond(json_response(me_json(answer->caller()->member, options_.version)));
}

void WebRoutes::page(Answer& answer) const {
  const HttpRequest& request = answer.request();
  const bool root = request.path == "/";
  // A person with curl gets words.
  if (root && request.header("accept").find("text/html") == std::string_view::npos)
    return answer.respond(welcome(request.header("host")));
  const std::string_view wanted =
      root ? kIndex : std::string_view(request.path).substr(kFolder.size());
  if (wanted == kDoor)
    return answer.respond(json_response(fmt::format(R"({{"keyless":{}}})", access_->keyless())));
  const auto files = web_files();
  const auto file = std::ranges::find(files, wanted, &WebFile::path);
  if (file != files.end()) return answer.respond(file_response(*file, request));
  ApiError error;
  error.code = Code::NotFound;
  error.error_code = "route_not_found";
  error.message = fmt::format("there is nothing at `{}`; the dashboard is at `/`", request.path);
  answer.fail(error);
}

void WebRoutes::timeline(Answer& answer) const {
  const auto since = number_of(answer.request(), "since", 0, 0, INT64_MAX);
  if (!since) return answer.fail(out_of_range("since", 0, INT64_MAX));
  if (!options_.timeline) {
    ApiError error;
    error.code = Code::Unavailable;
    error.message = "this server keeps no timeline";
    return answer.fail(error);
  }
  const store::Member& member = answer.caller()->member;
  answer.respond(json_response(options_.timeline->json(static_cast<std::uint64_t>(*since),
                                                       {member.share.id, member.admin}, now_())));
}

void WebRoutes::hours(const std::shared_ptr<Answer>& answer, UsageReader* reader) const {
  const auto wanted = number_of(answer->request(), "hours", kHours, 1, kHoursMax);
  if (!wanted) return answer->fail(out_of_range("hours", 1, kHoursMax));
  if (reader == nullptr || !options_.hours) return answer->fail(no_ledger());
  // From the beginning of an hour, so that the first is a whole one.
  const std::int64_t since =
      (static_cast<std::int64_t>(unix_seconds_()) / 3600 - (*wanted - 1)) * 3600;
  reader->ask(
      [this, since, caller = answer->caller()]() -> Result<std::string> {
        const auto uses = TRY(options_.hours(since * 1000));
        return hours_json(uses, since, caller->member, [this](MemberId member) {
          const CallerRef found = access_->caller_of(member);
          return found ? found->member.share.weight_permille : kWeightOne;
        });
      },
      answer);
}

void WebRoutes::requests(const std::shared_ptr<Answer>& answer, UsageReader* reader) const {
  const auto limit = number_of(answer->request(), "limit", kPage, 1, kPageMax);
  if (!limit) return answer->fail(out_of_range("limit", 1, kPageMax));
  const auto before = number_of(answer->request(), "before", 0, 0, INT64_MAX);
  if (!before) return answer->fail(out_of_range("before", 0, INT64_MAX));
  if (reader == nullptr || !options_.requests) return answer->fail(no_ledger());
  const store::Member& member = answer->caller()->member;
  const auto of = member.admin ? std::nullopt : std::optional(member.share.id);
  const auto most = static_cast<std::uint32_t>(*limit);
  reader->ask(
      [this, of, before = *before, most]() -> Result<std::string> {
        // One more tells whether there are more.
        return requests_json(TRY(options_.requests(of, before, most + 1)), most);
      },
      answer);
}

}  // namespace lares::server
