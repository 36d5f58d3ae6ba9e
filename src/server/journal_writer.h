// The journal's thread: everything that reads or writes it, many calls to a transaction.
//
// `post` from any thread; it never blocks. What was posted runs in that order; while the disk is
// busy with one transaction, all that comes gathers for the next, so that durability costs one
// flush a transaction and not one a job. `done` is called on the journal's thread once the disk has
// it, in the same order; it must not block.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "store/journal.h"

namespace lares::server {

struct JournalOp {
  // When something else in its transaction fails, it is done again in one of its own: it must not
  // keep what the first call found.
  std::function<Result<>(store::Journal&)> work;
  std::function<void(const Result<>&)> done{};
  // What must not be lost, as usage: kept and tried again until it is written, and all such that
  // come later wait behind it. Beyond a number of them, or at the end, or when it is not the disk
  // that refuses, it is dropped with a line in the log. `done` hears of success alone.
  bool must = false;
  std::uint32_t tries = 0;  // The writer's.
};

class JournalWriter {
 public:
  struct Options {
    Duration retry = std::chrono::seconds(1);  // Until what failed is tried again.
    std::size_t kept_max = 100000;             // About 30 MB that the disk would not take.
    Duration tick_every = std::chrono::seconds(1);
    std::function<void()> tick{};  // On the journal's thread, about so often.
  };

  explicit JournalWriter(std::unique_ptr<store::Journal> journal);
  JournalWriter(std::unique_ptr<store::Journal> journal, Options options);
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;
  ~JournalWriter();  // As stop().

  void post(JournalOp op);
  void post(std::vector<JournalOp> ops);  // They stand in one transaction, unless it fails.

  // Writes what is left and ends the thread; what is posted later is dropped. Once is enough.
  void stop();

  // Before anything is posted; once.
  void set_tick(std::function<void()> tick);

 private:
  void run();
  // Whether the disk took it all.
  void write(std::vector<JournalOp>& ops);
  Result<> write_together(std::vector<JournalOp>& ops);
  Result<> write_alone(JournalOp& op);
  void keep(JournalOp op, const Error& why);

  std::unique_ptr<store::Journal> journal_;  // The thread's.
  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<JournalOp> waiting_;
  std::vector<JournalOp> kept_;  // The thread's: what failed and must be written.
  bool stopping_ = false;
  bool failing_ = false;
  std::thread thread_;
};

}  // namespace lares::server
