#include "core/unicode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/text.h"
#include "core/unicode_tables.h"

namespace lares {
namespace {

constexpr char32_t kReplacement = 0xfffd;

// The row whose range holds `c`.
template <class Row>
const Row* row_of(std::span<const Row> rows, char32_t c) {
  auto at = std::ranges::upper_bound(rows, std::uint32_t{c}, {}, &Row::first);
  if (at == rows.begin()) return nullptr;
  --at;
  return c <= at->last ? &*at : nullptr;
}

std::uint32_t combining_class(char32_t c) {
  const auto* row = row_of(unicode::combining_classes, c);
  return row == nullptr ? 0 : row->value;
}

// Hangul syllables are computed (Unicode 3.12).
constexpr char32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11a7;
constexpr std::uint32_t kLeads = 19, kVowels = 21, kTails = 28;
constexpr std::uint32_t kSyllables = kLeads * kVowels * kTails;

const unicode::Decomposition* decomposition_of(char32_t c) {
  const auto& rows = unicode::decompositions;
  const auto at =
      std::ranges::lower_bound(rows, std::uint32_t{c}, {}, &unicode::Decomposition::code);
  return at != rows.end() && at->code == c ? &*at : nullptr;
}

void decompose(char32_t c, std::u32string& out) {
  if (c >= kSyllable && c < kSyllable + kSyllables) {
    const std::uint32_t i = c - kSyllable;
    out.push_back(kLead + i / (kVowels * kTails));
    out.push_back(kVowel + i % (kVowels * kTails) / kTails);
    if (i % kTails != 0) out.push_back(kTail + i % kTails);
    return;
  }
  const auto* row = decomposition_of(c);
  if (row == nullptr) {
    out.push_back(c);
    return;
  }
  decompose(row->first, out);  // Chains of these are at most four long.
  if (row->second != 0) out.push_back(row->second);
}

std::optional<char32_t> composed(char32_t a, char32_t b) {
  if (a >= kLead && a < kLead + kLeads && b >= kVowel && b < kVowel + kVowels) {
    return kSyllable + ((a - kLead) * kVowels + (b - kVowel)) * kTails;
  }
  if (a >= kSyllable && a < kSyllable + kSyllables && (a - kSyllable) % kTails == 0 && b > kTail &&
      b < kTail + kTails) {
    return a + (b - kTail);
  }
  struct Pair {
    std::uint64_t key;
    char32_t code;
  };
  static const std::vector<Pair> pairs = [] {
    std::vector<Pair> out;
    for (const auto& row : unicode::decompositions) {
      if (row.composes == 0) continue;
      out.push_back({(std::uint64_t{row.first} << 32U) | row.second, char32_t{row.code}});
    }
    std::ranges::sort(out, {}, &Pair::key);
    return out;
  }();
  const std::uint64_t key = (std::uint64_t{a} << 32U) | b;
  const auto at = std::ranges::lower_bound(pairs, key, {}, &Pair::key);
  if (at == pairs.end() || at->key != key) return std::nullopt;
  return at->code;
}

// Runs of combining marks in the order of their classes, equal ones as they came.
void order_marks(std::u32string& text) {
  for (std::size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(i),
                     text.begin() + static_cast<std::ptrdiff_t>(end), [](char32_t a, char32_t b) {
                       return combining_class(a) < combining_class(b);
                     });
    i = end;
  }
}

}  // namespace

std::u32string code_points(std::string_view utf8) {
  const std::string clean = is_utf8(utf8) ? std::string() : utf8_sanitised(utf8);
  const std::string_view text = clean.empty() ? utf8 : std::string_view(clean);
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    constexpr std::array<std::uint32_t, 5> kBits = {0, 0x7f, 0x1f, 0x0f, 0x07};
    char32_t c = lead & kBits[length];
    for (std::size_t k = 1; k < length; ++k) {
      c = (c << 6U) | (static_cast<unsigned char>(text[i + k]) & 0x3fU);
    }
    out.push_back(c);
    i += length;
  }
  return out;
}

std::string utf8_of(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto tail = [&out](char32_t bits) {
    out.push_back(static_cast<char>(0x80 | (bits & 0x3f)));
  };
  for (char32_t c : text) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = kReplacement;
    if (c < 0x80) {
      out.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
      out.push_back(static_cast<char>(0xc0 | (c >> 6U)));
      tail(c);
    } else if (c < 0x10000) {
      out.push_back(static_cast<char>(0xe0 | (c >> 12U)));
      tail(c >> 6U);
      tail(c);
    } else {
      out.push_back(static_cast<char>(0xf0 | (c >> 18U)));
      tail(c >> 12U);
      tail(c >> 6U);
      tail(c);
    }
  }
  return out;
}

bool is_letter(char32_t c) {
  return row_of(unicode::letters, c) != nullptr;
}

bool is_number(char32_t c) {
  return row_of(unicode::numbers, c) != nullptr;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::u32string lower_case(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c == 0x130) {  // I with a dot: "i" and the dot, as the Unicode default has it.
      out += U"i\u0307";
      continue;
    }
    const auto* row = row_of(unicode::lower_cases, c);
    const bool maps = row != nullptr && (c - row->first) % row->stride == 0;
    out.push_back(maps ? static_cast<char32_t>(static_cast<std::int64_t>(c) + row->difference) : c);
  }
  return out;
}

std::u32string nfc(std::u32string_view text) {
  std::u32string parts;
  parts.reserve(text.size());
  for (const char32_t c : text) decompose(c, parts);
  order_marks(parts);

  std::u32string out;
  std::optional<std::size_t> starter;  // Where in `out` the last one is.
  std::uint32_t last_class = 0;        // Of what stands after it; 0 = nothing, or another starter.
  for (const char32_t c : parts) {
    const std::uint32_t cls = combining_class(c);
    const bool adjacent = starter && *starter + 1 == out.size();
    if (starter && (adjacent || last_class < cls)) {
      if (const auto whole = composed(out[*starter], c)) {
        out[*starter] = *whole;
        continue;
      }
    }
    if (cls == 0) starter = out.size();
    last_class = cls;
    out.push_back(c);
  }
  return out;
}

}  // namespace lares
