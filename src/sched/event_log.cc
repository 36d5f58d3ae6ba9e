#include "sched/event_log.h"

#include <array>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace lares::sched {
namespace {

// --- Writing
// --------------------------------------------------------------------------------------

template <class... Args>
void line(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
  out += '\n';
}

// What only some events say, at the end of the line that was written last.
void append_to_line(std::string& out, std::string_view text) {
  out.insert(out.size() - 1, text);
}

std::string keys_text(std::span<const std::uint64_t> keys) {
  std::string text;
  for (const std::uint64_t key : keys) {
    fmt::format_to(std::back_inserter(text), "{}{:x}", text.empty() ? "" : ",", key);
  }
  return text;
}

void write(std::string& out, const ModelReady& e) {
  line(out,
       "+ ready model={} device={} pool={} context={} sequences={} batch={} cut={} kv={} cost={}",
       e.model.value, e.device.value, e.limits.pool_tokens, e.limits.context, e.limits.sequences,
       e.limits.batch_tokens, e.limits.cut_anywhere ? 1 : 0, e.limits.kv_per_token.count,
       e.cost.to_text());
  if (e.limits.graphs) append_to_line(out, " graphs=1");
}
void write(std::string& out, const ModelFailed& e) {
  line(out, "+ model-failed model={}", e.model.value);
}
void write(std::string& out, const ModelForgotten& e) {
  line(out, "+ model-forgotten model={}", e.model.value);
}
void write(std::string& out, const ModelNeed& e) {
  line(out,
       "+ need model={} device={} bytes={} shared={} file={} reload={} keep={} pinned={} "
       "wanted={}",
       e.model.value, e.device.value, e.bytes.count, e.shared.count, e.file.value, e.reload.count(),
       e.keep.count(), e.pinned ? 1 : 0, e.wanted ? 1 : 0);
}
void write(std::string& out, const DeviceMemory& e) {
  line(out, "+ memory device={} budget={}", e.device.value, e.budget.count);
}
void write(std::string& out, const HostMemory& e) {
  line(out, "+ host device={} budget={}", e.device.value, e.budget.count);
}
void write(std::string& out, const StateSaved& e) {
  line(out, "+ saved device={} state={} bytes={} took={}", e.device.value, e.state.value,
       e.bytes.count, e.took.count());
}
void write(std::string& out, const StateLost& e) {
  line(out, "+ not-saved device={} state={}", e.device.value, e.state.value);
}
void write(std::string& out, const RestoreFailed& e) {
  line(out, "+ not-restored job={}", e.job.value);
}
void write(std::string& out, const DeviceLost& e) {
  line(out, "+ lost device={}", e.device.value);
}
void write(std::string& out, const MemberChanged& e) {
  line(out, "+ member member={} weight={} running={} waiting={}", e.member.value, e.limits.weight,
       e.limits.running_max, e.limits.waiting_max);
}
void write(std::string& out, const Submitted& e) {
  line(out, "+ submit job={} member={} class={} task={} model={} prompt={} output={} keys={}",
       e.job.value, e.member.value, e.cls.value, e.task.value, e.model.value, e.prompt,
       e.output_max, keys_text(e.blocks));
  if (e.batch_key != 0) append_to_line(out, fmt::format(" batch={:x}", e.batch_key));
}
void write(std::string& out, const Ended& e) {
  line(out, "+ ended job={} cause={} keys={}", e.job.value, static_cast<int>(e.cause),
       keys_text(e.blocks));
}
void write(std::string& out, const Stepped& e) {
  std::string items;
  for (const ItemDone& item : e.items) {
    fmt::format_to(std::back_inserter(items), "{}{}:{}:{}", items.empty() ? "" : ",",
                   item.job.value, item.tokens, item.sampled ? 1 : 0);
  }
  line(out, "+ stepped device={} run={} took={} items={}", e.device.value, e.run.value,
       e.took.count(), items);
  if (!e.pass_done) append_to_line(out, " pass=0");
}

void write_actions(std::string& out, const Decision& decision) {
  struct Writer {
    std::string& out;
    const Decision& decision;
    void operator()(const LoadModel& a) const {
      line(out, "- load device={} model={}", a.device.value, a.model.value);
    }
    void operator()(const UnloadModel& a) const {
      line(out, "- unload device={} model={}", a.device.value, a.model.value);
    }
    void operator()(const OpenSequence& a) const {
      line(out, "- open device={} model={} job={} seq={} from={} tokens={}", a.device.value,
           a.model.value, a.job.value, a.seq.value, a.from_tokens > 0 ? a.from.value : 0,
           a.from_tokens);
    }
    void operator()(const RestoreState& a) const {
      line(out, "- restore device={} model={} job={} seq={} state={} end={}", a.device.value,
           a.model.value, a.job.value, a.seq.value, a.state.value, a.end);
    }
    void operator()(const SaveState& a) const {
      line(out, "- save device={} model={} seq={} state={} from={} tokens={}", a.device.value,
           a.model.value, a.seq.value, a.state.value, a.from, a.tokens);
    }
    void operator()(const ForgetState& a) const {
      line(out, "- forget device={} model={} state={}", a.device.value, a.model.value,
           a.state.value);
    }
    void operator()(const RunStep& a) const {
      std::string items;
      for (const StepItem& item : std::span(decision.items).subspan(a.first, a.count)) {
        fmt::format_to(std::back_inserter(items), " {}:{}:{}", item.job.value, item.seq.value,
                       item.tokens);
      }
      line(out, "- run device={} model={} run={} items={}", a.device.value, a.model.value,
           a.run.value, items);
      if (a.slice > Duration{}) append_to_line(out, fmt::format(" slice={}", a.slice.count()));
    }
    void operator()(const DropSequence& a) const {
      line(out, "- drop device={} model={} seq={}", a.device.value, a.model.value, a.seq.value);
    }
    void operator()(const Reject& a) const {
      line(out, "- reject job={} reason={}", a.job.value, static_cast<int>(a.reason));
    }
  };
  for (const Action& action : decision.actions) std::visit(Writer{out, decision}, action);
}

// --- Reading
// --------------------------------------------------------------------------------------

// The key=value pairs of one line.
class Fields {
 public:
  explicit Fields(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      const std::string_view word = text.substr(0, end);
      if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
        values_[word.substr(0, equals)] = word.substr(equals + 1);
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }

