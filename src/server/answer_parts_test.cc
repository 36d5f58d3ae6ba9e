#include "server/answer_parts.h"

#include <gtest/gtest.h>

#include <set>

namespace lares::server {
namespace {

TextDelta after(AnswerParts& parts, const text::ParsedChat& parsed, bool whole = false) {
  TextDelta out;
  parts.advance(parsed, whole, 7, out);
  return out;
}

TEST(AnswerParts, TellsWhatIsNew) {
  AnswerParts parts;
  EXPECT_TRUE(parts.empty());
  EXPECT_EQ(after(parts, {"", "Hm", {}}).reasoning, "Hm");
  const TextDelta more = after(parts, {"Hel", "Hmm.", {}});
  EXPECT_EQ(more.reasoning, "m.");
  EXPECT_EQ(more.text, "Hel");
  EXPECT_EQ(after(parts, {"Hello", "Hmm.", {}}).text, "lo");
  EXPECT_EQ(after(parts, {"Hello", "Hmm.", {}}).text, "");
  EXPECT_FALSE(parts.empty());
  EXPECT_FALSE(parts.has_calls());
}

TEST(AnswerParts, TakesNothingBack) {
  AnswerParts parts;
  after(parts, {"Hello <tool", "", {}});
  EXPECT_EQ(after(parts, {"Hello", "", {}}).text, "");
  EXPECT_EQ(after(parts, {"Goodbye, everybody", "", {}}).text, "");
  EXPECT_EQ(after(parts, {"Hello <tools>", "", {}}).text, "s>");
}

TEST(AnswerParts, NamesACallOnceItsNameIsWhole) {
  AnswerParts parts;
  EXPECT_TRUE(after(parts, {"", "", {{"", "set", ""}}}).calls.empty());
  EXPECT_TRUE(after(parts, {"", "", {{"", "set_light", ""}}}).calls.empty());
  const auto begun = after(parts, {"", "", {{"", "set_light", "{\"on\""}}}).calls;
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].name, "set_light");
  EXPECT_EQ(begun[0].id, call_id(7, 0));
  EXPECT_EQ(begun[0].arguments, "{\"on\"");
  const auto more = after(parts, {"", "", {{"", "set_light", "{\"on\": true}"}}}).calls;
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].name + more[0].id, "");
  EXPECT_EQ(more[0].arguments, ": true}");
  EXPECT_TRUE(parts.has_calls());
}

TEST(AnswerParts, TheNextCallOrTheEndMakesANameWhole) {
  AnswerParts parts;
  const auto calls = after(parts, {"", "", {{"one", "time", ""}, {"two", "date", ""}}}).calls;
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].id, "one");
  const auto last = after(parts, {"", "", {{"one", "time", ""}, {"two", "date", ""}}}, true).calls;
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].index, 1U);
  EXPECT_EQ(last[0].name, "date");
}

TEST(AnswerParts, IdsAreNineLettersAndDigits) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (std::uint32_t index = 0; index < 4; ++index) {
      const std::string id = call_id(seed, index);
      EXPECT_EQ(id.size(), 9U);
      EXPECT_EQ(id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789"),
                std::string::npos);
      EXPECT_TRUE(seen.insert(id).second);
    }
  }
}

}  // namespace
}  // namespace lares::server
