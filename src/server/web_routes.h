// The dashboard at `/`: its files, and what it shows that no other route tells.
//
//   GET /  /web/FILE          the page and its parts, from the binary, compressed where accepted
//   GET /v1/me                whose key it is, and what it may
//   GET /v1/timeline          whose steps ran when (server/timeline.h)
//   GET /v1/usage/hours       who used how much, by hour
//   GET /v1/usage/requests    single requests that are over, with their clocks, in pages
//   GET /v1/settings          what this server was told
//
// I/O thread; never blocks. The page may load scripts, styles and data from its own server alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "server/access.h"
#include "server/answer.h"
#include "server/timeline.h"
#include "server/usage_reader.h"
#include "store/usage_view.h"

namespace lares::server {

// A setting as it is, with what it means.
struct SettingText {
  std::string key, flag, value, fallback, range, meaning, reason;
};

struct WebOptions {
  std::shared_ptr<const Timeline> timeline{};  // Null: nothing is seen of the device.
  std::vector<SettingText> settings{};
  std::string version = "lares";
  // Read the ledger; called on the usage reader's thread. Empty: 503.
  std::function<Result<std::vector<store::HourUse>>(std::int64_t since_unix_ms)> hours{};
  std::function<Result<std::vector<store::PastRequest>>(std::optional<MemberId> of,
                                                        std::int64_t before, std::uint32_t limit)>
      requests{};
};

class WebRoutes {
 public:
  WebRoutes(WebOptions options, std::shared_ptr<const Access> access, std::function<Instant()> now,
            std::function<std::uint64_t()> unix_seconds);

  // Any of the above, by its path. `reader`: null if there is no ledger.
  void handle(const std::shared_ptr<Answer>& answer, UsageReader* reader) const;

 private:
  void page(Answer& answer) const;
  void timeline(Answer& answer) const;
  void hours(const std::shared_ptr<Answer>& answer, UsageReader* reader) const;
  void requests(const std::shared_ptr<Answer>& answer, UsageReader* reader) const;

  const WebOptions options_;
  const std::shared_ptr<const Access> access_;
  const std::function<Instant()> now_;
  const std::function<std::uint64_t()> unix_seconds_;
};

}  // namespace lares::server