  std::string_view text(std::string_view key) {
    const auto it = values_.find(key);
    if (it == values_.end()) ok_ = false;
    return it == values_.end() ? std::string_view() : it->second;
  }

  template <class T>
  T number(std::string_view key) {
    return parse<T>(text(key), 10);
  }

  template <class T>
  T parse(std::string_view digits, int base) {
    T value{};
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc{} || end != digits.data() + digits.size()) ok_ = false;
    return value;
  }

  // A list separated by commas.
  std::vector<std::string_view> list(std::string_view key) {
    std::vector<std::string_view> items;
    std::string_view rest = text(key);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      items.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return items;
  }

 private:
  std::map<std::string_view, std::string_view> values_;
  bool ok_ = true;
};

// Events of one step, with the storage their spans refer to.
struct StoredEvents {
  std::vector<Event> events;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> keys;
  std::vector<std::unique_ptr<std::vector<ItemDone>>> items;

  std::span<const std::uint64_t> read_keys(Fields& f) {
    auto& stored = *keys.emplace_back(std::make_unique<std::vector<std::uint64_t>>());
    for (const std::string_view key : f.list("keys")) {
      stored.push_back(f.parse<std::uint64_t>(key, 16));
    }
    return stored;
  }

  std::span<const ItemDone> read_items(Fields& f) {
    auto& stored = *items.emplace_back(std::make_unique<std::vector<ItemDone>>());
    for (const std::string_view item : f.list("items")) {
      const std::size_t a = std::min(item.find(':'), item.size());
      const std::size_t b = std::min(item.find(':', a + 1), item.size());
      if (b == item.size()) {
        f.text("a second ':' in an item");
        break;
      }
      ItemDone done;
      done.job = JobId{f.parse<std::uint64_t>(item.substr(0, a), 10)};
      done.tokens = f.parse<std::uint32_t>(item.substr(a + 1, b - a - 1), 10);
      done.sampled = item.substr(b + 1) == "1";
      stored.push_back(done);
    }
    return stored;
  }
};

