#include "worker/message.h"

#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "worker/codec.h"
#include "worker/picture_codec.h"

namespace lares::worker {

// Not in an unnamed namespace: core/archive.h finds these by argument-dependent lookup.
template <class A>
void fields(A& a, Hello& m) {
  archive_all(a, m.pid, m.kind);
}
template <class A>
void fields(A& a, Load& m) {
  a(m.spec);
}
template <class A>
void fields(A& a, Unload& m) {
  a(m.model);
}
template <class A>
void fields(A& a, Open& m) {
  a(m.open);
}
template <class A>
void fields(A& a, Run& m) {
  a(m.run);
}
template <class A>
void fields(A& a, Save& m) {
  a(m.save);
}
template <class A>
void fields(A& a, Restore& m) {
  a(m.restore);
}
template <class A>
void fields(A& a, Forget& m) {
  archive_all(a, m.model, m.state);
}
template <class A>
void fields(A& a, Drop& m) {
  archive_all(a, m.model, m.seq);
}
template <class A>
void fields(A& a, LeaseTensor& m) {
  a(m.lease);
}
template <class A>
void fields(A& a, ReleaseTensor& m) {
  a(m.handle);
}
template <class A>
void fields(A& a, Cancel& m) {
  archive_all(a, m.model, m.seq);
}
template <class A>
void fields(A& /*a*/, AskMemory& /*m*/) {}
template <class A>
void fields(A& a, SetThreads& m) {
  a(m.threads);
}
template <class A>
void fields(A& a, LoadDone& m) {
  a(m.loaded);
}
template <class A>
void fields(A& a, LoadFailed& m) {
  archive_all(a, m.model, m.error);
}
template <class A>
void fields(A& a, RunDone& m) {
  a(m.ran);
}
template <class A>
void fields(A& a, RunFailed& m) {
  a(m.failed);
}
template <class A>
void fields(A& a, OpenFailed& m) {
  archive_all(a, m.model, m.seq, m.error);
}
template <class A>
void fields(A& a, SaveDone& m) {
  a(m.saved);
}
template <class A>
void fields(A& a, RestoreFailed& m) {
  archive_all(a, m.model, m.seq, m.error);
}
template <class A>
void fields(A& a, SaveFailed& m) {
  archive_all(a, m.model, m.state, m.error);
}
template <class A>
void fields(A& a, VerbFailed& m) {
  archive_all(a, m.verb, m.model, m.seq, m.error);
}
template <class A>
void fields(A& a, Memory& m) {
  a(m.report);
}
template <class A>
void fields(A& a, LoadVocabulary& m) {
  archive_all(a, m.model, m.path);
}
template <class A>
void fields(A& a, RenderChat& m) {
  archive_all(a, m.request, m.chat);
}
template <class A>
void fields(A& a, Tokenize& m) {
  archive_all(a, m.request, m.text);
}
template <class A>
void fields(A& a, VocabularyDone& m) {
  a(m.vocabulary);
}
template <class A>
void fields(A& a, TextDone& m) {
  archive_all(a, m.request, m.rendered);
}
template <class A>
void fields(A& a, ParseChat& m) {
  archive_all(a, m.request, m.choice, m.chat);
}
template <class A>
void fields(A& a, ChatParsed& m) {
  archive_all(a, m.request, m.choice, m.chat);
}
template <class A>
void fields(A& a, TextFailed& m) {
  archive_all(a, m.request, m.model, m.error);
}
template <class A>
void fields(A& a, Prepare& m) {
  a(m.prepare);
}
template <class A>
void fields(A& a, Deliver& m) {
  a(m.deliver);
}
template <class A>
void fields(A& a, Discard& m) {
  archive_all(a, m.model, m.handle);
}
template <class A>
void fields(A& a, PrepareDone& m) {
  a(m.prepared);
}
template <class A>
void fields(A& a, PrepareFailed& m) {
  archive_all(a, m.model, m.handle, m.error);
}
template <class A>
void fields(A& a, DeliverDone& m) {
  a(m.delivered);
}
template <class A>
void fields(A& a, DeliverFailed& m) {
  archive_all(a, m.model, m.handle);
  archive_enum(a, m.what, engine::Deliverable::Preview);
  a(m.error);
}

namespace {

constexpr std::size_t kTypes = std::variant_size_v<Message>;

// In the order of the variant.
constexpr std::array<std::string_view, kTypes> kNames{
    "Hello",         "Load",          "Unload",         "Open",         "Run",
    "Save",          "Restore",       "Forget",         "Drop",         "LeaseTensor",
    "ReleaseTensor", "Cancel",        "AskMemory",      "SetThreads",   "LoadDone",
    "LoadFailed",    "RunDone",       "RunFailed",      "OpenFailed",   "SaveDone",
    "SaveFailed",    "RestoreFailed", "VerbFailed",     "Memory",       "LoadVocabulary",
    "RenderChat",    "Tokenize",      "VocabularyDone", "TextDone",     "TextFailed",
    "ParseChat",     "ChatParsed",    "Prepare",        "Deliver",      "Discard",
    "PrepareDone",   "PrepareFailed", "DeliverDone",    "DeliverFailed"};

template <std::size_t Index>
Message decode_as(ArchiveReader& in) {
  std::variant_alternative_t<Index, Message> value;
  in(value);
  return Message(std::in_place_index<Index>, std::move(value));
}

using Decoder = Message (*)(ArchiveReader&);

template <std::size_t... Index>
constexpr std::array<Decoder, kTypes> decoders(std::index_sequence<Index...> /*types*/) {
  return {decode_as<Index>...};
}

constexpr std::array<Decoder, kTypes> kDecoders = decoders(std::make_index_sequence<kTypes>());

}  // namespace

void encode(const Message& message, std::string& out) {
  const std::size_t start = out.size();
  ArchiveWriter archive(out);
  archive(std::uint32_t{0});
  archive(kProtocolVersion);
  archive(static_cast<std::uint16_t>(message.index()));
  std::visit([&archive](const auto& value) { archive(value); }, message);
  const std::size_t length = out.size() - start - sizeof(std::uint32_t);
  LARES_ASSERT(length <= kFrameMax, "a {} of {} bytes; its sender must hold to a limit",
               message_name(message), length);
  const auto prefix = static_cast<std::uint32_t>(length);
  std::memcpy(out.data() + start, &prefix, sizeof prefix);
}

Result<Message> decode(std::string_view frame) {
  if (frame.size() > kFrameMax) {
    return fail(Code::Corrupt, fmt::format("a frame of {} bytes; at most {} are allowed",
                                           frame.size(), kFrameMax));
  }
  ArchiveReader in(frame);
  std::uint16_t version = 0;
  std::uint16_t type = 0;
  in(version);
  in(type);
  if (!in.ok()) return fail(Code::Corrupt, "a frame shorter than its head");
  if (version != kProtocolVersion) {
    return fail(Code::Corrupt, fmt::format("a frame of protocol version {}; this side speaks {}",
                                           version, kProtocolVersion));
  }
  if (type >= kTypes) return fail(Code::Corrupt, fmt::format("a frame of unknown type {}", type));
  Message message = kDecoders[type](in);
  if (!in.ok()) return fail(Code::Corrupt, fmt::format("a malformed {}", kNames[type]));
  if (!in.done()) {
    return fail(Code::Corrupt, fmt::format("bytes left over after a {}", kNames[type]));
  }
  return message;
}

std::string_view message_name(const Message& message) {
  return kNames[message.index()];
}

}  // namespace lares::worker
