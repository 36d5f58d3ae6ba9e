#include "server/multipart.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

constexpr std::string_view kType = "multipart/form-data";
constexpr std::string_view kLine = "\r\n";
constexpr std::size_t kBoundaryMax = 70;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The parameters behind the first `;` of a header, one after the other.
class Parameters {
 public:
  explicit Parameters(std::string_view header)
      : rest_(header.find(';') == header.npos ? "" : header.substr(header.find(';'))) {}

  struct One {
    std::string_view name;
    std::string value;
  };
  // Nothing at the end. Errors: Invalid.
  Result<std::optional<One>> next() {
    rest_ = trimmed(rest_);
    if (rest_.empty()) return std::optional<One>();
    if (rest_.front() != ';') return malformed();
    rest_ = trimmed(rest_.substr(1));
    const std::size_t equals = rest_.find('=');
    if (equals == rest_.npos) return malformed();
    One one{.name = trimmed(rest_.substr(0, equals)), .value = {}};
    rest_ = trimmed(rest_.substr(equals + 1));
    if (!rest_.starts_with('"')) {
      const std::size_t end = std::min(rest_.find(';'), rest_.size());
      one.value = trimmed(rest_.substr(0, end));
      rest_.remove_prefix(end);
      return std::optional(std::move(one));
    }
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != '"'; ++at) {
      if (rest_[at] == '\\' && at + 1 < rest_.size()) ++at;
      one.value += rest_[at];
    }
    if (at >= rest_.size()) return malformed();
    rest_.remove_prefix(at + 1);
    return std::optional(std::move(one));
  }

 private:
  static tl::unexpected<Error> malformed() {
    return fail(Code::Invalid, "a header's parameters are malformed");
  }
  std::string_view rest_;
};

Result<std::string> boundary_of(std::string_view content_type) {
  Parameters parameters(content_type);
  while (auto one = TRY(parameters.next())) {
    if (!same_word(one->name, "boundary")) continue;
    const bool good = !one->value.empty() && one->value.size() <= kBoundaryMax &&
                      one->value.back() != ' ' &&
                      one->value.find_first_not_of(
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789'()+_,-./:=? ") == std::string::npos;
    if (good) return std::move(one->value);
    return fail(Code::Invalid, "the boundary must be 1 to 70 of the letters that RFC 2046 allows");
  }
  return fail(Code::Invalid, "the Content-Type names no boundary");
}

Result<> read_disposition(std::string_view value, FormPart& part) {
  if (!same_word(trimmed(value.substr(0, value.find(';'))), "form-data"))
    return fail(Code::Invalid, "a part is no form-data");
  Parameters parameters(value);
  while (auto one = TRY(parameters.next())) {
    if (same_word(one->name, "name")) part.name = std::move(one->value);
    if (same_word(one->name, "filename")) part.file_name = std::move(one->value);
  }
  if (part.name.empty() || !is_utf8(part.name))
    return fail(Code::Invalid, "a part has no name, or one that is not UTF-8");
  return {};
}

Result<> read_head(std::string_view head, FormPart& part) {
  bool named = false;
  while (!head.empty()) {
    const std::size_t end = head.find(kLine);
    const std::string_view line = head.substr(0, end);
    head = end == head.npos ? "" : head.substr(end + kLine.size());
    const std::size_t colon = line.find(':');
    if (colon == line.npos || colon == 0)
      return fail(Code::Invalid, "a part has a line in its head that is no header");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (same_word(name, "content-disposition")) {
      if (named) return fail(Code::Invalid, "a part says twice what it is");
      named = true;
      TRY_VOID(read_disposition(value, part));
    } else if (same_word(name, "content-type")) {
      part.type = value;
    } else if (same_word(name, "content-transfer-encoding") && !same_word(value, "binary") &&
               !same_word(value, "8bit") && !same_word(value, "7bit")) {
      return fail(Code::Invalid,
                  fmt::format("parts cannot be sent as {}; send the bytes", utf8_sanitised(value)));
    }
  }
  if (!named) return fail(Code::Invalid, "a part does not say which field it is");
  return {};
}

}  // namespace

bool is_multipart(std::string_view content_type) {
  return same_word(trimmed(content_type.substr(0, content_type.find(';'))), kType);
}

Result<std::vector<FormPart>> read_multipart(std::string_view content_type, std::string_view body,
                                             const MultipartLimits& limits) {
  if (!is_multipart(content_type))
    return fail(Code::Invalid, fmt::format("the body must be {}", kType));
  const std::string delimiter = "--" + TRY(boundary_of(content_type));
  if (!body.starts_with(delimiter))
    return fail(Code::Invalid, "the body does not begin with its boundary");
  body.remove_prefix(delimiter.size());
  const std::string between = std::string(kLine) + delimiter;
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with(kLine)) return fail(Code::Invalid, "a boundary's line does not end");
    body.remove_prefix(kLine.size());
    if (parts.size() == limits.parts)
      return fail(Code::TooLarge, fmt::format("the form has more than {} parts", limits.parts));
    const std::string_view start = body.substr(0, limits.head_bytes + 2 * kLine.size());
    const std::size_t head = start.find("\r\n\r\n");
    if (head == start.npos) {
      return fail(start.size() < body.size() ? Code::TooLarge : Code::Invalid,
                  fmt::format("a part's head does not end within {} bytes", limits.head_bytes));
    }
    FormPart& part = parts.emplace_back();
    TRY_VOID(read_head(body.substr(0, head), part));
    // An empty part's data may end with the line that ends its head.
    body.remove_prefix(head + kLine.size());
    const std::size_t end = body.find(between);
    if (end == body.npos)
      return fail(Code::Invalid, "a part is not ended by the boundary: was the body cut short?");
    part.data = end < kLine.size() ? "" : body.substr(kLine.size(), end - kLine.size());
    body.remove_prefix(end + between.size());
  }
  body.remove_prefix(2);
  if (!body.empty() && body != kLine)
    return fail(Code::Invalid, "something follows the last boundary");
  return parts;
}

}  // namespace lares::server
