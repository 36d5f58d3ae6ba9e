#include <thread>

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "text/byte_text.h"
#include "worker/worker.h"

namespace lares::worker {
namespace {

constexpr ModelId kModel{4};

class TextWorkerTest : public ::testing::Test {
 protected:
  TextWorkerTest() : ends_(*socket_pair()), ours_(ends_.first) {
    thread_ = std::thread([this] {
      Channel theirs(ends_.second);
      run_text_worker(theirs, engine_);
    });
    EXPECT_EQ(next<Hello>().kind, "text");
  }
  ~TextWorkerTest() override {
    ::shutdown(ours_.fd(), SHUT_RDWR);
    thread_.join();
  }

  void tell(const Message& message) { ASSERT_TRUE(ours_.send(message)); }

  template <class T>
  T next() {
    Result<Message> message = ours_.receive();
    if (!message || !std::holds_alternative<T>(*message)) {
      ADD_FAILURE() << "got " << (message ? message_name(*message) : "the end");
      return T{};
    }
    return std::get<T>(std::move(*message));
  }

  text::ByteText engine_;
  std::pair<int, int> ends_;
  Channel ours_;
  std::thread thread_;
};

TEST_F(TextWorkerTest, AnswersInOrderWithTheRequestsNumber) {
  tell(LoadVocabulary{kModel, "any"});
  EXPECT_EQ(next<VocabularyDone>().vocabulary.model, kModel);
  tell(Tokenize{11, {kModel, "ab", true, false}});
  tell(RenderChat{12, {kModel, R"([{"role":"user","content":"a"}])", "", "", true}});
  const TextDone first = next<TextDone>();
  EXPECT_EQ(first.request, 11U);
  EXPECT_EQ(first.rendered.tokens.size(), 2U);
  const TextDone second = next<TextDone>();
  EXPECT_EQ(second.request, 12U);
  EXPECT_EQ(second.rendered.tokens.size(), 4U);
}

TEST_F(TextWorkerTest, FailuresNameTheRequest) {
  tell(Tokenize{7, {kModel, "ab", true, false}});
  const TextFailed failed = next<TextFailed>();
  EXPECT_EQ(failed.request, 7U);
  EXPECT_EQ(failed.error.code, Code::NotFound);
  tell(LoadVocabulary{kModel, "any"});
  next<VocabularyDone>();
  tell(RenderChat{8, {kModel, "not json", "", "", true}});
  EXPECT_EQ(next<TextFailed>().error.code, Code::Invalid);
  tell(Unload{kModel});
  tell(Tokenize{9, {kModel, "ab", true, false}});
  EXPECT_EQ(next<TextFailed>().request, 9U);
}

// Both directions at once, more than the sockets hold: neither side may block the other for ever.
TEST_F(TextWorkerTest, ManyLargeRequestsDoNotLock) {
  tell(LoadVocabulary{kModel, "any"});
  next<VocabularyDone>();
  const std::string text(std::size_t{256} << 10U, 'x');
  for (std::uint64_t i = 0; i < 20; ++i) tell(Tokenize{i, {kModel, text, true, false}});
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(next<TextDone>().request, i);
}

TEST_F(TextWorkerTest, AMessageThatMakesNoSenseClosesTheChannel) {
  tell(worker::Run{});
  EXPECT_FALSE(ours_.receive());
}

}  // namespace
}  // namespace lares::worker
