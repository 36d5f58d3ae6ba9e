#include "engine/diffusion/tokenizer.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/json.h"
#include "core/unicode.h"
#include "engine/diffusion/config_file.h"

namespace lares::diffusion {
namespace {

constexpr std::uint64_t kVocabularyFileMax = 16U << 20U;
constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();

// Printable Latin-1 bytes spell themselves; the others, in order, U+0100 and up (GPT-2's table).
void fill_spelling(std::string (&spelling)[256]) {
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    spelling[byte] = utf8_of(std::u32string(1, printable ? byte : next++));
  }
}

std::u32string collapsed(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (!is_space(c)) {
      out.push_back(c);
    } else if (!out.empty() && out.back() != U' ') {
      out.push_back(U' ');
    }
  }
  while (!out.empty() && out.back() == U' ') out.pop_back();
  return out;
}

enum class Kind : std::uint8_t { Space, Letter, Number, Other };

Kind kind_of(char32_t c) {
  if (is_letter(c)) return Kind::Letter;
  if (is_number(c)) return Kind::Number;
  return is_space(c) ? Kind::Space : Kind::Other;
}

// Length of an English contraction at the front ("'s", "'re"), or 0.
std::size_t contraction(std::u32string_view text) {
  for (const std::u32string_view end : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"}) {
    if (text.starts_with(end)) return end.size();
  }
  return 0;
}

// Length of the first word of `text`, which begins with no space.
std::size_t word_length(std::u32string_view text, std::u32string_view begin_word,
                        std::u32string_view end_word) {
  if (text.starts_with(begin_word)) return begin_word.size();
  if (text.starts_with(end_word)) return end_word.size();
  if (const std::size_t n = contraction(text)) return n;
  const Kind kind = kind_of(text[0]);
  if (kind == Kind::Number) return 1;
  std::size_t n = 1;
  while (n < text.size() && kind_of(text[n]) == kind) ++n;
  return n;
}

}  // namespace

Result<Tokenizer> Tokenizer::open(const std::string& folder, const TokenizerConfig& config,
                                  std::uint32_t vocabulary) {
  Tokenizer out;
  fill_spelling(out.spelling_);
  out.length_ = config.length;

  const std::string vocab_path = folder + "/vocab.json";
  const auto parsed = json::parse(TRY(read_text_file(vocab_path, kVocabularyFileMax)));
  const auto* words = parsed ? parsed->as<json::Object>() : nullptr;
  if (words == nullptr) return fail(Code::Invalid, vocab_path + ": must be a JSON object of ids");
  for (const auto& [word, value] : *words) {
    const auto id = value.integer();
    if (!id || *id < 0 || *id >= vocabulary) {
      return fail(Code::Invalid, fmt::format("{}: {} must have an id below {}, the text encoder's "
                                             "`vocab_size`",
                                             vocab_path, word, vocabulary));
    }
    out.vocabulary_.emplace(word, static_cast<std::int32_t>(*id));
  }
  const std::string merges_path = folder + "/merges.txt";
  const std::string merges = TRY(read_text_file(merges_path, kVocabularyFileMax));
  std::size_t at = merges.find('\n');  // The first line is a version.
  while (at != std::string::npos && at + 1 < merges.size()) {
    const std::size_t end = merges.find('\n', at + 1);
    std::string line = merges.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (std::ranges::count(line, ' ') == 1) {
      out.ranks_.emplace(std::move(line), static_cast<std::int32_t>(out.ranks_.size()));
    } else if (!line.empty()) {
      return fail(Code::Invalid, fmt::format("{}: a line that is no pair: {}", merges_path, line));
    }
    at = end;
  }

  const auto id_of = [&](const std::string& word) -> Result<std::int32_t> {
    const auto found = out.vocabulary_.find(word);
    if (found != out.vocabulary_.end()) return found->second;
    return fail(Code::Invalid, fmt::format("{}: has no {}", vocab_path, word));
  };
  out.begin_word_ = config.begin;
  out.end_word_ = config.end;
  out.begin_ = TRY(id_of(config.begin));
  out.end_ = TRY(id_of(config.end));
  out.pad_ = TRY(id_of(config.pad));
  for (const std::string& byte : out.spelling_) {  // So that every text can be spelled.
    TRY(id_of(byte));
    TRY(id_of(byte + "</w>"));
  }
  for (const auto& [pair, rank] : out.ranks_) {
    std::string whole = pair;
    whole.erase(whole.find(' '), 1);
    TRY(id_of(whole));
  }
  return out;
}

void Tokenizer::append_word(std::u32string_view word, std::vector<std::int32_t>& ids) const {
  const std::string bytes = utf8_of(word);
  if (bytes == begin_word_ || bytes == end_word_) {
    ids.push_back(bytes == begin_word_ ? begin_ : end_);
    return;
  }
  std::vector<std::string> parts;
  for (const char c : bytes) parts.push_back(spelling_[static_cast<unsigned char>(c)]);
  parts.back() += "</w>";
  const auto rank_of = [this, &parts](std::size_t i) {
    const auto found = ranks_.find(parts[i] + " " + parts[i + 1]);
    return found == ranks_.end() ? kNoRank : found->second;
  };
  std::vector<std::int32_t> ranks;  // Of each part with the next.
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) ranks.push_back(rank_of(i));
  while (!ranks.empty()) {
    const auto least = std::ranges::min_element(ranks);
    if (*least == kNoRank) break;
    const auto i = static_cast<std::size_t>(least - ranks.begin());
    parts[i] += parts[i + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks.erase(least);
    if (i > 0) ranks[i - 1] = rank_of(i - 1);
    if (i < ranks.size()) ranks[i] = rank_of(i);
  }
  for (const std::string& part : parts) ids.push_back(vocabulary_.at(part));
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kPromptMax) {
    return fail(Code::TooLarge,
                fmt::format("a prompt of {} bytes; at most {}", text.size(), kPromptMax));
  }
  const std::u32string clean = lower_case(collapsed(nfc(code_points(text))));
  const std::u32string begin_word = code_points(begin_word_);
  const std::u32string end_word = code_points(end_word_);
  std::u32string_view left(clean);
  std::vector<std::int32_t> ids = {begin_};
  const std::size_t most = length_ - 1;
  while (!left.empty() && ids.size() < most) {
    if (left[0] == U' ') {
      left.remove_prefix(1);
      continue;
    }
    const std::size_t n = word_length(left, begin_word, end_word);
    append_word(left.substr(0, n), ids);
    left.remove_prefix(n);
  }
  ids.resize(std::min(ids.size(), most));
  ids.push_back(end_);
  ids.resize(length_, pad_);
  return ids;
}

}  // namespace lares::diffusion
