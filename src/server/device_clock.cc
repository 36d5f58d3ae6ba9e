#include "server/device_clock.h"

#include "core/assert.h"

namespace lares::server {

void DeviceClock::start(Instant now) {
  started_ = at_ = now;
}

// The time since the last event belongs to what was going on then.
void DeviceClock::pass(Instant now) {
  (out_ > 0 ? under_way_ : idle_) += now - at_;
  at_ = now;
}

void DeviceClock::sent(Instant now) {
  pass(now);
  ++out_;
}

void DeviceClock::done(Instant now, Duration device) {
  LARES_ASSERT(out_ > 0, "a step that was not sent came back");
  pass(now);
  --out_;
  busy_ += device;
}

void DeviceClock::lost(Instant now) {
  pass(now);
  out_ = 0;
}

store::DeviceTotals DeviceClock::totals(Instant now, Duration open) const {
  store::DeviceTotals totals;
  totals.wall = now - started_;
  totals.busy = busy_;
  totals.idle = idle_ + (out_ == 0 ? now - at_ : Duration{});
  // A step that the device began before the one ahead of it was heard of looks shorter than it was.
  totals.overhead = under_way_ + (out_ > 0 ? now - at_ : Duration{}) - busy_;
  totals.open = open;
  // Steps that came back and that the scheduler has not charged yet are nobody's for a moment.
  totals.unclaimed = unclaimed_ + busy_ - charged_;
  return totals;
}

}  // namespace lares::server
