#include "text/byte_text.h"

#include <gtest/gtest.h>

namespace lares::text {
namespace {

constexpr ModelId kModel{1};

std::string text_of(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (token == kByteEnd) text += '|';
    if (token == kByteUser) text += "<u>";
    if (token == kByteAssistant) text += "<a>";
    if (token >= kByteFirst) text += static_cast<char>(token - kByteFirst);
  }
  return text;
}

class ByteTextTest : public ::testing::Test {
 protected:
  ByteTextTest() { EXPECT_TRUE(engine_.load(kModel, "any")); }

  Result<Rendered> render(std::string messages) {
    return engine_.render({kModel, std::move(messages), "", "", true});
  }

  ByteText engine_;
};

TEST_F(ByteTextTest, VocabularyTurnsTokensIntoBytes) {
  const Vocabulary v = *engine_.load(kModel, "any");
  ASSERT_EQ(v.flags.size(), static_cast<std::size_t>(kByteVocabulary));
  ASSERT_EQ(v.offsets.size(), v.flags.size() + 1);
  EXPECT_EQ(v.offsets[3], 0U) << "specials have empty pieces";
  EXPECT_EQ(v.bytes.substr(v.offsets[3 + 'A'], v.offsets[4 + 'A'] - v.offsets[3 + 'A']), "A");
  EXPECT_NE(v.flags[kByteEnd] & kTokenEndOfGeneration, 0);
  EXPECT_EQ(v.flags[kByteUser], kTokenControl);
  EXPECT_EQ(v.flags[3 + 'A'], 0);
}

TEST_F(ByteTextTest, RendersMarkersContentAndEnds) {
  const auto rendered = render(R"([{"role":"system","content":"Be brief."},
    {"role":"user","content":"h\u00e9\n\ud83d\ude00"},{"content":"ok","role":"assistant"},
    {"role":"user","content":"?","extra":{"a":[1,true,"]"],"b":{}}}])");
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(text_of(rendered->tokens),
            "<u>Be brief.|<u>h\xc3\xa9\n\xf0\x9f\x98\x80|<a>ok|<u>?|<a>");
}

TEST_F(ByteTextTest, RefusesWhatIsNoListOfMessages) {
  for (const char* bad :
       {"", "{}", "[1]", "[", "[{}", "[{}] x", R"([{"role":"user","content":"a])",
        R"([{"role":"user","content":"\ud83d"}])", "[]", R"([{"content":"a"}])"}) {
    const auto rendered = render(bad);
    ASSERT_FALSE(rendered) << bad;
    EXPECT_EQ(rendered.error().code, Code::Invalid) << bad;
  }
  std::string deep =
      R"([{"role":"user","x":)" + std::string(100, '[') + std::string(100, ']') + "}]";
  EXPECT_FALSE(render(deep));
}

TEST_F(ByteTextTest, TokenizesBytes) {
  EXPECT_EQ(*engine_.tokenize({kModel, std::string("a\0\xff", 3), true, false}),
            (std::vector<std::int32_t>{3 + 'a', 3, 3 + 255}));
}

TEST_F(ByteTextTest, UnknownModelsAndLongTexts) {
  ByteText small({4, false});
  EXPECT_EQ(small.tokenize({kModel, "a", true, false}).error().code, Code::NotFound);
  ASSERT_TRUE(small.load(kModel, "any"));
  EXPECT_EQ(small.tokenize({kModel, "abcde", true, false}).error().code, Code::TooLarge);
  small.unload(kModel);
  EXPECT_EQ(small.tokenize({kModel, "a", true, false}).error().code, Code::NotFound);
  ByteText strict({4, true});
  EXPECT_EQ(strict.load(kModel, "/no/such/file").error().code, Code::NotFound);
}

}  // namespace
}  // namespace lares::text