std::optional<Event> read_event(std::string_view kind, Fields& f, StoredEvents& store) {
  const auto u32 = [&](std::string_view key) { return f.number<std::uint32_t>(key); };
  const auto u64 = [&](std::string_view key) { return f.number<std::uint64_t>(key); };
  if (kind == "ready") {
    const ModelLimits limits{u32("pool"),    u32("context"),  u32("sequences"),
                             u32("batch"),   u32("cut") != 0, Bytes{f.number<std::int64_t>("kv")},
                             f.has("graphs")};
    const auto cost = CostTable::parse(f.text("cost"));
    if (!cost) return std::nullopt;
    return ModelReady{ModelId{u32("model")}, DeviceId{u32("device")}, limits, *cost};
  }
  if (kind == "model-failed") return ModelFailed{ModelId{u32("model")}};
  if (kind == "model-forgotten") return ModelForgotten{ModelId{u32("model")}};
  if (kind == "need") {
    return ModelNeed{.model = ModelId{u32("model")},
                     .device = DeviceId{u32("device")},
                     .bytes = Bytes{f.number<std::int64_t>("bytes")},
                     .shared = Bytes{f.number<std::int64_t>("shared")},
                     .file = ModelId{u32("file")},
                     .reload = Duration(f.number<Duration::rep>("reload")),
                     .keep = Duration(f.number<Duration::rep>("keep")),
                     .pinned = u32("pinned") != 0,
                     .wanted = u32("wanted") != 0};
  }
  if (kind == "memory")
    return DeviceMemory{DeviceId{u32("device")}, Bytes{f.number<std::int64_t>("budget")}};
  if (kind == "host")
    return HostMemory{DeviceId{u32("device")}, Bytes{f.number<std::int64_t>("budget")}};
  if (kind == "saved") {
    return StateSaved{DeviceId{u32("device")}, StateId{u64("state")},
                      Bytes{f.number<std::int64_t>("bytes")},
                      Duration(f.number<Duration::rep>("took"))};
  }
  if (kind == "not-saved") return StateLost{DeviceId{u32("device")}, StateId{u64("state")}};
  if (kind == "not-restored") return RestoreFailed{JobId{u64("job")}};
  if (kind == "lost") return DeviceLost{DeviceId{u32("device")}};
  if (kind == "member") {
    return MemberChanged{MemberId{u32("member")}, {u32("weight"), u32("running"), u32("waiting")}};
  }
  if (kind == "submit") {
    return Submitted{JobId{u64("job")},
                     MemberId{u32("member")},
                     ClassId{u32("class")},
                     TaskId{u64("task")},
                     ModelId{u32("model")},
                     u32("prompt"),
                     u32("output"),
                     store.read_keys(f),
                     f.has("batch") ? f.parse<std::uint64_t>(f.text("batch"), 16) : 0};
  }
  if (kind == "ended") {
    return Ended{JobId{u64("job")}, static_cast<EndCause>(u32("cause")), store.read_keys(f)};
  }
  if (kind == "stepped") {
    return Stepped{DeviceId{u32("device")}, RunId{u64("run")},
                   Duration(f.number<Duration::rep>("took")), store.read_items(f), !f.has("pass")};
  }
  return std::nullopt;
}

// "chat:500000000:100000000:0:300:50:20000000000": name, targets, shares, longest wait.
std::optional<ClassSpec> read_class(std::string_view text) {
  std::array<std::string_view, 7> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t end = std::min(text.find(':'), text.size());
    parts[i] = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Fields f("");
  const auto ns = [&](std::size_t i) { return Duration(f.parse<Duration::rep>(parts[i], 10)); };
  ClassSpec cls{.name = std::string(parts[0]),
                .first_target = ns(1),
                .gap_target = ns(2),
                .completion_target = ns(3),
                .guaranteed = f.parse<std::uint32_t>(parts[4], 10),
                .floor = f.parse<std::uint32_t>(parts[5], 10),
                .longest_wait = ns(6)};
  return f.ok() ? std::optional(std::move(cls)) : std::nullopt;
}

std::string class_text(const ClassSpec& c) {
  return fmt::format("{}:{}:{}:{}:{}:{}:{}", c.name, c.first_target.count(), c.gap_target.count(),
                     c.completion_target.count(), c.guaranteed, c.floor, c.longest_wait.count());
}

