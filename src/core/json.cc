#include "core/json.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>

#include "core/assert.h"
#include "core/text.h"

namespace lares::json {
namespace {

// Keeps the last of the members with the same name. Sorting an index, so that an object of a
// million members does not take a million million comparisons.
void keep_last_of_each(Object& object) {
  std::vector<std::size_t> order(object.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&object](std::size_t a, std::size_t b) {
    return object[a].first < object[b].first;
  });
  std::vector<bool> superseded(object.size());
  bool any = false;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (object[order[i - 1]].first != object[order[i]].first) continue;
    superseded[order[i - 1]] = true;
    any = true;
  }
  if (!any) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < object.size(); ++i) {
    if (superseded[i]) continue;
    if (kept != i) object[kept] = std::move(object[i]);
    ++kept;
  }
  object.resize(kept);
}

// Builds Values from the parser's events. Its member names and constants are Boost's requirements.
struct Builder {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);
  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  explicit Builder(std::uint32_t values_max) : values_left(values_max) {}

  std::vector<Value> values;
  std::vector<std::string> keys;
  std::string part;  // A string or key that comes in pieces.
  std::uint32_t values_left;
  bool too_many = false;
  bool out_of_range = false;

  // Built in place: g++ 12 takes the moved-from variant for uninitialised otherwise.
  template <class T>
  bool push(T&& value, error_code& ec) {
    if (values_left == 0) {
      too_many = true;
      ec = boost::json::error::array_too_large;
      return false;
    }
    --values_left;
    values.emplace_back(std::forward<T>(value));
    return true;
  }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_object_begin(error_code&) { return true; }
  bool on_array_end(std::size_t n, error_code& ec) {
    const auto from = values.end() - static_cast<std::ptrdiff_t>(n);
    Array array(std::make_move_iterator(from), std::make_move_iterator(values.end()));
    values.erase(from, values.end());
    return push(std::move(array), ec);
  }
  bool on_object_end(std::size_t n, error_code& ec) {
    Object object;
    object.reserve(n);
    const std::size_t value_at = values.size() - n;
    const std::size_t key_at = keys.size() - n;
    for (std::size_t i = 0; i < n; ++i) {
      Member member(std::move(keys[key_at + i]), std::move(values[value_at + i]));
      object.push_back(std::move(member));
    }
    values.resize(value_at);
    keys.resize(key_at);
    keep_last_of_each(object);
    return push(std::move(object), ec);
  }
  bool on_string_part(string_view s, std::size_t, error_code&) {
    part.append(s.data(), s.size());
    return true;
  }
  bool on_string(string_view s, std::size_t, error_code& ec) {
    part.append(s.data(), s.size());
    return push(std::exchange(part, {}), ec);
  }
  bool on_key_part(string_view s, std::size_t, error_code&) {
    part.append(s.data(), s.size());
    return true;
  }
  bool on_key(string_view s, std::size_t, error_code&) {
    part.append(s.data(), s.size());
    keys.push_back(std::exchange(part, {}));
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t i, string_view, error_code& ec) { return push(i, ec); }
  bool on_uint64(std::uint64_t u, string_view, error_code& ec) { return push(u, ec); }
  bool on_double(double d, string_view, error_code& ec) {
    if (!std::isfinite(d)) {
      out_of_range = true;
      ec = boost::json::error::not_exact;
      return false;
    }
    return push(d, ec);
  }
  bool on_bool(bool b, error_code& ec) { return push(b, ec); }
  bool on_null(error_code& ec) { return push(nullptr, ec); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }
};

Error parse_error(const boost::json::error_code& ec, const Builder& builder, std::size_t at,
                  std::string_view text, const Limits& limits) {
  if (builder.too_many) {
    return Error{Code::TooLarge, fmt::format("more than {} JSON values", limits.values)};
  }
  if (ec == boost::json::error::too_deep) {
    return Error{Code::TooLarge,
                 fmt::format("JSON nested deeper than {} levels at byte {}", limits.depth, at)};
  }
  if (builder.out_of_range) {
    return Error{Code::Invalid, fmt::format("a number out of range before byte {}", at)};
  }
  if (ec == boost::json::error::extra_data) {
    return Error{Code::Invalid, fmt::format("text after the end of the JSON at byte {}", at)};
  }
  if (ec == boost::json::error::incomplete || at >= text.size()) {
    return Error{Code::Invalid, fmt::format("the JSON ends too early, at byte {}", text.size())};
  }
  if (!is_utf8(text)) {
    return Error{Code::Invalid, fmt::format("not valid UTF-8 near byte {}", at)};
  }
  return Error{Code::Invalid, fmt::format("not valid JSON at byte {}: {}", at, ec.message())};
}

