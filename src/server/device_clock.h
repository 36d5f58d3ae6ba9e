// Where a device's time goes: computing, between two steps, or with nothing to do.
//
// Pure; time is an argument. Owned by the loop's thread.
#pragma once

#include "core/types.h"
#include "store/usage.h"

namespace lares::server {

class DeviceClock {
 public:
  void start(Instant now);
  // A step was sent, and one came back after the device computed for so long.
  void sent(Instant now);
  void done(Instant now, Duration device);
  // What was under way is lost with its worker.
  void lost(Instant now);
  // Device time that was charged to somebody; what nobody is left to pay for is `unclaimed`.
  void charged(Duration device) { charged_ += device; }
  void unclaimed(Duration device) {
    charged_ += device;
    unclaimed_ += device;
  }

  // `open`: of what was charged, that of requests whose rows are still to come.
  [[nodiscard]] store::DeviceTotals totals(Instant now, Duration open) const;

 private:
  void pass(Instant now);

  Instant started_{}, at_{};
  std::uint32_t out_ = 0;  // Steps under way.
  Duration busy_{}, idle_{}, under_way_{}, charged_{}, unclaimed_{};
};

}  // namespace lares::server
