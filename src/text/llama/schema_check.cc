#include "text/llama/schema_check.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <json-schema-to-grammar.h>

namespace lares::text {
namespace {

constexpr std::array<std::string_view, 7> kTypes = {"string", "number", "integer", "boolean",
                                                    "object", "array",  "null"};

Error wrong(const std::string& place, std::string_view what) {
  return Error{Code::Invalid, fmt::format("{} {}", place, what)};
}

// Whether common makes a rule of the pattern, and not just "any string".
bool has_grammar(const std::string& pattern) {
  const auto grammar = [](const std::string& text) {
    return json_schema_to_grammar(common_json{{"type", "string"}, {"pattern", text}});
  };
  return grammar(pattern) != grammar("not anchored");
}

class Checker {
 public:
  Checker(common_json& root, SchemaUse use) : root_(root), use_(use) {}

  Result<> visit(common_json& schema, const std::string& place) {
    if (schema.is_boolean() && schema.get<bool>()) {
      schema = common_json::object();  // Anything goes.
      return {};
    }
    if (!schema.is_object()) {
      return tl::unexpected(wrong(place, "must be a schema: an object (or `true`)"));
    }
    if (++schemas_ > kSchemasMax) {
      return fail(Code::TooLarge,
                  fmt::format("{} is one schema too many: {} are taken", place, kSchemasMax));
    }
    if (schema.contains("$ref")) return check_ref(schema, place);
    TRY_VOID(check_type(schema, place));
    TRY_VOID(check_enum(schema, place));
    TRY_VOID(check_limits(schema, place));
    TRY_VOID(check_pattern(schema, place));
    TRY_VOID(visit_members(schema, place));
    return check_alternatives(schema, place);
  }

 private:
  // Every $ref must lead to a schema, not back to itself.
  Result<> check_ref(const common_json& schema, const std::string& place) {
    std::set<std::string> seen;
    const common_json* at = &schema;
    while (at->is_object() && at->contains("$ref")) {
      const common_json& ref = at->at("$ref");
      if (!ref.is_string()) return tl::unexpected(wrong(place + ".$ref", "must be a string"));
      const auto text = ref.get<std::string>();
      if (!seen.insert(text).second) {
        return tl::unexpected(
            wrong(place + ".$ref", fmt::format("(`{}`) leads back to itself", text)));
      }
      at = find(text);
      if (at == nullptr) {
        return tl::unexpected(
            wrong(place + ".$ref", fmt::format("(`{}`) leads nowhere: only places in the same "
                                               "schema, such as `#/$defs/x`, can be named",
                                               text)));
      }
    }
    return {};
  }

  const common_json* find(std::string_view ref) const {
    if (!ref.starts_with("#/")) return nullptr;
    ref.remove_prefix(2);
    const common_json* at = &root_;
    while (true) {
      const std::size_t slash = ref.find('/');
      const std::string key(ref.substr(0, slash));
      if (!at->is_object() || !at->contains(key)) return nullptr;
      at = &at->at(key);
      if (slash == std::string_view::npos) return at;
      ref.remove_prefix(slash + 1);
    }
  }

  static Result<> check_type(const common_json& schema, const std::string& place) {
    if (!schema.contains("type")) return {};
    const common_json& type = schema.at("type");
    const auto known = [](const common_json& t) {
      return t.is_string() &&
             std::find(kTypes.begin(), kTypes.end(), t.get<std::string>()) != kTypes.end();
    };
    bool good = known(type) || (type.is_array() && !type.empty());
    for (std::size_t i = 0; type.is_array() && i < type.size(); ++i) good &= known(type.at(i));
    if (good) return {};
    return tl::unexpected(wrong(place + ".type",
                                "must be string, number, integer, boolean, object, array or null, "
                                "or a list of these"));
  }

  static Result<> check_enum(const common_json& schema, const std::string& place) {
    if (!schema.contains("enum")) return {};
    const common_json& values = schema.at("enum");
    if (!values.is_array() || values.empty()) {
      return tl::unexpected(wrong(place + ".enum", "must be a list of at least one value"));
    }
    if (values.size() <= kEnumMax) return {};
    return fail(Code::TooLarge, fmt::format("{}.enum has {} values; at most {} are taken", place,
                                            values.size(), kEnumMax));
  }

