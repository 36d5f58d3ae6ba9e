#include "worker/message.h"

#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "worker/message_samples.h"

namespace lares::worker {
namespace {

// What follows the length of the only frame in `bytes`.
std::string payload_of(const Message& message) {
  std::string bytes;
  encode(message, bytes);
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length + sizeof length, bytes.size());
  return bytes.substr(sizeof length);
}

TEST(Message, SamplesCoverEveryType) {
  std::set<std::size_t> seen;
  for (const Message& message : sample_messages()) seen.insert(message.index());
  EXPECT_EQ(seen.size(), std::variant_size_v<Message>);
}

TEST(Message, EveryTypeComesBackAsItWas) {
  for (const Message& message : sample_messages()) {
    const std::string payload = payload_of(message);
    const Result<Message> back = decode(payload);
    ASSERT_TRUE(back) << message_name(message) << ": " << back.error().message;
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(payload_of(*back), payload) << message_name(message);
  }
}

void expect_same_work(const engine::PictureWork& got, const engine::PictureWork& sent) {
  ASSERT_EQ(got.index(), sent.index());
  if (const auto* sample = std::get_if<engine::SampleLatent>(&sent)) {
    const auto& arrived = std::get<engine::SampleLatent>(got);
    EXPECT_EQ(arrived.negative, sample->negative);
    EXPECT_EQ(arrived.seed, sample->seed);
    EXPECT_EQ(arrived.cfg, sample->cfg);
    EXPECT_EQ(arrived.from, sample->from);
    EXPECT_EQ(arrived.strength, sample->strength);
    EXPECT_EQ(arrived.size, sample->size);
    ASSERT_EQ(arrived.go_on.has_value(), sample->go_on.has_value());
    if (sample->go_on) {
      EXPECT_EQ(arrived.go_on->held, sample->go_on->held);
      EXPECT_EQ(arrived.go_on->copy, sample->go_on->copy);
    }
  } else if (const auto* encode = std::get_if<engine::EncodePicture>(&sent)) {
    const auto& arrived = std::get<engine::EncodePicture>(got);
    EXPECT_EQ(arrived.picture.rgb, encode->picture.rgb);
    EXPECT_EQ(arrived.pixels, encode->pixels);
  }
}

// The test above compares encodings; a field that is never written would pass it.
TEST(Message, FieldsArrive) {
  for (const Message& message : sample_messages()) {
    const Result<Message> back = decode(payload_of(message));
    ASSERT_TRUE(back);
    if (const auto* open = std::get_if<Open>(&*back)) {
      const auto& sent = std::get<Open>(message).open;
      EXPECT_EQ(open->open.tokens, sent.tokens);
      EXPECT_EQ(open->open.from, sent.from);
      EXPECT_EQ(open->open.from_tokens, sent.from_tokens);
      EXPECT_EQ(open->open.prompt_tokens, sent.prompt_tokens);
      EXPECT_EQ(open->open.sampling.seed, sent.sampling.seed);
      EXPECT_EQ(open->open.sampling.logit_bias, sent.sampling.logit_bias);
      EXPECT_EQ(open->open.sampling.ignore_eos, sent.sampling.ignore_eos);
    } else if (const auto* prepare = std::get_if<Prepare>(&*back)) {
      expect_same_work(prepare->prepare.work, std::get<Prepare>(message).prepare.work);
    } else if (const auto* ran = std::get_if<RunDone>(&*back)) {
      const auto& sent = std::get<RunDone>(message).ran;
      ASSERT_EQ(ran->ran.items.size(), sent.items.size());
      EXPECT_EQ(ran->ran.stepped.size(), sent.stepped.size());
      EXPECT_EQ(ran->ran.pass_done, sent.pass_done);
      EXPECT_EQ(ran->ran.longest, sent.longest);
      if (sent.items.empty()) continue;
      EXPECT_EQ(ran->ran.items[0].state, sent.items[0].state);
      EXPECT_EQ(ran->ran.items[0].best[1], sent.items[0].best[1]);
      EXPECT_EQ(ran->ran.items[0].top.size(), sent.items[0].top.size());
      EXPECT_EQ(ran->ran.device, sent.device);
      EXPECT_EQ(ran->ran.copied, sent.copied);
    } else if (const auto* failed = std::get_if<TextFailed>(&*back)) {
      const auto& sent = std::get<TextFailed>(message);
      EXPECT_EQ(failed->error.message, sent.error.message);
      EXPECT_EQ(failed->error.code, sent.error.code);
    }
  }
}

TEST(Message, EveryTruncationIsCorrupt) {
  for (const Message& message : sample_messages()) {
    const std::string payload = payload_of(message);
    for (std::size_t n = 0; n < payload.size(); ++n) {
      const Result<Message> back = decode(std::string_view(payload).substr(0, n));
      ASSERT_FALSE(back) << message_name(message) << " cut to " << n;
      EXPECT_EQ(back.error().code, Code::Corrupt);
    }
  }
}

TEST(Message, BytesLeftOverAreCorrupt) {
  for (const Message& message : sample_messages()) {
    EXPECT_FALSE(decode(payload_of(message) + '\0')) << message_name(message);
  }
}

TEST(Message, AnotherVersionIsRefusedByName) {
  std::string payload = payload_of(AskMemory{});
  payload[0] = 9;
  const Result<Message> back = decode(payload);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("version 9"), std::string::npos) << back.error().message;
}

TEST(Message, AnUnknownTypeIsRefused) {
  std::string payload = payload_of(AskMemory{});
  payload[2] = static_cast<char>(std::variant_size_v<Message>);
  EXPECT_FALSE(decode(payload));
  payload[2] = '\xff';
  payload[3] = '\xff';
  EXPECT_FALSE(decode(payload));
}

TEST(Message, AnEnumeratorBeyondTheLastIsRefused) {
  engine::Ran ran;
  ran.items.resize(1);
  ran.items[0].state = static_cast<engine::ItemState>(5);
  EXPECT_FALSE(decode(payload_of(RunDone{ran})));
  EXPECT_FALSE(decode(payload_of(LoadFailed{ModelId{1}, Error{static_cast<Code>(10), "x"}})));
  EXPECT_TRUE(decode(payload_of(LoadFailed{ModelId{1}, Error{Code::Conflict, "x"}})));
}

// A count of four thousand million must fail before it is believed.
TEST(Message, AHugeCountAllocatesNothing) {
  std::string payload = payload_of(Open{});
  const std::size_t count = 2 + 2 + 4 + 4;  // Version, type, model, sequence.
  for (std::size_t i = 0; i < 4; ++i) payload[count + i] = '\xff';
  EXPECT_FALSE(decode(payload));
}

TEST(Message, NamesFollowTheVariant) {
  EXPECT_EQ(message_name(Hello{}), "Hello");
  EXPECT_EQ(message_name(worker::Run{}), "Run");
  EXPECT_EQ(message_name(Memory{}), "Memory");
  EXPECT_EQ(message_name(VerbFailed{}), "VerbFailed");
  EXPECT_EQ(message_name(LoadVocabulary{}), "LoadVocabulary");
  EXPECT_EQ(message_name(TextFailed{}), "TextFailed");
}

}  // namespace
}  // namespace lares::worker
