// What the device did of late: a bounded ring of steps, whose they were and how long they took.
//
// Shared. The loop's thread writes, and holds the lock for no longer than it takes to copy what one
// decision brought; any thread reads.
//
// Steps of one model for the same members that follow each other at once become one entry, up to
// kEntryMax, so that the ring reaches back minutes and not seconds.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace lares::server {

class Timeline {
 public:
  static constexpr std::size_t kEntriesMax = 8192;
  static constexpr std::size_t kSharesMax = 6;  // Of one entry; the smallest are put together.
  static constexpr Duration kEntryMax = std::chrono::milliseconds(100);
  static constexpr Duration kGapMax = std::chrono::milliseconds(4);
  static constexpr std::size_t kAnswerMax = 4096;  // Entries of one answer: the newest.

  explicit Timeline(Instant start) : start_(start) {}

  // The loop's thread. A step came back; its charges follow, in the order of the steps.
  void stepped(std::string_view model, Instant end, Duration device, std::uint32_t tokens);
  // Of what was stepped since the last settle(). `name` is "" when it is not known any more.
  void charged(MemberId member, std::string_view name, std::string_view cls, Duration device);
  void settle();

  // Who reads: a member sees their own steps by name and the others' as nobody's; an admin all.
  struct Reader {
    MemberId member;
    bool admin = false;
  };
  // Entries from number `since` on: {"object":"timeline","now":12.5,"next":7,"steps":[...]}, times
  // in seconds since the server's start. The last entry that was read may have grown since.
  [[nodiscard]] std::string json(std::uint64_t since, const Reader& reader, Instant now) const;

 private:
  struct Share {
    MemberId member;
    std::uint16_t name = 0, cls = 0;  // Of names_.
    Duration device{};
  };
  struct Entry {
    std::uint64_t number = 0;
    Instant begin{}, end{};
    Duration device{};
    std::uint32_t tokens = 0, steps = 1;
    std::uint16_t model = 0;
    std::uint16_t count = 0;  // Of shares.
    std::array<Share, kSharesMax> shares{};
  };
  std::uint16_t named(std::string_view name);
  static void add_share(Entry& entry, const Share& share);
  static bool joins(const Entry& last, const Entry& next);
  void append_entry(std::string& out, const Entry& entry, const Reader& reader,
                    const std::vector<std::string>& names) const;

  const Instant start_;
  // The loop's thread's: steps whose charges come in.
  std::vector<Entry> pending_;
  std::size_t at_ = 0;  // The step that is being charged.
  Duration left_{};     // Of it.
  Instant last_end_{};

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::vector<std::string> names_{""};  // Members, classes, models; only grows.
  std::uint64_t next_ = 1;
};

}  // namespace lares::server
