#include "core/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace lares::json {
namespace {

std::string message_of(std::string_view text, const Limits& limits = {}) {
  const auto value = parse(text, limits);
  return value ? "" : value.error().message;
}

TEST(Json, RoundTripsEveryKind) {
  const std::string text =
      R"({"n":null,"t":true,"f":false,"i":-3,"u":18446744073709551615,"d":0.25,"s":"a\"\\\n\u0001é😀","a":[1,[],{}]})";
  const auto value = parse(text);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(to_text(*value), text);
}

TEST(Json, ReadsEscapesAndSurrogatePairs) {
  const auto value = parse(R"("\u0041\ud83d\ude00\/\b")");
  ASSERT_TRUE(value);
  EXPECT_EQ(*value->as<std::string>(), "A\xf0\x9f\x98\x80/\b");
}

TEST(Json, KeepsTheLastOfEqualNames) {
  const auto value = parse(R"({"a":1,"b":2,"a":3,"c":4,"b":5})");
  ASSERT_TRUE(value);
  EXPECT_EQ(to_text(*value), R"({"a":3,"c":4,"b":5})");
}

TEST(Json, ManyEqualNamesDoNotTakeForever) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"k" + std::to_string(i % 100000) + "\":1,";
  text += "\"z\":1}";
  const auto value = parse(text);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->as<Object>()->size(), 100001U);
}

TEST(Json, NamesTheByteAtFault) {
  EXPECT_EQ(message_of(""), "the JSON ends too early, at byte 0");
  EXPECT_EQ(message_of("[1,"), "the JSON ends too early, at byte 3");
  EXPECT_EQ(message_of("{\"a\""), "the JSON ends too early, at byte 4");
  EXPECT_EQ(message_of("[1] x"), "text after the end of the JSON at byte 4");
  EXPECT_NE(message_of("[1,x]").find("not valid JSON at byte 3"), std::string::npos);
  EXPECT_NE(message_of("{'a':1}").find("at byte 1"), std::string::npos);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"[1,]", "{\"a\":1,}", "01", "1.", "+1", "nul", "NaN", "Infinity", "[",
                           "\"\x01\"", "\"\\x\"", "// c\n1", "{1:2}", "\"\\ud800\"", "-"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(Json, RefusesMalformedUtf8) {
  const auto bad = parse("{\"a\":\"\xff\"}");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::Invalid);
  EXPECT_NE(bad.error().message.find("UTF-8"), std::string::npos) << bad.error().message;
  EXPECT_FALSE(parse("\"\xc0\x80\""));
  EXPECT_FALSE(parse("\"\xed\xa0\x80\""));
  EXPECT_FALSE(parse("\"\xe2\x82\""));
}

TEST(Json, HoldsItsLimits) {
  EXPECT_TRUE(parse(std::string(32, '[') + std::string(32, ']')));
  const auto deep = parse(std::string(33, '[') + std::string(33, ']'));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code, Code::TooLarge);
  EXPECT_NE(deep.error().message.find("32 levels"), std::string::npos) << deep.error().message;
  EXPECT_FALSE(parse(std::string(1000000, '[')));
  Limits limits;
  limits.values = 4;
  EXPECT_TRUE(parse("[1,2,3]", limits));
  EXPECT_EQ(message_of("[1,2,3,4]", limits), "more than 4 JSON values");
}

TEST(Json, NumbersKeepTheirKindAndRange) {
  EXPECT_EQ(parse("3")->integer(), 3);
  EXPECT_EQ(parse("3.0")->integer(), 3);
  EXPECT_EQ(parse("3.5")->integer(), std::nullopt);
  EXPECT_EQ(parse("1e300")->integer(), std::nullopt);
  EXPECT_EQ(parse("9223372036854775807")->integer(), 9223372036854775807);
  EXPECT_EQ(parse("18446744073709551615")->integer(), std::nullopt);
  EXPECT_EQ(parse("18446744073709551616")->number(), 18446744073709551616.0);
  EXPECT_FALSE(parse("1e999"));
  EXPECT_FALSE(parse("[-1e400]"));
}

TEST(Json, FieldsNameTheirPathAndKeepTheFirstProblem) {
  const auto value = parse(R"({"a":"x","b":5,"c":null,"d":1.5,"e":true})");
  ASSERT_TRUE(value);
  Problem problem;
  const Fields fields(*value, "messages[2]", problem);
  EXPECT_EQ(*fields.string("a"), "x");
  EXPECT_EQ(fields.integer("b", 0, 9), 5);
  EXPECT_EQ(fields.string("c"), nullptr);
  EXPECT_EQ(fields.string("missing"), nullptr);
  EXPECT_EQ(fields.number("d", 0, 2), 1.5);
  EXPECT_EQ(fields.boolean("e"), true);
  EXPECT_FALSE(problem);
  EXPECT_EQ(fields.string("b"), nullptr);
  EXPECT_EQ(problem.param, "messages[2].b");
  EXPECT_EQ(problem.message, "messages[2].b must be a string, not a number");
  EXPECT_EQ(fields.boolean("a"), std::nullopt);
  EXPECT_EQ(problem.param, "messages[2].b");
}

TEST(Json, FieldsHoldRanges) {
  const auto value = parse(R"({"n":17,"t":2.5,"w":1.5})");
  Problem first;
  EXPECT_FALSE(Fields(*value, "", first).integer("n", 1, 16));
  EXPECT_EQ(first.message, "n must be a whole number between 1 and 16, not 17");
  Problem second;
  EXPECT_FALSE(Fields(*value, "", second).number("t", 0, 2));
  EXPECT_EQ(second.message, "t must be between 0 and 2, not 2.5");
  Problem third;
  EXPECT_FALSE(Fields(*value, "", third).integer("w", 1, 16));
  EXPECT_EQ(third.param, "w");
}

TEST(Json, FieldsOfWhatIsNoObject) {
  Problem problem;
  const Value list{Array{}};
  const Fields fields(list, "", problem);
  EXPECT_EQ(problem.message, "the body must be an object, not an array");
  EXPECT_EQ(fields.find("a"), nullptr);
}

RC_GTEST_PROP(Json, AnyBytesParseOrFailAndWhatParsesRoundTrips, ()) {
  const auto text = *rc::gen::container<std::string>(
      rc::gen::elementOf(std::string("{}[]\",:0123456789.eE+-truefalsn \\u\n\xc3\xa9\xff")));
  const auto value = parse(text);
  if (!value) return;
  const auto again = parse(to_text(*value));
  RC_ASSERT(again.has_value());
  RC_ASSERT(to_text(*again) == to_text(*value));  // 1E3 comes back as a whole number.
}

}  // namespace
}  // namespace lares::json
