// Writes usage rows on a thread of its own, many to a transaction: a slow disk costs no step.
//
// `record` from any thread; it never blocks. Rows that cannot be written (disk full) are kept and
// tried again, up to a limit; beyond it the oldest are dropped and counted in the log.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/usage.h"

namespace lares::server {

class UsageRecorder {
 public:
  explicit UsageRecorder(std::unique_ptr<store::UsageLedger> ledger);
  UsageRecorder(const UsageRecorder&) = delete;
  UsageRecorder& operator=(const UsageRecorder&) = delete;
  ~UsageRecorder();  // Writes what is left.

  void record(store::UsageRow row);

 private:
  void run();
  bool write(std::vector<store::UsageRow>& rows);

  std::unique_ptr<store::UsageLedger> ledger_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<store::UsageRow> waiting_;
  bool stopping_ = false;
  bool failing_ = false;
  std::thread thread_;
};

}  // namespace lares::server
