#include "server/usage_recorder.h"

#include <chrono>

#include "core/log.h"

namespace lares::server {
namespace {

constexpr std::size_t kRowsMax = 100000;  // About 30 MB of rows that the disk would not take.
constexpr auto kRetry = std::chrono::seconds(5);

}  // namespace

UsageRecorder::UsageRecorder(std::unique_ptr<store::UsageLedger> ledger)
    : ledger_(std::move(ledger)), thread_([this] { run(); }) {}

UsageRecorder::~UsageRecorder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void UsageRecorder::record(store::UsageRow row) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(row));
  }
  changed_.notify_one();
}

void UsageRecorder::run() {
  std::vector<store::UsageRow> rows;
  for (;;) {
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      const auto something = [&] { return stopping_ || !waiting_.empty(); };
      // After a failure the rows in hand are tried again a while later, with what has come since.
      if (rows.empty()) {
        changed_.wait(lock, something);
      } else {
        changed_.wait_for(lock, kRetry, [&] { return stopping_; });
      }
      rows.insert(rows.end(), std::make_move_iterator(waiting_.begin()),
                  std::make_move_iterator(waiting_.end()));
      waiting_.clear();
      stopping = stopping_;
    }
    if (write(rows)) rows.clear();
    if (rows.size() > kRowsMax) {
      const auto lost = static_cast<std::ptrdiff_t>(rows.size() - kRowsMax);
      rows.erase(rows.begin(), rows.begin() + lost);
      log_error("usage rows were dropped: the ledger cannot be written", {{"rows", lost}});
    }
    if (stopping) return;
  }
}

bool UsageRecorder::write(std::vector<store::UsageRow>& rows) {
  if (rows.empty()) return true;
  const auto written = ledger_->record(rows);
  if (!written && !failing_) {
    log_error("the usage ledger cannot be written; trying again",
              {{"why", written.error().message}});
  }
  failing_ = !written;
  return written.has_value();
}

}  // namespace lares::server
