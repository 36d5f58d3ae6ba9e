#include "server/job_results.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "core/base64.h"

namespace lares::server {
namespace {

constexpr char kMark = '\x01';  // JSON writes control characters otherwise.
constexpr std::string_view kFiles = ";files=";

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string file_mark(std::uint32_t index) {
  return fmt::format("{}{}{}", kMark, index, kMark);
}

std::optional<std::string> with_files(std::string_view answer,
                                      std::span<const store::Artefact> files) {
  std::string out;
  while (true) {
    const std::size_t begin = answer.find(kMark);
    out += answer.substr(0, begin);
    if (begin == answer.npos) return out;
    const std::size_t end = answer.find(kMark, begin + 1);
    if (end == answer.npos) return std::nullopt;
    const auto index = number(answer.substr(begin + 1, end - begin - 1));
    if (!index) return std::nullopt;
    const auto file =
        std::ranges::find(files, store::result_file_name(*index), &store::Artefact::name);
    if (file == files.end()) return std::nullopt;
    out += base64_of(file->bytes);
    answer.remove_prefix(end + 1);
  }
}

Result<std::optional<store::Artefact>> read_answer(store::Journal& journal, std::int64_t seq) {
  auto answer = TRY(journal.artefact(seq, store::kResult));
  if (!answer) return answer;
  const AnswerType type = split_type(answer->media_type);
  answer->media_type = type.type;
  if (answer->bytes.find(kMark) == std::string::npos) return answer;
  std::vector<store::Artefact> files;
  for (std::uint32_t i = 0; i < type.files; ++i) {
    if (auto file = TRY(journal.artefact(seq, store::result_file_name(i))))
      files.push_back(std::move(*file));
  }
  auto whole = with_files(answer->bytes, files);
  if (!whole) return std::optional<store::Artefact>();
  answer->bytes = std::move(*whole);
  return answer;
}

std::string type_with_files(std::string_view type, std::size_t files) {
  return files == 0 ? std::string(type) : fmt::format("{}{}{}", type, kFiles, files);
}

AnswerType split_type(std::string_view kept) {
  const std::size_t at = kept.rfind(kFiles);
  if (at == kept.npos) return {std::string(kept)};
  const auto files = number(kept.substr(at + kFiles.size()));
  if (!files) return {std::string(kept)};
  return {std::string(kept.substr(0, at)), *files};
}

}  // namespace lares::server
