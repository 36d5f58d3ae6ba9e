#include "worker/channel.h"

#include <thread>

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "worker/message_samples.h"

namespace lares::worker {
namespace {

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() : ends_(*socket_pair()), a_(ends_.first), b_(ends_.second) {}

  // Raw bytes as if the other side had sent them.
  void push(std::string_view bytes) {
    ASSERT_EQ(::send(a_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() { ::shutdown(a_.fd(), SHUT_RDWR); }

  std::pair<int, int> ends_;
  Channel a_, b_;
};

TEST_F(ChannelTest, MessagesArriveInOrder) {
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(a_.send(ReleaseTensor{i}));
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Result<Message> message = b_.receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<ReleaseTensor>(*message).handle, i);
  }
}

TEST_F(ChannelTest, NothingToReadIsNoMessageAndNoWait) {
  std::vector<Message> out;
  ASSERT_TRUE(b_.receive_available(out));
  EXPECT_TRUE(out.empty());
}

// Larger than any socket buffer: both sides must go through many partial writes and reads.
TEST_F(ChannelTest, ALargeFrameGoesThrough) {
  text::Vocabulary vocabulary;
  vocabulary.bytes.assign(std::size_t{8} << 20U, 'x');
  std::thread sender([&] { EXPECT_TRUE(a_.send(VocabularyDone{vocabulary})); });
  const Result<Message> message = b_.receive();
  sender.join();
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<VocabularyDone>(*message).vocabulary.bytes, vocabulary.bytes);
}

TEST_F(ChannelTest, AFrameInPiecesIsOneMessage) {
  std::string bytes;
  encode(TextFailed{1, ModelId{2}, {Code::Busy, "later"}}, bytes);
  std::vector<Message> out;
  for (const char byte : bytes) {
    EXPECT_TRUE(out.empty());
    push({&byte, 1});
    ASSERT_TRUE(b_.receive_available(out));
  }
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(std::get<TextFailed>(out[0]).error.message, "later");
}

TEST_F(ChannelTest, MessagesBeforeTheEndAreDeliveredFirst) {
  ASSERT_TRUE(a_.send(SetThreads{1}));
  ASSERT_TRUE(a_.send(SetThreads{2}));
  hang_up();
  std::vector<Message> out;
  const Result<> done = b_.receive_available(out);
  EXPECT_EQ(out.size(), 2U);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::Io);
}

TEST_F(ChannelTest, SendingToNobodyIsAnErrorAndNoSignal) {
  hang_up();
  const Result<> sent = b_.send(AskMemory{});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::Io);
}

TEST_F(ChannelTest, AWrongLengthIsCorruptAtOnce) {
  push(std::string("\xff\xff\xff\xff", 4));
  std::vector<Message> out;
  const Result<> done = b_.receive_available(out);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::Corrupt);
}

TEST_F(ChannelTest, AnEmptyFrameIsCorrupt) {
  push(std::string(4, '\0'));
  const Result<Message> message = b_.receive();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Code::Corrupt);
}

TEST_F(ChannelTest, FramesOfSeveralSendersDoNotMix) {
  constexpr std::uint64_t kEach = 2000;
  const auto send_many = [this](std::uint64_t base) {
    for (std::uint64_t i = 0; i < kEach; ++i) ASSERT_TRUE(a_.send(ReleaseTensor{base + i}));
  };
  std::thread first(send_many, 0);
  std::thread second(send_many, kEach);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 2 * kEach; ++i) {
    const Result<Message> message = b_.receive();
    ASSERT_TRUE(message);
    sum += std::get<ReleaseTensor>(*message).handle;
  }
  first.join();
  second.join();
  EXPECT_EQ(sum, (2 * kEach) * (2 * kEach - 1) / 2);
}

}  // namespace
}  // namespace lares::worker
