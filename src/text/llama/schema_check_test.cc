#include "text/llama/schema_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/format.h>

namespace lares::text {
namespace {

// The message, or "" if all is well.
std::string wrong(const std::string& schema, SchemaUse use = SchemaUse::Answer) {
  common_json parsed = common_json::parse(schema);
  const Result<> checked = check_schema(parsed, "S", use);
  return checked ? "" : checked.error().message;
}

std::string checked(const std::string& schema, SchemaUse use = SchemaUse::Tool) {
  common_json parsed = common_json::parse(schema);
  const Result<> done = check_schema(parsed, "S", use);
  EXPECT_TRUE(done) << done.error().message;
  return parsed.dump();
}

TEST(SchemaCheck, WhatCanBeKeptIsKept) {
  for (const std::string schema :
       {R"({})", R"({"type":"string","pattern":"^[a-z]+$","minLength":1})",
        R"({"type":["string","null"]})", R"({"enum":[1,"a",null]})",
        R"({"type":"array","items":{"type":"integer"},"maxItems":2000})",
        R"({"type":"array","items":[{"type":"integer"},{}]})",
        R"({"anyOf":[{"type":"string"},{"const":5}]})",
        R"({"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"additionalProperties":false,)"
        R"("$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}})"}) {
    EXPECT_EQ(checked(schema, SchemaUse::Answer), schema);
  }
}

TEST(SchemaCheck, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(5)", "S must be a schema"},
      {R"({"properties":{"a":false}})", "S.properties.a must be a schema"},
      {R"({"properties":[]})", "S.properties must be an object"},
      {R"({"type":"person"})", "S.type must be"},
      {R"({"type":[]})", "S.type must be"},
      {R"({"type":["string",5]})", "S.type must be"},
      {R"({"enum":{}})", "S.enum must be a list"},
      {R"({"anyOf":[]})", "S.anyOf must be a list"},
      {R"({"items":{"oneOf":[{},5]}})", "S.items.oneOf[1] must be a schema"},
      {R"({"minLength":-1})", "S.minLength must be a whole number"},
      {R"({"maxItems":"3"})", "S.maxItems must be a whole number"},
      {R"({"maxItems":2001})", "S.maxItems is more than the 2000"},
      {R"({"pattern":5})", "S.pattern must be a string"},
      {R"({"type":"string","pattern":"a"})", "S.pattern cannot be held to"},
      {R"({"type":"string","pattern":"^\\bword$"})", "S.pattern cannot be held to"},
      {R"({"type":"string","pattern":"^(a$"})", "S.pattern is not a regular expression"},
      {R"({"$ref":5})", "S.$ref must be a string"},
      {R"({"$ref":"#/x"})", "S.$ref (`#/x`) leads nowhere"},
      {R"({"$ref":"other.json"})", "leads nowhere"},
      {R"({"$ref":"#"})", "leads nowhere"},
      {R"({"items":{"$ref":"#/items"}})", "S.items.$ref (`#/items`) leads back to itself"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
       "leads back to itself"},
      {R"({"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{}]}}})",
       "contains itself"},
  };
  for (const auto& [schema, message] : cases) {
    EXPECT_NE(wrong(schema).find(message), std::string::npos) << schema << ": " << wrong(schema);
  }
}

TEST(SchemaCheck, OfAToolWhatNoGrammarHoldsIsTakenOut) {
  EXPECT_EQ(checked(R"({"type":"string","pattern":"\\S","maxLength":100000,"minLength":2})"),
            R"({"type":"string","minLength":2})");
  EXPECT_EQ(checked(R"({"type":"string","pattern":"^(a$"})"), R"({"type":"string"})");
  EXPECT_EQ(checked(R"({"type":"integer","minimum":0.5,"maximum":3})"),
            R"({"type":"integer","maximum":3})");
  EXPECT_EQ(checked(R"({"type":"string","format":5})"), R"({"type":"string"})");
  EXPECT_EQ(checked(R"({"properties":{"a":true}})"), R"({"properties":{"a":{}}})");
}

TEST(SchemaCheck, Limits) {
  const auto many = [](std::size_t n, const std::string& each) {
    std::string list;
    for (std::size_t i = 0; i < n; ++i) {
      if (i != 0) list += ",";
      list += fmt::format(fmt::runtime(each), i);
    }
    return list;
  };
  EXPECT_EQ(wrong("{\"enum\":[" + many(kEnumMax, "{}") + "]}"), "");
  EXPECT_NE(wrong("{\"enum\":[" + many(kEnumMax + 1, "{}") + "]}"), "");
  EXPECT_EQ(wrong("{\"anyOf\":[" + many(256, "{{\"const\":{}}}") + "]}"), "");
  EXPECT_NE(wrong("{\"anyOf\":[" + many(257, "{{\"const\":{}}}") + "]}"), "");
  EXPECT_EQ(wrong("{\"properties\":{" + many(256, "\"p{}\":{{}}") + "}}"), "");
  EXPECT_NE(wrong("{\"properties\":{" + many(257, "\"p{}\":{{}}") + "}}"), "");
  EXPECT_EQ(wrong("{\"properties\":{" + many(257, "\"p{}\":{{}}") + "},\"required\":[\"p0\"]}"),
            "");
  EXPECT_NE(wrong("{\"$defs\":{" + many(kSchemasMax, "\"p{}\":{{}}") + "}}"), "");
}

}  // namespace
}  // namespace lares::text
