#include "core/text.h"

#include <array>

#include <gtest/gtest.h>

namespace lares {
namespace {

TEST(Utf8, WellFormedTexts) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf")) << "U+10FFFF";
}

TEST(Utf8, MalformedTexts) {
  EXPECT_FALSE(is_utf8("\x80")) << "no first byte";
  EXPECT_FALSE(is_utf8("\xc3")) << "cut";
  EXPECT_FALSE(is_utf8("\xc0\xaf")) << "overlong, two";
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf")) << "overlong, three";
  EXPECT_FALSE(is_utf8("\xf0\x80\x80\xaf")) << "overlong, four";
  EXPECT_FALSE(is_utf8("\xed\xa0\x80")) << "surrogate";
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80")) << "beyond U+10FFFF";
  EXPECT_FALSE(is_utf8("\xff"));
  EXPECT_FALSE(is_utf8("\xe2\x28\xa1"));
}

TEST(Utf8, CompletePrefix) {
  EXPECT_EQ(utf8_complete_prefix(""), 0U);
  EXPECT_EQ(utf8_complete_prefix("ab"), 2U);
  EXPECT_EQ(utf8_complete_prefix("a\xc3"), 1U);
  EXPECT_EQ(utf8_complete_prefix("a\xe2\x82"), 1U);
  EXPECT_EQ(utf8_complete_prefix("a\xf0\x9f\x98"), 1U);
  EXPECT_EQ(utf8_complete_prefix("a\xf0\x9f\x98\x80"), 5U);
  EXPECT_EQ(utf8_complete_prefix("a\xff"), 2U) << "nothing can complete it";
  EXPECT_EQ(utf8_complete_prefix("\xed\xa0"), 2U) << "nor this: it would be a surrogate";
}

// Bytes arrive one by one, and only complete code points are handed out: the result must be the
// text.
TEST(Utf8, CompletePrefixStreams) {
  const std::string text = "h\xc3\xa9\xe2\x82\xac \xf0\x9f\x98\x80!";
  std::string pending, out;
  for (const char byte : text) {
    pending += byte;
    const std::size_t n = utf8_complete_prefix(pending);
    EXPECT_TRUE(is_utf8(std::string_view(pending).substr(0, n)));
    out += pending.substr(0, n);
    pending.erase(0, n);
  }
  EXPECT_EQ(out, text);
}

TEST(Utf8, Sanitised) {
  EXPECT_EQ(utf8_sanitised("a\xff\xc3\xa9\xc3"), "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd");
  EXPECT_EQ(utf8_sanitised("fine"), "fine");
}

TEST(Json, Escapes) {
  std::string out;
  append_json_escaped(out, std::string_view("\"\\\n\r\t\x01\x1f\0\xc3\xa9/", 11));
  EXPECT_EQ(out, "\\\"\\\\\\n\\r\\t\\u0001\\u001f\\u0000\xc3\xa9/");
}

TEST(NearestWord, FindsSlipsOnly) {
  static constexpr std::array<std::string_view, 3> kWords{"listen", "models", "policy"};
  EXPECT_EQ(nearest_word("lisen", kWords), "listen");
  EXPECT_EQ(nearest_word("polciy", kWords), "policy");
  EXPECT_EQ(nearest_word("modelz", kWords), "models");
  static constexpr std::array<std::string_view, 2> kShort{"png", "txt"};
  EXPECT_EQ(nearest_word("pgn", kShort), "png") << "two letters exchanged are one slip";
  EXPECT_EQ(nearest_word("gnp", kShort), std::nullopt);
  EXPECT_EQ(nearest_word("temperature", kWords), std::nullopt);
  EXPECT_EQ(nearest_word("", kWords), std::nullopt);
  EXPECT_EQ(suggestion("lisen", kWords), " Did you mean `listen`?");
  EXPECT_EQ(suggestion("zzzzzz", kWords), "");
}

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("64"), 64);
  EXPECT_EQ(parse_bytes("4 KiB"), 4096);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1610612736);
  EXPECT_EQ(parse_bytes("20MB"), 20000000);
  for (const char* bad :
       {"", "x", "4 kib", "-1", "1e400", "4 KiB x", "nan", "inf", "99999999999 GiB"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(Units, Durations) {
  EXPECT_EQ(parse_duration("250ms"), std::chrono::milliseconds(250));
  EXPECT_EQ(parse_duration("10 s"), std::chrono::seconds(10));
  EXPECT_EQ(parse_duration("1.5m"), std::chrono::seconds(90));
  EXPECT_EQ(parse_duration("7d"), std::chrono::hours(168));
  for (const char* bad : {"", "10", "s", "-1s", "10 sec", "1e300h"}) {
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
  }
}

TEST(Units, Formats) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(348160), "340.0 KiB");
  EXPECT_EQ(format_bytes(1610612736), "1.5 GiB");
  EXPECT_EQ(format_duration(std::chrono::milliseconds(1250)), "1.25 s");
  EXPECT_EQ(format_duration(std::chrono::microseconds(17)), "17 us");
}

}  // namespace
}  // namespace lares
