#include "sketch/unicode.h"

#include <gtest/gtest.h>

#include "sketch/decimal.h"
#include "sketch/tree.h"

namespace lares::sketch {
namespace {

TEST(Names, AreIdentifiers) {
  for (const char* good : {"a", "_", "_1", "größe", "名前", "имя", "ⅷ", "a·b", "אב", "க\u0bbe"}) {
    EXPECT_TRUE(is_name(good)) << good;
    EXPECT_TRUE(is_word(good)) << good;
  }
  for (const char* bad :
       {"", "1a", "-a", "a b", "a-b", "a.b", "😀", "·a", "\u0301", "\xff", "a\xc3"}) {
    EXPECT_FALSE(is_name(bad)) << bad;
  }
  EXPECT_TRUE(is_word("sd-turbo"));
  EXPECT_TRUE(is_word("qwen-3b-a1"));
  for (const char* bad : {"-a", "a-", "a--b", "3-a", "a-.b"}) EXPECT_FALSE(is_word(bad)) << bad;
}

TEST(Names, AreComposed) {
  EXPECT_TRUE(is_composed("\u00e9"));
  EXPECT_FALSE(is_composed("e\u0301")) << "becomes one letter";
  EXPECT_TRUE(is_composed("q\u0301")) << "there is no such letter";
  EXPECT_FALSE(is_composed("q\u0301\u0323")) << "the dot below comes first";
  EXPECT_TRUE(is_composed("q\u0323\u0301"));
  EXPECT_FALSE(is_composed("e\u0316\u0301")) << "the accent reaches over what is below";
  EXPECT_TRUE(is_composed("e\u030d\u0301")) << "but not over another one above";
  EXPECT_FALSE(is_composed("a\u0323\u0302")) << "the dot is joined first";
  EXPECT_FALSE(is_composed("\u212b")) << "the unit sign is a letter";
  EXPECT_FALSE(is_composed("\u1100\u1161")) << "Hangul is composed by arithmetic";
  EXPECT_FALSE(is_composed("\uac00\u11a8"));
  EXPECT_TRUE(is_composed("\uac01\u11a8")) << "that syllable is closed already";
  EXPECT_TRUE(is_composed("\uac01"));
  EXPECT_FALSE(is_composed("\u0bc6\u0bbe")) << "two vowel signs are one";
  EXPECT_TRUE(is_composed("க\u0bbe"));
}

TEST(CodePoints, GoOutAndIn) {
  for (const char32_t c : {U'a', U'\u00e9', U'\u20ac', U'\U0001f600', U'\U0010ffff'}) {
    std::string text;
    append_code_point(text, c);
    std::size_t i = 0;
    EXPECT_EQ(next_code_point(text, i), c);
    EXPECT_EQ(i, text.size());
  }
}

TEST(Decimals, AreExact) {
  const auto text = [](std::string_view written) {
    const auto d = Decimal::parse(written);
    return d ? d->text() : std::string("none");
  };
  EXPECT_EQ(text("0.550"), "0.55");
  EXPECT_EQ(text("007"), "7");
  EXPECT_EQ(text("1.000000"), "1");
  EXPECT_EQ(text("0.000001"), "0.000001");
  EXPECT_EQ(text("9223372036854775807"), "9223372036854775807");
  for (const char* bad :
       {"", ".", "1.", ".5", "1.2.3", "-1", "1e3", "9223372036854775808", "0.0000001"}) {
    EXPECT_EQ(text(bad), "none") << bad;
  }
  EXPECT_EQ(Decimal::parse("7.5")->in_millionths(), 7500000);
  EXPECT_EQ(Decimal::parse("9223372036855")->in_millionths(), std::nullopt);
  EXPECT_EQ(Decimal::millionths(7500000), *Decimal::parse("7.5"));
}

TEST(Decimals, ScaleWithoutOverflow) {
  EXPECT_EQ(scaled(20, 550000, 1000000), 11);
  EXPECT_EQ(scaled(1, 1, 2), 1) << "half is rounded up";
  EXPECT_EQ(scaled(9000000000000000000, 3, 4), 6750000000000000000);
  EXPECT_EQ(scaled(9000000000000000000, 3, 1), 9223372036854775807) << "at most what there is";
}

TEST(Times, InNanoseconds) {
  EXPECT_EQ(nanoseconds({*Decimal::parse("1.5"), Unit::Seconds}), 1500000000);
  EXPECT_EQ(nanoseconds({*Decimal::parse("7"), Unit::Days}), 604800000000000);
  EXPECT_EQ(nanoseconds({*Decimal::parse("36500"), Unit::Days}), 3153600000000000000);
  EXPECT_EQ(nanoseconds({*Decimal::parse("36600"), Unit::Days}), std::nullopt);
  EXPECT_EQ(nanoseconds({*Decimal::parse("2"), Unit::Factor}), std::nullopt);
}

TEST(Pieces, OfAText) {
  const auto pieces = pieces_of("a {{b} {idea}!");
  ASSERT_TRUE(pieces);
  ASSERT_EQ(pieces->size(), 3U);
  EXPECT_EQ((*pieces)[0].text, "a {b} ");
  EXPECT_TRUE((*pieces)[1].insert);
  EXPECT_EQ((*pieces)[1].text, "idea");
  EXPECT_EQ((*pieces)[2].text, "!");
  for (const char* bad : {"{", "{}", "{a b}", "{a", "a{b-c}"}) EXPECT_FALSE(pieces_of(bad)) << bad;
}

}  // namespace
}  // namespace lares::sketch