  Result<> check_limits(common_json& schema, const std::string& place) const {
    for (const char* name : {"minItems", "maxItems", "minLength", "maxLength"}) {
      if (!schema.contains(name)) continue;
      const common_json& value = schema.at(name);
      if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
        return tl::unexpected(wrong(place + "." + name, "must be a whole number from 0"));
      }
      if (value.get<std::int64_t>() <= kRepetitionsMax) continue;
      if (use_ == SchemaUse::Answer) {
        return fail(Code::TooLarge, fmt::format("{}.{} is more than the {} that can be held to",
                                                place, name, kRepetitionsMax));
      }
      schema.erase(name);
    }
    for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      // Only whole bounds of whole numbers reach the grammar; others are for the model to read.
      if (schema.contains(name) && !schema.at(name).is_number_integer()) schema.erase(name);
    }
    return {};
  }

  Result<> check_pattern(common_json& schema, const std::string& place) const {
    if (schema.contains("format") && !schema.at("format").is_string()) schema.erase("format");
    if (!schema.contains("pattern")) return {};
    const common_json& pattern = schema.at("pattern");
    if (!pattern.is_string()) return tl::unexpected(wrong(place + ".pattern", "must be a string"));
    bool good = false;
    try {
      good = has_grammar(pattern.get<std::string>());
    } catch (const std::exception&) {
      if (use_ == SchemaUse::Answer) {
        return tl::unexpected(wrong(place + ".pattern", "is not a regular expression"));
      }
    }
    if (good) return {};
    if (use_ == SchemaUse::Answer) {
      return fail(Code::Unsupported,
                  fmt::format("{}.pattern cannot be held to: it must begin with ^, end with $ and "
                              "use no look-arounds or back-references",
                              place));
    }
    schema.erase("pattern");
    return {};
  }

  Result<> visit_members(common_json& schema, const std::string& place) {
    for (const char* name : {"properties", "$defs", "definitions"}) {
      if (!schema.contains(name)) continue;
      common_json& members = schema.at(name);
      if (!members.is_object()) {
        return tl::unexpected(wrong(place + "." + name, "must be an object of schemas"));
      }
      for (const auto& entry : members.items()) {
        TRY_VOID(visit(entry.value(), fmt::format("{}.{}.{}", place, name, entry.key())));
      }
    }
    for (const char* name : {"anyOf", "oneOf", "allOf", "prefixItems"}) {
      if (schema.contains(name)) TRY_VOID(visit_list(schema.at(name), place + "." + name));
    }
    if (schema.contains("items")) {
      common_json& items = schema.at("items");
      TRY_VOID(items.is_array() ? visit_list(items, place + ".items")
                                : visit(items, place + ".items"));
    }
    if (schema.contains("additionalProperties") &&
        !schema.at("additionalProperties").is_boolean()) {
      TRY_VOID(visit(schema.at("additionalProperties"), place + ".additionalProperties"));
    }
    return {};
  }

  // How many ways there are to begin a value; of what contains itself without end, more than
  // enough.
  std::size_t alternatives(const common_json& schema, int depth) const {
    if (!schema.is_object() || depth > 64) return depth > 64 ? kAlternativesMax + 1 : 1;
    if (schema.contains("$ref")) {
      const common_json* target = find(schema.at("$ref").get<std::string>());
      return target == nullptr ? 1 : alternatives(*target, depth + 1);
    }
    for (const char* name : {"anyOf", "oneOf"}) {
      if (!schema.contains(name)) continue;
      std::size_t sum = 0;
      const common_json& list = schema.at(name);
      for (std::size_t i = 0; i < list.size() && sum <= kAlternativesMax; ++i) {
        sum += alternatives(list.at(i), depth + 1);
      }
      return sum;
    }
    return 1;
  }

  Result<> check_alternatives(const common_json& schema, const std::string& place) const {
    std::size_t optional = schema.contains("properties") ? schema.at("properties").size() : 0;
    if (schema.contains("required") && schema.at("required").is_array()) {
      optional -= std::min(optional, schema.at("required").size());
    }
    if (optional <= kAlternativesMax && alternatives(schema, 0) <= kAlternativesMax) return {};
    return fail(Code::TooLarge,
                fmt::format("{} has too many alternatives, or contains itself with nothing around "
                            "it: an object may have {} members that are "
                            "not required, and an anyOf or oneOf as many schemas",
                            place, kAlternativesMax));
  }

  Result<> visit_list(common_json& list, const std::string& place) {
    if (!list.is_array() || list.empty()) {
      return tl::unexpected(wrong(place, "must be a list of at least one schema"));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      TRY_VOID(visit(list.at(i), fmt::format("{}[{}]", place, i)));
    }
    return {};
  }

  common_json& root_;
  SchemaUse use_;
  std::size_t schemas_ = 0;
};

}  // namespace

Result<> check_schema(common_json& schema, const std::string& place, SchemaUse use) {
  return Checker(schema, use).visit(schema, place);
}

}  // namespace lares::text
