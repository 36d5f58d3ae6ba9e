// Which models are held: those that jobs wait for are loaded; where room is short, others leave.
//
// A model that nobody uses leaves first, the one with the least worth (reload time x jobs of late,
// per byte). One that has work stays, and what waits for it is collected, until a job of an absent
// model has waited as long as its class allows, or presses by the policy's order; but each model
// that was loaded runs for a minimum time. A model that leaves finishes no stream: its jobs step
// back, and go on with the same text once it is loaded again.
#include <algorithm>
#include <functional>

#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {
namespace {

constexpr Duration kHalfLife = std::chrono::minutes(10);  // Of the jobs counted as expected use.
constexpr std::int64_t kOneUse = 1024;
constexpr Duration kRunLeast = std::chrono::seconds(2);         // And no less than loading took.
constexpr Duration kLookAgain = std::chrono::milliseconds(50);  // While somebody waits for room.

bool held(const Model& m) {
  return m.at == Model::At::Ready || m.at == Model::At::Loading || m.at == Model::At::Leaving;
}

std::int64_t halved(std::int64_t uses, Instant from, Instant now) {
  return uses >> std::min<std::int64_t>((now - from) / kHalfLife, 62);
}

// What is lost by taking it off, for each MiB that comes free.
std::int64_t worth(const Model& m, Instant now) {
  const std::int64_t reload_ms = m.need.reload.count() / 1'000'000 + 1;
  const std::int64_t mib = (m.need.bytes.count + m.need.shared.count) / (1 << 20) + 1;
  return reload_ms * (halved(m.uses, m.uses_at, now) + 1) / mib;
}

}  // namespace

void Scheduler::State::on(const ModelNeed& event, Decision& /*out*/) {
  Model& m = model(event.model);
  device(event.device);
  m.device = event.device;
  m.need = event;
  m.wanted |= event.wanted;
  look_at_models = true;
}

void Scheduler::State::on(const DeviceMemory& event, Decision& /*out*/) {
  device(event.device).budget = event.budget;
  look_at_models = true;
}

void Scheduler::State::count_use(Model& m) {
  m.uses = halved(m.uses, m.uses_at, now) + kOneUse;
  if (const auto periods = (now - m.uses_at) / kHalfLife; periods > 0)
    m.uses_at += periods * kHalfLife;
  m.used_at = now;
}

bool Scheduler::State::has_jobs(const Model& m) const {
  return !m.running.empty() || std::ranges::any_of(jobs.lanes(), [&](std::uint32_t lane) {
    return jobs.lane(lane).front.model == m.id;
  });
}

void Scheduler::State::settle_residency(Decision& out) {
  finish_leaving(out);
  if (look_at_models || now >= look_again_at) {
    look_at_models = false;
    look_again_at = Instant::max();
    leave_idle();
    finish_leaving(out);
    for (const Wanted& wanted : wanted_models()) {
      Model& m = models[wanted.model.value];
      bool room = make_room(m, wanted.pressing);
      if (!room) {
        finish_leaving(out);
        room = make_room(m, wanted.pressing);
      }
      if (room) {
        m.at = Model::At::Loading;
        m.wanted = false;
        out.actions.emplace_back(LoadModel{m.device, m.id});
      } else if (wanted.rank.group != ~0U) {
        look_again_at = std::min(look_again_at, now + kLookAgain);
      }
    }
  }
  out.wake_at = std::min(out.wake_at, look_again_at);
}

void Scheduler::State::finish_leaving(Decision& out) {
  for (Model& m : models) {
    if (m.at != Model::At::Leaving) continue;
    const Device& d = devices[m.device.value];
    const auto sent = std::span(d.runs).first(d.count);
    if (std::ranges::any_of(sent, [&](const Unanswered& r) { return r.model == m.id; })) continue;
    m.at = Model::At::Absent;
    look_at_models = true;
    out.actions.emplace_back(UnloadModel{m.device, m.id});
  }
}

void Scheduler::State::leave(Model& m) {
  forget_sequences(m);
  m.at = Model::At::Leaving;
}

