#include "server/sketch_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json.h"
#include "core/text.h"
#include "server/sketch_support.h"

namespace lares::server {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Where a piece of `text` that has at most `most` bytes ends: behind a blank, if it has one in its
// second half.
std::size_t end_of_piece(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  for (std::size_t end = most; end > most / 2; --end) {
    if (is_blank(text[end - 1])) return end;
  }
  const std::size_t whole = utf8_complete_prefix(text.substr(0, most));
  return whole > 0 ? whole : most;
}

std::uint32_t number_of(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::vector<std::string> chunks_of(std::string_view text, std::uint32_t tokens,
                                   std::uint32_t overlap) {
  const std::size_t most = std::max<std::size_t>(tokens, 1) * kTokenBytes;
  const std::size_t shared = std::min<std::size_t>(overlap * kTokenBytes, most / 2);
  std::vector<std::string> pieces;
  std::size_t from = 0;
  while (pieces.size() <= kChunksMax) {
    const std::size_t end = from + end_of_piece(text.substr(from), most);
    pieces.emplace_back(text.substr(from, end - from));
    if (end == text.size()) break;
    std::size_t next = end - std::min(shared, end - from - 1);
    // What is shared begins with a whole word, where there are words.
    std::size_t word = next;
    while (shared > 0 && word > from + 1 && !is_blank(text[word - 1])) --word;
    if (shared > 0 && is_blank(text[word - 1])) next = word;
    while (next < end && (static_cast<unsigned char>(text[next]) & 0xc0U) == 0x80U) ++next;
    from = std::max(next, from + 1);
  }
  return pieces;
}

std::vector<std::string> chunks_of(std::string_view text, const sketch::Node& chunk) {
  return chunks_of(text, number_of(argument(chunk.fixed, "tokens")),
                   number_of(argument(chunk.fixed, "overlap")));
}

Generation generation_for(const SketchAsk& ask) {
  json::Array messages;
  const auto say = [&messages](const char* role, const std::string& content) {
    messages.emplace_back(json::Object{{"role", role}, {"content", content}});
  };
  if (!ask.system.empty()) say("system", ask.system);
  say("user", ask.text);
  ChatPrompt prompt;
  prompt.messages = json::to_text(json::Value(std::move(messages)));
  prompt.schema = ask.schema;
  Generation generation;
  generation.model = ask.model;
  generation.prompt = std::move(prompt);
  generation.max_tokens = ask.max;
  generation.seed = ask.seed;
  if (ask.temperature) generation.sampling.temperature = static_cast<float>(*ask.temperature);
  return generation;
}

Generation generation_for(const SketchEmbed& embed) {
  EmbedPrompt prompt;
  for (const std::string& text : embed.texts) prompt.inputs.emplace_back(text);
  Generation generation;
  generation.model = embed.model;
  generation.prompt = std::move(prompt);
  return generation;
}

std::string npy_of(const std::vector<float>& vector) {
  std::string head =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", vector.size());
  // The values begin at a multiple of 64.
  while ((10 + head.size() + 1) % 64 != 0) head += ' ';
  head += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(head.size() & 0xffU);
  out += static_cast<char>(head.size() >> 8U);
  out += head;
  const std::size_t at = out.size();
  out.resize(at + vector.size() * sizeof(float));
  if (!vector.empty()) std::memcpy(out.data() + at, vector.data(), vector.size() * sizeof(float));
  return out;
}

std::string json_of(const std::vector<float>& vector) {
  return fmt::format("[{}]", fmt::join(vector, ","));
}

}  // namespace lares::server
