#include "server/journal_writer.h"

#include <chrono>
#include <utility>

#include "core/log.h"

namespace lares::server {
namespace {

constexpr std::uint32_t kTriesMax = 3;  // Of what is refused for another reason than the disk.

}  // namespace

JournalWriter::JournalWriter(std::unique_ptr<store::Journal> journal)
    : JournalWriter(std::move(journal), Options{}) {}

JournalWriter::JournalWriter(std::unique_ptr<store::Journal> journal, Options options)
    : journal_(std::move(journal)), options_(std::move(options)), thread_([this] { run(); }) {}

JournalWriter::~JournalWriter() {
  stop();
}

void JournalWriter::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void JournalWriter::set_tick(std::function<void()> tick) {
  const std::scoped_lock lock(mutex_);
  options_.tick = std::move(tick);
}

void JournalWriter::post(JournalOp op) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(op));
  }
  changed_.notify_one();
}

void JournalWriter::post(std::vector<JournalOp> ops) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.insert(waiting_.end(), std::make_move_iterator(ops.begin()),
                    std::make_move_iterator(ops.end()));
  }
  changed_.notify_one();
}

void JournalWriter::run() {
  using Clock = std::chrono::steady_clock;
  auto tick_at = Clock::now() + options_.tick_every;
  auto retry_at = Clock::time_point::max();
  while (true) {
    std::vector<JournalOp> ops;
    std::function<void()> tick;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, std::min(tick_at, retry_at),
                          [this] { return stopping_ || !waiting_.empty(); });
      ops.swap(waiting_);
      stopping = stopping_;
      if (Clock::now() >= tick_at) tick = options_.tick;
    }
    const bool retries = stopping || Clock::now() >= retry_at;
    if (retries) {
      // What was kept goes first: it is older.
      ops.insert(ops.begin(), std::make_move_iterator(kept_.begin()),
                 std::make_move_iterator(kept_.end()));
      kept_.clear();
    }
    write(ops);
    // However much comes meanwhile, what is kept has its turn.
    if (kept_.empty()) {
      retry_at = Clock::time_point::max();
    } else if (retries || retry_at == Clock::time_point::max()) {
      retry_at = Clock::now() + options_.retry;
    }
    if (Clock::now() >= tick_at) tick_at = Clock::now() + options_.tick_every;
    if (tick) tick();
    if (!stopping) continue;
    const std::scoped_lock lock(mutex_);
    if (!waiting_.empty()) continue;  // What the last ones brought about.
    if (!kept_.empty())
      log_error("what the journal could not write is lost", {{"rows", kept_.size()}});
    return;
  }
}

void JournalWriter::write(std::vector<JournalOp>& ops) {
  if (ops.empty()) return;
  // Behind what is kept nothing that must be written is written.
  if (kept_.empty() && write_together(ops)) {
    if (std::exchange(failing_, false)) log_info("the journal can be written again", {});
    for (JournalOp& op : ops) {
      if (op.done) op.done({});
    }
    return;
  }
  for (JournalOp& op : ops) {
    // One may build on the other: their order stays.
    if (op.must && !kept_.empty()) {
      keep(std::move(op), Error{});
      continue;
    }
    const Result<> written = write_alone(op);
    if (!written && op.must) {
      keep(std::move(op), written.error());
    } else if (op.done) {
      op.done(written);
    }
  }
}

Result<> JournalWriter::write_together(std::vector<JournalOp>& ops) {
  TRY_VOID(journal_->begin());
  for (JournalOp& op : ops) {
    if (Result<> done = op.work(*journal_); !done) {
      journal_->roll_back();
      return done;
    }
  }
  return journal_->commit();
}

Result<> JournalWriter::write_alone(JournalOp& op) {
  TRY_VOID(journal_->begin());
  if (Result<> done = op.work(*journal_); !done) {
    journal_->roll_back();
    return done;
  }
  return journal_->commit();
}

void JournalWriter::keep(JournalOp op, const Error& why) {
  const bool disk = why.code == Code::Io || why.code == Code::Busy || why.message.empty();
  if (!disk && ++op.tries >= kTriesMax) {
    log_error("the journal refuses a row, which is dropped", {{"why", why.message}});
    return;
  }
  if (!std::exchange(failing_, true)) {
    log_error("the journal cannot be written; trying again", {{"why", why.message}});
  }
  if (kept_.size() < options_.kept_max) return kept_.push_back(std::move(op));
  log_error("a row was dropped: the journal cannot be written", {{"why", why.message}});
}

}  // namespace lares::server
