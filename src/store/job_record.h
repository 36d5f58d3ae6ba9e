// A job as the journal keeps it: plain values.
//
// A job is a request, its attempts, its events and its artefacts. What kind of request it is only
// its runner knows; pictures and texts are kept in the same way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "store/usage.h"

namespace lares::store {

enum class JobState : std::uint8_t { Queued, Running, Done, Failed, Cancelled };
inline constexpr std::array<std::string_view, 5> kJobStates{"queued", "running", "done", "failed",
                                                            "cancelled"};
inline std::string_view job_state_name(JobState state) {
  return kJobStates.at(static_cast<std::size_t>(state));
}
inline bool is_over(JobState state) {
  return state >= JobState::Done;
}

// Names of artefacts that every job may have.
inline constexpr std::string_view kRequest = "request";
inline constexpr std::string_view kResult = "result";
// What retention takes away before any record, pictures (media type image/...) alone before these.
inline constexpr std::string_view kLatentType = "application/x-lares-latent";

struct Artefact {
  std::string name;
  std::string media_type;
  int status = 0;  // Of an HTTP answer; 0 of anything else.
  std::string bytes;
};

// One without what it holds.
struct ArtefactHead {
  std::string name, media_type;
  std::uint64_t size = 0;
};

// Files beside the result, as pictures: "result/0", "result/1" ...
inline std::string result_file_name(std::uint32_t index) {
  return std::string(kResult) + "/" + std::to_string(index);
}

struct NewJob {
  std::string id;
  MemberId member_id;
  std::string member, cls;
  std::string kind;             // The path of the request that it wraps.
  std::string idempotency_key;  // "" = none. One member's are told apart by it.
  std::string request_digest;   // Of everything that makes it this request and no other.
  std::int64_t unix_ms = 0;
  Artefact request;
  std::string webhook{};  // Who is to be told when it is over; "" = nobody.
};

struct JobRecord {
  std::int64_t seq = 0;  // The order of acceptance.
  std::string id;
  MemberId member_id;
  std::string member, cls, kind;
  JobState state = JobState::Queued;
  std::string request_digest;
  std::int64_t created_unix_ms = 0, started_unix_ms = 0, ended_unix_ms = 0;  // 0 = not yet.
  std::uint32_t tries = 0;     // Attempts in a row that brought nothing.
  std::uint32_t attempts = 0;  // All of them.
  std::optional<std::uint64_t> seed;
  std::string error_code, error_message;
};

struct Attempt {
  std::uint32_t number = 0;
  std::int64_t started_unix_ms = 0, ended_unix_ms = 0;
  Duration device{};
  std::string reason;  // Why it ended, if not well.
};

struct JobEvent {
  std::int64_t number = 0;
  std::int64_t unix_ms = 0;
  std::string name;  // "queued", "running", "retrying", or a state it ended in.
  std::string data;  // A JSON object.
};

// What one part of a running job has come to: of a text, the tokens of one choice.
struct Checkpoint {
  std::uint32_t part = 0;
  std::string bytes;
};

// How far an attempt has got.
struct Progress {
  std::optional<std::uint64_t> seed{};
  std::vector<Checkpoint> parts{};
  Duration device{};      // Of this attempt, so far.
  bool advanced = false;  // It has brought something, even if it cannot go on from there.
};

// How a job ends: all of it or nothing is written.
struct JobEnd {
  JobState state = JobState::Done;
  std::string error_code, error_message;
  std::optional<Artefact> result;
  std::vector<Artefact> files;  // Beside it; see result_file_name().
  UsageRow usage;               // Of the last attempt; the journal adds what the earlier ones took.
  std::int64_t unix_ms = 0;
};

struct JobFilter {
  std::optional<MemberId> member{};
  std::optional<JobState> state{};
  std::string cls{};        // "" = any.
  std::int64_t before = 0;  // Only older ones than this seq; 0 = from the newest.
  std::uint32_t limit = 50;
};

// How long what has ended is kept.
struct Retention {
  Duration keep = std::chrono::hours(24 * 7);           // Since its end. At least a minute.
  Bytes bytes_max{std::int64_t{4} << 30U};              // Requests, results and what lies between.
  Duration keep_expired = std::chrono::hours(24 * 90);  // So long 410 and not 404.
};

}  // namespace lares::store