void Scheduler::State::leave_idle() {
  for (Model& m : models) {
    if (m.at != Model::At::Ready || m.need.pinned || m.need.keep == Duration::max()) continue;
    if (has_jobs(m)) continue;
    if (const Instant until = m.used_at + m.need.keep; now < until) {
      look_again_at = std::min(look_again_at, until);
    } else {
      leave(m);
    }
  }
}

// Absent models that somebody waits for, the most urgent first.
std::vector<Scheduler::State::Wanted> Scheduler::State::wanted_models() {
  ++plans;
  if (traits.by_time) find_oldest();
  std::vector<Wanted> wanted;
  for (const Model& m : models) {
    if (m.at == Model::At::Absent && m.wanted) wanted.push_back({m.id, Rank{.group = ~0U}});
  }
  for (const std::uint32_t index : jobs.lanes()) {
    const Lane& lane = jobs.lane(index);
    const Model& m = models[lane.front.model.value];
    if (m.at != Model::At::Absent) continue;
    auto it = std::ranges::find(wanted, m.id, &Wanted::model);
    if (it == wanted.end()) it = wanted.insert(wanted.end(), {m.id, Rank{.group = ~0U}});
    const Rank rank = this->rank(lane.front, lane.first);
    const Duration longest = options.classes[lane.front.cls.value].longest_wait;
    it->rank = std::min(it->rank, rank);
    it->pressing |= policy->presses(rank) || now - lane.front.submitted + m.need.reload >= longest;
  }
  std::ranges::sort(wanted, {}, [](const Wanted& w) { return std::pair(w.rank, w.model.value); });
  return wanted;
}

// What the models that `count` accepts take together; what those of one file share, once.
std::int64_t Scheduler::State::bytes_of(const std::function<bool(const Model&)>& count) const {
  std::int64_t bytes = 0;
  for (const Model& m : models) {
    if (!count(m)) continue;
    const bool counted =
        m.need.shared.count > 0 &&
        std::ranges::any_of(std::span(models).first(m.id.value), [&](const Model& other) {
          return other.need.file == m.need.file && count(other);
        });
    bytes += m.need.bytes.count + (counted ? 0 : m.need.shared.count);
  }
  return bytes;
}

// Whether the model can be loaded now; if it cannot, and others may leave for it, they begin to.
bool Scheduler::State::make_room(const Model& wanted, bool pressing) {
  const std::int64_t budget = device(wanted.device).budget.count;
  if (budget == 0) return true;
  const auto here = [&](const Model& m) {
    return m.device == wanted.device && (held(m) || &m == &wanted);
  };
  if (bytes_of(here) <= budget) return true;
  std::vector<Model*> victims;
  for (Model& m : models) {
    if (!here(m) || m.at != Model::At::Ready || m.need.pinned) continue;
    const bool ran = now >= m.ready_at + std::max(kRunLeast, m.need.reload);
    if (!has_jobs(m) || (pressing && ran)) victims.push_back(&m);
  }
  std::ranges::sort(victims, {}, [this](const Model* m) {
    return std::tuple(has_jobs(*m), worth(*m, now), m->id.value);
  });
  std::vector<const Model*> chosen;
  const auto stays = [&](const Model& m) {
    return here(m) && m.at != Model::At::Leaving && std::ranges::find(chosen, &m) == chosen.end();
  };
  for (Model* m : victims) {
    if (bytes_of(stays) <= budget) break;
    chosen.push_back(m);
  }
  if (bytes_of(stays) > budget) return false;
  for (Model* m : victims) {
    if (std::ranges::find(chosen, m) != chosen.end()) leave(*m);
  }
  return false;
}

void Scheduler::State::check_residency() const {
  for (const Device& d : devices) {
    if (d.budget.count == 0) continue;
    const auto here = [&](const Model& m) { return held(m) && m.device == d.id; };
    const std::int64_t used = bytes_of(here);
    // A model may turn out larger than it was thought to be; alone it may stay.
    LARES_ASSERT(used <= d.budget.count || std::ranges::count_if(models, here) <= 1,
                 "{} bytes of models held, of {}", used, d.budget.count);
  }
}

}  // namespace lares::sched
