#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/log.h"
#include "worker/inbox.h"
#include "worker/loader.h"
#include "worker/worker.h"

namespace lares::worker {
namespace {

// Which sequences were cancelled, filled by the reading thread and consulted when a run starts.
class Cancellations {
 public:
  void add(ModelId model, SeqId seq, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    numbers_[{model.value, seq.value}] = number;
  }

  // A Drop or Open was reached that arrived as `number`: it ends the cancellations sent before it.
  // One sent after it is meant for the sequence that it begins, and stays.
  void forget(ModelId model, SeqId seq, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = numbers_.find({model.value, seq.value});
    if (found != numbers_.end() && found->second < number) numbers_.erase(found);
  }

  void forget(ModelId model) {
    const std::lock_guard lock(mutex_);
    std::erase_if(numbers_,
                  [model](const auto& entry) { return entry.first.first == model.value; });
  }

  [[nodiscard]] bool contains(ModelId model, SeqId seq) const {
    const std::lock_guard lock(mutex_);
    return numbers_.contains({model.value, seq.value});
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> numbers_;
};

class DeviceWorker {
 public:
  DeviceWorker(Channel& channel, engine::Engine& engine)
      : channel_(channel),
        engine_(engine),
        loader_(channel, engine),
        inbox_(channel, [this](const Received& received) { return cancel_at_once(received); }) {}

  void serve() {
    while (std::optional<Received> received = inbox_.next()) {
      number_ = received->number;
      std::visit([this](auto& message) { handle(message); }, received->message);
    }
  }

 private:
  bool cancel_at_once(const Received& received) {
    const auto* cancel = std::get_if<Cancel>(&received.message);
    if (cancel == nullptr) return false;
    cancellations_.add(cancel->model, cancel->seq, received.number);
    return true;
  }

  // A send that fails means that the server is gone: the inbox ends, and the loop with it.
  void answer(const Message& message) { (void)channel_.send(message); }

  void refuse(std::string_view verb, ModelId model, SeqId seq, Error error) {
    answer(VerbFailed{std::string(verb), model, seq, std::move(error)});
  }

  static Error still_loading(ModelId model) {
    return Error{Code::Busy, fmt::format("model {} is still being loaded", model.value)};
  }

  void handle(Load& m) {
    if (loader_.loading(m.spec.model)) {
      answer(LoadFailed{m.spec.model, still_loading(m.spec.model)});
      return;
    }
    loader_.load(std::move(m.spec));
  }

  void handle(Unload& m) {
    cancellations_.forget(m.model);
    if (loader_.loading(m.model)) return refuse("unload", m.model, {}, still_loading(m.model));
    if (Result<> done = engine_.unload(m.model); !done) {
      refuse("unload", m.model, {}, std::move(done.error()));
    }
  }

  void handle(Open& m) {
    const ModelId model = m.open.model;
    const SeqId seq = m.open.seq;
    cancellations_.forget(model, seq, number_);
    Result<> done =
        loader_.loading(model) ? tl::unexpected(still_loading(model)) : engine_.open(m.open);
    if (!done) answer(OpenFailed{model, seq, std::move(done.error())});
  }

  // Cancelled items are taken out before the engine sees the run, and put back as Skipped.
  void handle(Run& m) {
    if (loader_.loading(m.run.model)) {
      answer(RunFailed{{m.run.run, m.run.model, still_loading(m.run.model)}});
      return;
    }
    const std::vector<engine::RunItem> asked = m.run.items;
    std::erase_if(m.run.items, [&](const engine::RunItem& item) {
      return cancellations_.contains(m.run.model, item.seq);
    });
    const std::vector<engine::RunItem> kept = m.run.items;
    Result<engine::Ran> ran = engine::Ran{.run = m.run.run, .model = m.run.model};
    const auto begin = std::chrono::steady_clock::now();
    if (!kept.empty() || asked.empty()) ran = engine_.run(m.run);
    if (!ran) {
      next_waited_ = false;
      answer(RunFailed{{m.run.run, m.run.model, std::move(ran.error())}});
      return;
    }
    if (next_waited_) ran->idle = std::chrono::duration_cast<Duration>(begin - last_end_);
    last_end_ = std::chrono::steady_clock::now();
    next_waited_ = inbox_.has_next();
    if (kept.size() != asked.size()) ran->items = with_skipped(asked, kept, std::move(ran->items));
    answer(RunDone{std::move(*ran)});
  }

