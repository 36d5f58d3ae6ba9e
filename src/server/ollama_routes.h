// Ollama's API: what is done at each of its paths, for the routes.
//
// I/O thread; never blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "server/answer.h"
#include "server/member_jobs.h"
#include "server/ollama_request.h"
#include "server/service.h"

namespace lares::server {

// The version of Ollama's API that is spoken; clients ask for features by it.
inline constexpr std::string_view kOllamaVersion = "0.12.0";

struct OllamaOptions {
  std::function<Instant()> now;                 // For durations.
  std::function<std::uint64_t()> unix_seconds;  // For `created_at`.
  RequestDefaults defaults;
};

class OllamaRoutes {
 public:
  // `service` and `jobs` must outlive every request.
  OllamaRoutes(Service& service, std::shared_ptr<MemberJobs> jobs, OllamaOptions options);

  // Answers what stands at the request's path; all of Ollama's that are not here answer 501.
  void handle(const std::shared_ptr<Answer>& answer) const;

 private:
  void generate(OllamaForm form, const std::shared_ptr<Answer>& answer) const;
  void show(const std::shared_ptr<Answer>& answer) const;
  [[nodiscard]] std::string known_name(const std::string& name) const;

  Service& service_;
  std::shared_ptr<MemberJobs> jobs_;
  OllamaOptions options_;
};

}  // namespace lares::server
