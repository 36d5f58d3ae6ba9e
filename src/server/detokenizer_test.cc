#include "server/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/text.h"

namespace lares::server {
namespace {

text::Vocabulary vocabulary(std::vector<std::uint32_t> offsets, std::string bytes,
                            std::vector<std::uint8_t> flags) {
  text::Vocabulary v;
  v.offsets = std::move(offsets);
  v.bytes = std::move(bytes);
  v.flags = std::move(flags);
  return v;
}

TEST(PieceTable, RefusesOffsetsThatDoNotAddUp) {
  EXPECT_FALSE(PieceTable::create(vocabulary({0, 2}, "abc", {0})).has_value());
  EXPECT_FALSE(PieceTable::create(vocabulary({0, 4, 3}, "abc", {0, 0})).has_value());
  const auto table = PieceTable::create(vocabulary({0, 2, 3}, "abc", {0, 1}));
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->piece(0), "ab");
  EXPECT_TRUE(table->ends_generation(1));
  EXPECT_FALSE(table->has(2));
}

TEST(TextAssembler, HoldsBackHalfACodePoint) {
  TextAssembler text({});
  text.push("a\xc3", nullptr);
  EXPECT_EQ(text.take().text, "a");
  text.push("\xa9z", nullptr);
  EXPECT_EQ(text.take().text, "\xc3\xa9z");
  text.push("\xf0\x9f", nullptr);
  EXPECT_EQ(text.take().text, "");
  text.finish();
  EXPECT_EQ(text.take().text, "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(TextAssembler, NeverGivesOutAStopStringNorWhatFollows) {
  TextAssembler text({"END", "###"});
  EXPECT_FALSE(text.push("one E", nullptr));
  EXPECT_EQ(text.take().text, "one ");
  EXPECT_FALSE(text.push("Nough ##", nullptr));
  EXPECT_EQ(text.take().text, "ENough ");
  EXPECT_TRUE(text.push("# tail", nullptr));
  EXPECT_EQ(text.take().text, "");
  text.finish();
  EXPECT_EQ(text.take().text, "");
}

TEST(TextAssembler, TheEarliestOfSeveralStopStringsCounts) {
  TextAssembler text({"cd", "bc"});
  EXPECT_TRUE(text.push("abcd", nullptr));
  EXPECT_EQ(text.take().text, "a");
}

TEST(TextAssembler, LogprobsComeWithTheTextTheyComplete) {
  TextAssembler text({"STOP"});
  const TokenLogprob a{{"S", -1}, {}};
  const TokenLogprob b{{"o", -2}, {}};
  text.push("S", &a);
  EXPECT_FALSE(text.has_output());
  text.push("o", &b);
  const TextDelta delta = text.take();
  EXPECT_EQ(delta.text, "So");
  ASSERT_EQ(delta.logprobs.size(), 2U);
  EXPECT_EQ(delta.logprobs[1].token.bytes, "o");
}

// Any text cut into any pieces comes out as the text up to the first stop string, in valid UTF-8.
RC_GTEST_PROP(TextAssemblerProperty, PiecesDoNotMatter, (const std::string& raw)) {
  std::string letters;
  for (const char c : raw) letters += "ab\xc3\xa9"[static_cast<unsigned char>(c) % 4];
  const std::vector<std::string> stops{"aab", "ba\xc3"};
  TextAssembler text(stops);
  std::string out;
  bool stopped = false;
  for (std::size_t i = 0; i < letters.size() && !stopped;) {
    const auto length = *rc::gen::inRange<std::size_t>(1, 5);
    stopped = text.push(std::string_view(letters).substr(i, length), nullptr);
    i += length;
    out += text.take().text;
  }
  if (!stopped) text.finish();
  out += text.take().text;
  const std::size_t end = std::min(letters.find(stops[0]), letters.find(stops[1]));
  RC_ASSERT(is_utf8(out));
  RC_ASSERT(stopped == (end != std::string::npos));
  RC_ASSERT(out == utf8_sanitised(letters.substr(0, end)));
}

}  // namespace
}  // namespace lares::server