std::optional<Options> read_options(std::string_view text) {
  if (!text.starts_with("lares-events 4 ")) return std::nullopt;
  Fields f(text);
  const auto u32 = [&](std::string_view key) { return f.number<std::uint32_t>(key); };
  const auto ns = [&](std::string_view key) { return Duration(f.number<Duration::rep>(key)); };
  Options options;
  options.policy = std::string(f.text("policy"));
  options.tuning = {.guard = ns("guard"), .headroom = u32("headroom")};
  options.jobs_max = u32("jobs");
  options.running_max = u32("running");
  options.step_tokens = u32("step");
  options.slice = ns("slice");
  options.slice_alone = ns("slice_alone");
  options.chunk_least = u32("chunk_least");
  options.runs_in_flight = u32("runs");
  options.ahead_max = ns("ahead");
  options.lead_max = ns("lead");
  options.output_expected = u32("expected");
  options.cache_tokens = u32("cache");
  options.member_pool = u32("member_pool");
  options.losses_max = u32("losses");
  options.batching = {.admit_every = u32("admit_every"),
                      .prompts_apart = u32("prompts_apart") != 0,
                      .reserve_tokens = u32("reserve")};
  for (const std::string_view item : f.list("classes")) {
    auto cls = read_class(item);
    if (!cls) return std::nullopt;
    options.classes.push_back(std::move(*cls));
  }
  return f.ok() ? std::optional(options) : std::nullopt;
}

// Reads a log line by line and keeps the scheduler that answers it.
class Replayer {
 public:
  explicit Replayer(std::string_view log) : rest_(log) {}

  Result<ReplayReport> run() {
    const auto options = read_options(next_line());
    if (!options) return corrupt("no options");
    auto scheduler = TRY(Scheduler::create(*options));
    std::string_view text = next_line();
    while (!text.empty()) {
      if (!text.starts_with('@')) return corrupt("a step starts with @");
      const int step_line = number_;
      Fields time(text);
      const Instant now{Duration(time.parse<Duration::rep>(text.substr(1), 10))};
      StoredEvents stored;
      text = TRY(read_events(stored, time.ok()));
      std::string recorded;
      for (; text.starts_with("- "); text = next_line()) recorded.append(text) += '\n';
      scheduler.step(now, stored.events, decision_);
      scheduler.check();
      std::string decided;
      write_actions(decided, decision_);
      if (decided != recorded) {
        return fail(Code::Conflict,
                    fmt::format("the step at line {} decides otherwise; recorded:\n{}now:\n{}",
                                step_line, recorded, decided));
      }
      ++report_.steps;
      report_.events += stored.events.size();
      report_.actions += decision_.actions.size();
    }
    return report_;
  }

 private:
  std::string_view next_line() {
    const std::size_t end = rest_.find('\n');
    // A last line without its end was being written when the server stopped.
    if (end == std::string_view::npos) return {};
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    ++number_;
    return text;
  }

  Result<std::string_view> read_events(StoredEvents& stored, bool ok) {
    if (!ok) return corrupt("the time is not a number");
    std::string_view text = next_line();
    for (; text.starts_with("+ "); text = next_line()) {
      text.remove_prefix(2);
      Fields fields(text);
      auto event = read_event(text.substr(0, text.find(' ')), fields, stored);
      if (!event || !fields.ok()) return corrupt("not an event");
      stored.events.push_back(*event);
    }
    return text;
  }

  [[nodiscard]] tl::unexpected<Error> corrupt(std::string_view what) const {
    return fail(Code::Corrupt, fmt::format("event log, line {}: {}", number_, what));
  }

  std::string_view rest_;
  int number_ = 0;
  Decision decision_;
  ReplayReport report_;
};

}  // namespace

void append_options(std::string& out, const Options& o) {
  std::string classes;
  for (const ClassSpec& cls : o.classes) classes += (classes.empty() ? "" : ",") + class_text(cls);
  line(out,
       "lares-events 4 policy={} guard={} headroom={} jobs={} running={} step={} slice={} "
       "slice_alone={} chunk_least={} runs={} ahead={} lead={} expected={} cache={} member_pool={} "
       "losses={} "
       "admit_every={} prompts_apart={} reserve={} classes={}",
       o.policy, o.tuning.guard.count(), o.tuning.headroom, o.jobs_max, o.running_max,
       o.step_tokens, o.slice.count(), o.slice_alone.count(), o.chunk_least, o.runs_in_flight,
       o.ahead_max.count(), o.lead_max.count(), o.output_expected, o.cache_tokens, o.member_pool,
       o.losses_max, o.batching.admit_every, o.batching.prompts_apart ? 1 : 0,
       o.batching.reserve_tokens, classes);
}

void append_step(std::string& out, Instant now, std::span<const Event> events,
                 const Decision& decision) {
  line(out, "@{}", now.time_since_epoch().count());
  for (const Event& event : events) std::visit([&](const auto& e) { write(out, e); }, event);
  write_actions(out, decision);
}

Result<ReplayReport> replay(std::string_view log) {
  return Replayer(log).run();
}

}  // namespace lares::sched
