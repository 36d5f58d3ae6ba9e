#include "core/unicode.h"

#include <gtest/gtest.h>

namespace lares {
namespace {

TEST(Unicode, GoesThroughUtf8AndBack) {
  const std::string text = "aß€🍎b";
  EXPECT_EQ(utf8_of(code_points(text)), text);
  EXPECT_EQ(code_points("€"), U"€");
  EXPECT_EQ(code_points("a\xff"), U"a\ufffd");
  EXPECT_EQ(utf8_of(std::u32string(1, char32_t{0xd800})), "\xef\xbf\xbd");
}

TEST(Unicode, TellsLettersNumbersAndSpace) {
  for (const char32_t c : U"aZßéЖ東タªǅ") {
    if (c != 0) {
      EXPECT_TRUE(is_letter(c)) << std::uint32_t{c};
    }
  }
  for (const char32_t c : U"09²½Ⅷ٣") {
    if (c != 0) {
      EXPECT_TRUE(is_number(c) && !is_letter(c)) << std::uint32_t{c};
    }
  }
  for (const char32_t c : U"_-'🍎\u0301 ") {
    if (c != 0) {
      EXPECT_FALSE(is_letter(c) || is_number(c)) << std::uint32_t{c};
    }
  }
  EXPECT_TRUE(is_space(U'\u3000') && is_space(U'\t') && is_space(U'\u00a0'));
  EXPECT_FALSE(is_space(U'\u200b') || is_space(U'x'));
}

TEST(Unicode, LowersCase) {
  EXPECT_EQ(lower_case(U"ÀÖÑ ẞ ŻŹ ЖЯ ΑΩ 1a"), U"àöñ ß żź жя αω 1a");
  EXPECT_EQ(lower_case(U"\u0130"), U"i\u0307");
  EXPECT_EQ(lower_case(U"ĀāĂ"), U"āāă");
}

TEST(Unicode, ComposesToNormalFormC) {
  EXPECT_EQ(nfc(U"e\u0301"), U"é");
  EXPECT_EQ(nfc(U"é"), U"é");
  EXPECT_EQ(nfc(U"\u212b"), U"\u00c5");                // The Angstrom sign is a letter.
  EXPECT_EQ(nfc(U"q\u0307\u0323"), U"q\u0323\u0307");  // Marks are ordered.
  EXPECT_EQ(nfc(U"s\u0323\u0307"), U"\u1e69");         // Two at once.
  EXPECT_EQ(nfc(U"\u1100\u1161\u11a8"), U"\uac01");    // Hangul.
  EXPECT_EQ(nfc(U"\u0958"), U"\u0915\u093c");          // Excluded from composition.
  EXPECT_EQ(nfc(U"a\u0327\u0301"), U"\u00e1\u0327");   // Past a mark that does not compose.
  EXPECT_EQ(nfc(U"a\u0301\u0301"), U"\u00e1\u0301");   // A blocked one stays.
}

}  // namespace
}  // namespace lares