  static std::vector<engine::ItemResult> with_skipped(const std::vector<engine::RunItem>& asked,
                                                      const std::vector<engine::RunItem>& kept,
                                                      std::vector<engine::ItemResult> results) {
    LARES_ASSERT(results.size() == kept.size(), "{} results for {} items", results.size(),
                 kept.size());
    std::vector<engine::ItemResult> all;
    all.reserve(asked.size());
    std::size_t next = 0;
    for (const engine::RunItem& item : asked) {
      if (next < kept.size() && kept[next].seq == item.seq) {
        all.push_back(std::move(results[next++]));
      } else {
        engine::ItemResult skipped;
        skipped.seq = item.seq;
        skipped.state = engine::ItemState::Skipped;
        all.push_back(std::move(skipped));
      }
    }
    return all;
  }

  void handle(Save& m) {
    const ModelId model = m.save.model;
    Result<engine::Saved> saved =
        loader_.loading(model) ? tl::unexpected(still_loading(model)) : engine_.save(m.save);
    if (!saved) return answer(SaveFailed{model, m.save.state, std::move(saved.error())});
    answer(SaveDone{*saved});
  }

  void handle(Restore& m) {
    const ModelId model = m.restore.model;
    Result<> done =
        loader_.loading(model) ? tl::unexpected(still_loading(model)) : engine_.restore(m.restore);
    if (!done) answer(RestoreFailed{model, m.restore.seq, std::move(done.error())});
  }

  void handle(Forget& m) {
    if (!loader_.loading(m.model)) engine_.forget(m.model, m.state);
  }

  void handle(Drop& m) {
    cancellations_.forget(m.model, m.seq, number_);
    if (!loader_.loading(m.model)) engine_.drop(m.model, m.seq);
  }

  void handle(LeaseTensor& m) {
    if (Result<> done = engine_.lease(m.lease); !done) {
      refuse("lease", {}, {}, std::move(done.error()));
    }
  }

  void handle(ReleaseTensor& m) {
    if (Result<> done = engine_.release(m.handle); !done) {
      refuse("release", {}, {}, std::move(done.error()));
    }
  }

  void handle(Prepare& m) {
    const ModelId model = m.prepare.model;
    const engine::Handle handle = m.prepare.handle;
    Result<engine::Prepared> prepared =
        loader_.loading(model) ? tl::unexpected(still_loading(model)) : engine_.prepare(m.prepare);
    if (prepared) return answer(PrepareDone{*prepared});
    answer(PrepareFailed{model, handle, std::move(prepared.error())});
  }

  void handle(Deliver& m) {
    const auto [model, handle, what] = m.deliver;
    Result<engine::Delivered> delivered =
        loader_.loading(model) ? tl::unexpected(still_loading(model)) : engine_.deliver(m.deliver);
    if (delivered) return answer(DeliverDone{std::move(*delivered)});
    answer(DeliverFailed{model, handle, what, std::move(delivered.error())});
  }

  void handle(Discard& m) {
    if (!loader_.loading(m.model)) engine_.discard(m.model, m.handle);
  }

  void handle(AskMemory& /*m*/) { answer(Memory{engine_.memory()}); }
  void handle(SetThreads& m) { engine_.set_threads(m.threads); }

  // Everything else (answers, the text worker's requests) makes no sense here: the two sides
  // disagree about what this process is, and nothing it does can be trusted.
  template <class Other>
  void handle(Other& m) {
    log_error("closing the channel: a device worker cannot take this message",
              {{"message", message_name(Message(m))}});
    inbox_.close();
  }

  Channel& channel_;
  engine::Engine& engine_;
  Cancellations cancellations_;
  std::uint64_t number_ = 0;                        // Of the message being handled.
  std::chrono::steady_clock::time_point last_end_;  // Of the run before.
  bool next_waited_ = false;                        // Something was queued when it ended.
  Loader loader_;
  Inbox inbox_;  // Last: its thread uses the members above.
};

}  // namespace

void run_device_worker(Channel& channel, engine::Engine& engine) {
  if (!channel.send(Hello{static_cast<std::uint32_t>(::getpid()), "device"})) return;
  DeviceWorker(channel, engine).serve();
}

}  // namespace lares::worker
