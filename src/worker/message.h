// The contract between the server and its workers: every message, its number and its encoding.
//
// A frame is a 32-bit length (of what follows), a 16-bit protocol version, a 16-bit type and the
// payload in core/archive.h's form. Both sides refuse a frame that is longer than kFrameMax, of
// another version, of an unknown type or not consumed to its last byte: the link is then closed,
// and the supervisor starts the worker anew. Fuzzed by tests/fuzz/message_fuzz.cc.
//
// Order is meaning: a worker performs requests in the order sent, except Cancel, which takes effect
// at once (also on a run already queued). Requests that the sender must match to an answer carry a
// number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/archive.h"
#include "core/result.h"
#include "engine/engine.h"
#include "text/text_engine.h"

namespace lares::worker {

inline constexpr std::uint16_t kProtocolVersion = 3;
inline constexpr std::uint32_t kFrameMax = 64U << 20U;  // Bytes; a 256k vocabulary takes 3 MiB.

// One message a line.
// clang-format off

// --- To a device worker -------------------------------------------------------------------------
struct Load { engine::LoadSpec spec; };
struct Unload { ModelId model; };  // Also to a text worker.
struct Open { engine::Open open; };
struct Run { engine::Run run; };
struct Save { engine::Save save; };  // Answered by SaveDone or SaveFailed.
struct Restore { engine::Restore restore; };  // Answered by RestoreFailed, if it fails.
struct Forget { ModelId model; StateId state; };
struct Drop { ModelId model; SeqId seq; };
struct LeaseTensor { engine::Lease lease; };
struct ReleaseTensor { std::uint64_t handle = 0; };
struct Cancel { ModelId model; SeqId seq; };
struct Prepare { engine::Prepare prepare; };
struct Deliver { engine::Deliver deliver; };
struct Discard { ModelId model; engine::Handle handle; };
struct AskMemory {};
struct SetThreads { std::uint32_t threads = 0; };  // Most threads a run may use.

// --- From a device worker -----------------------------------------------------------------------
struct Hello { std::uint32_t pid = 0; std::string kind; };  // First frame of every worker.
struct LoadDone { engine::Loaded loaded; };
struct LoadFailed { ModelId model; Error error; };
struct RunDone { engine::Ran ran; };
struct RunFailed { engine::RunFailed failed; };
struct OpenFailed { ModelId model; SeqId seq; Error error; };
struct SaveDone { engine::Saved saved; };
struct RestoreFailed { ModelId model; SeqId seq; Error error; };
struct SaveFailed { ModelId model; StateId state; Error error; };
struct VerbFailed { std::string verb; ModelId model; SeqId seq; Error error; };
struct PrepareDone { engine::Prepared prepared; };
struct PrepareFailed { ModelId model; engine::Handle handle; Error error; };
struct DeliverDone { engine::Delivered delivered; };
struct DeliverFailed {
  ModelId model; engine::Handle handle; engine::Deliverable what{}; Error error;
};
struct Memory { engine::MemoryReport report; };

// --- To a text worker ---------------------------------------------------------------------------
struct LoadVocabulary { ModelId model; std::string path; };
struct RenderChat { std::uint64_t request = 0; text::RenderChat chat; };
struct Tokenize { std::uint64_t request = 0; text::Tokenize text; };
struct ParseChat { std::uint64_t request = 0; std::uint32_t choice = 0; text::ParseChat chat; };

// --- From a text worker -------------------------------------------------------------------------
struct VocabularyDone { text::Vocabulary vocabulary; };
struct TextDone { std::uint64_t request = 0; text::Rendered rendered; };
struct ChatParsed { std::uint64_t request = 0; std::uint32_t choice = 0; text::ParsedChat chat; };
struct TextFailed { std::uint64_t request = 0; ModelId model; Error error; };  // 0: LoadVocabulary.
// clang-format on

using Message =
    std::variant<Hello, Load, Unload, Open, Run, Save, Restore, Forget, Drop, LeaseTensor,
                 ReleaseTensor, Cancel, AskMemory, SetThreads, LoadDone, LoadFailed, RunDone,
                 RunFailed, OpenFailed, SaveDone, SaveFailed, RestoreFailed, VerbFailed, Memory,
                 LoadVocabulary, RenderChat, Tokenize, VocabularyDone, TextDone, TextFailed,
                 ParseChat, ChatParsed, Prepare, Deliver, Discard, PrepareDone, PrepareFailed,
                 DeliverDone, DeliverFailed>;

// Appends one whole frame to `out`.
void encode(const Message& message, std::string& out);

// Decodes what follows the length of a frame. Errors: Corrupt, naming what is wrong.
Result<Message> decode(std::string_view frame);

// For logs: "Run", "LoadDone".
std::string_view message_name(const Message& message);

}  // namespace lares::worker