void append_number(std::string& out, double d) {
  if (!std::isfinite(d)) {
    out += "null";
    return;
  }
  fmt::format_to(std::back_inserter(out), "{}", d);
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

struct Appender {
  std::string* out;

  void operator()(std::nullptr_t) const { *out += "null"; }
  void operator()(bool b) const { *out += b ? "true" : "false"; }
  void operator()(std::int64_t i) const { fmt::format_to(std::back_inserter(*out), "{}", i); }
  void operator()(std::uint64_t u) const { fmt::format_to(std::back_inserter(*out), "{}", u); }
  void operator()(double d) const { append_number(*out, d); }
  void operator()(const std::string& s) const { append_string(*out, s); }
  void operator()(const Array& array) const {
    *out += '[';
    for (std::size_t i = 0; i < array.size(); ++i) {
      if (i != 0) *out += ',';
      append(*out, array[i]);
    }
    *out += ']';
  }
  void operator()(const Object& object) const {
    *out += '{';
    for (std::size_t i = 0; i < object.size(); ++i) {
      if (i != 0) *out += ',';
      append_string(*out, object[i].first);
      *out += ':';
      append(*out, object[i].second);
    }
    *out += '}';
  }
};

}  // namespace

std::optional<double> Value::number() const {
  if (const auto* i = as<std::int64_t>()) return static_cast<double>(*i);
  if (const auto* u = as<std::uint64_t>()) return static_cast<double>(*u);
  if (const auto* d = as<double>()) return *d;
  return std::nullopt;
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto* i = as<std::int64_t>()) return *i;
  const auto* d = as<double>();
  // 2^53: beyond, a double no longer tells whole numbers apart.
  if (d == nullptr || std::trunc(*d) != *d || std::fabs(*d) > 9007199254740992.0) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*d);
}

const Value* Value::find(std::string_view name) const {
  const auto* object = as<Object>();
  if (object == nullptr) return nullptr;
  const auto it = std::find_if(object->begin(), object->end(),
                               [name](const Member& member) { return member.first == name; });
  return it == object->end() ? nullptr : &it->second;
}

Result<Value> parse(std::string_view text, const Limits& limits) {
  boost::json::parse_options options;
  options.max_depth = limits.depth;
  boost::json::basic_parser<Builder> parser(options, limits.values);
  boost::json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  const Builder& builder = parser.handler();
  if (!ec && used < text.size()) ec = boost::json::error::extra_data;
  if (ec) return tl::unexpected(parse_error(ec, builder, used, text, limits));
  LARES_ASSERT(builder.values.size() == 1, "{} values", builder.values.size());
  return std::move(parser.handler().values.front());
}

void append(std::string& out, const Value& value) {
  std::visit(Appender{&out}, value.data());
}

std::string to_text(const Value& value) {
  std::string out;
  append(out, value);
  return out;
}

std::string_view kind_name(const Value& value) {
  switch (value.data().index()) {
    case 0: return "null";
    case 1: return "a boolean";
    case 5: return "a string";
    case 6: return "an array";
    case 7: return "an object";
    default: return "a number";
  }
}

Fields::Fields(const Value& value, std::string path, Problem& problem)
    : value_(&value), path_(std::move(path)), problem_(&problem) {
  if (value.as<Object>() != nullptr || *problem_) return;
  problem_->param = path_;
  problem_->message = fmt::format("{} must be an object, not {}",
                                  path_.empty() ? "the body" : path_, kind_name(value));
}

const Value* Fields::find(std::string_view name) const {
  const Value* value = value_->find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void Fields::note(std::string_view name, std::string_view what) const {
  if (*problem_) return;
  problem_->param = path(name);
  problem_->message = fmt::format("{} {}", problem_->param, what);
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const bool* b = value->as<bool>()) return *b;
  note(name, fmt::format("must be true or false, not {}", kind_name(*value)));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) const {
  const Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = value->number();
  if (!number) {
    note(name, fmt::format("must be a number, not {}", kind_name(*value)));
    return std::nullopt;
  }
  if (*number >= least && *number <= most) return number;
  note(name, fmt::format("must be between {} and {}, not {}", least, most, *number));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least,
                                            std::int64_t most) const {
  const Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->number()) {
    note(name, fmt::format("must be a whole number, not {}", kind_name(*value)));
    return std::nullopt;
  }
  const std::optional<std::int64_t> integer = value->integer();
  if (integer && *integer >= least && *integer <= most) return integer;
  note(name, fmt::format("must be a whole number between {} and {}, not {}", least, most,
                         to_text(*value)));
  return std::nullopt;
}

const std::string* Fields::string(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return nullptr;
  const auto* text = value->as<std::string>();
  if (text == nullptr) note(name, fmt::format("must be a string, not {}", kind_name(*value)));
  return text;
}

const Array* Fields::array(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return nullptr;
  const auto* array = value->as<Array>();
  if (array == nullptr) note(name, fmt::format("must be an array, not {}", kind_name(*value)));
  return array;
}

const Object* Fields::object(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return nullptr;
  const auto* object = value->as<Object>();
  if (object == nullptr) note(name, fmt::format("must be an object, not {}", kind_name(*value)));
  return object;
}

}  // namespace lares::json
