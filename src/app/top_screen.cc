#include "app/top_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "app/chat_session.h"
#include "app/table.h"
#include "core/text.h"

namespace lares::app {
namespace {

constexpr std::array<std::string_view, 9> kHeights{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<int, 6> kColours{36, 33, 35, 32, 34, 31};
constexpr int kOthersColour = 90;
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kParts{
    {{"weights", "█"}, {"kv", "▓"}, {"cache", "▒"}, {"compute", "░"}, {"free", "·"}}};

std::string text_at(const json::Value& value, std::string_view name) {
  const json::Value* found = value.find(name);
  const auto* text = found == nullptr ? nullptr : found->as<std::string>();
  return text == nullptr ? std::string() : terminal_safe(*text);
}

double number_at(const json::Value& value, std::string_view name) {
  const json::Value* found = value.find(name);
  return found == nullptr ? 0 : found->number().value_or(0);
}

const json::Array& array_at(const json::Value& value, std::string_view name) {
  static const json::Array kNone;
  const json::Value* found = value.find(name);
  const auto* array = found == nullptr ? nullptr : found->as<json::Array>();
  return array == nullptr ? kNone : *array;
}

Result<json::Value> object_of(std::string_view body, std::string_view kind) {
  auto parsed = json::parse(body, {.values = 1U << 22U});
  if (parsed && text_at(*parsed, "object") == kind) return parsed;
  return fail(Code::Corrupt,
              fmt::format("the server's {} makes no sense; is it another version?", kind));
}

std::string seconds_text(double seconds) {
  if (seconds >= 60)
    return fmt::format("{:.0f}m{:02.0f}s", std::floor(seconds / 60), std::fmod(seconds, 60));
  return format_duration(Duration(static_cast<std::int64_t>(seconds * 1e9)));
}

std::string coloured(std::string_view text, int colour, bool colours) {
  return colours ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
}

// The same colour for the same name.
int colour_of(const std::string& name) {
  if (name.empty()) return kOthersColour;
  std::uint32_t hash = 7;
  for (const char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
  return kColours.at(hash % kColours.size());
}

std::string bar(double part, std::size_t columns) {
  const auto full = static_cast<std::size_t>(
      std::lround(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns)));
  std::string out;
  for (std::size_t i = 0; i < columns; ++i) out += i < full ? "█" : "░";
  return out;
}

std::string head(std::string_view text, bool colours) {
  return colours ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

}  // namespace

std::string cut_to(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t at = 0;
  bool escaped = false;
  while (at < text.size()) {
    if (text[at] == '\x1b') {
      const std::size_t end = std::min(text.find('m', at), text.size() - 1);
      out += text.substr(at, end + 1 - at);
      at = end + 1;
      escaped = true;
      continue;
    }
    if (columns == 0) break;
    std::size_t size = 1;
    while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xC0U) == 0x80)
      ++size;
    out += text.substr(at, size);
    at += size;
    --columns;
  }
  if (escaped && at < text.size()) out += "\x1b[0m";
  return out;
}

Result<> TopScreen::take_me(std::string_view body) {
  member_ = text_at(TRY(object_of(body, "member")), "name");
  return {};
}

Result<> TopScreen::take_timeline(std::string_view body) {
  const json::Value answer = TRY(object_of(body, "timeline"));
  const double now = number_at(answer, "now");
  if (now < now_) steps_.clear();  // The server began anew.
  now_ = now;
  next_ = static_cast<std::int64_t>(number_at(answer, "next"));
  for (const json::Value& step : array_at(answer, "steps")) {
    TopStep read{.number = static_cast<std::int64_t>(number_at(step, "n")),
                 .start = number_at(step, "start"),
                 .end = number_at(step, "end"),
                 .device = number_at(step, "device_s"),
                 .tokens = number_at(step, "tokens"),
                 .shares = {}};
    for (const json::Value& share : array_at(step, "shares"))
      read.shares.emplace_back(text_at(share, "member"), number_at(share, "device_s"));
    // The last one that was known may have grown.
    while (!steps_.empty() && steps_.back().number >= read.number) steps_.pop_back();
    steps_.push_back(std::move(read));
  }
  while (!steps_.empty() && steps_.front().end < now_ - kWindow) steps_.pop_front();
  return {};
}

Result<> TopScreen::take_queue(std::string_view body) {
  queue_ = TRY(object_of(body, "queue"));
  return {};
}

Result<> TopScreen::take_memory(std::string_view body) {
  memory_ = TRY(object_of(body, "memory"));
  return {};
}

Result<> TopScreen::take_models(std::string_view body) {
  models_ = TRY(object_of(body, "list"));
  return {};
}

TopScreen::Sums TopScreen::sums(double seconds) const {
  Sums out;
  std::map<std::string, double> by_member;
  for (const TopStep& step : steps_) {
    if (step.end <= now_ - seconds) continue;
    const double part = step.end > step.start
                            ? std::min(1.0, (step.end - now_ + seconds) / (step.end - step.start))
                            : 1.0;
    out.busy += step.device * part / seconds;
    out.tokens += step.tokens * part / seconds;
    for (const auto& [member, device] : step.shares) by_member[member] += device * part;
  }
  out.busy = std::min(out.busy, 1.0);
  out.shares.assign(by_member.begin(), by_member.end());
  std::ranges::stable_sort(out.shares, std::greater(), [](const auto& s) { return s.second; });
  return out;
}

// A column for each moment of the last minute: how high is how busy, its colour whose most was.
std::string TopScreen::strip(std::size_t columns, bool colours) const {
  std::vector<double> busy(columns);
  std::vector<std::map<std::string, double>> whose(columns);
  const double width = kWindow / static_cast<double>(columns);
  for (const TopStep& step : steps_) {
    const double first = (step.start - now_ + kWindow) / width;
    const double last = (step.end - now_ + kWindow) / width;
    const double density = step.end > step.start ? step.device / (step.end - step.start) : 0;
    for (double at = std::max(0.0, std::floor(first)); at < last; ++at) {
      const auto column = static_cast<std::size_t>(at);
      if (column >= columns) break;
      const double part = std::min(last, at + 1) - std::max(first, at);
      busy[column] += part * density;
      for (const auto& [member, device] : step.shares)
        whose[column][member] += part * device / std::max(step.end - step.start, 1e-9);
    }
  }
  std::string out;
  for (std::size_t i = 0; i < columns; ++i) {
    const double level = std::clamp(busy[i], 0.0, 1.0) * 8;
    const auto height =
        static_cast<std::size_t>(busy[i] > 0 ? std::max(1L, std::lround(level)) : 0);
    const auto most =
        std::ranges::max_element(whose[i], {}, [](const auto& w) { return w.second; });
    const int colour = most == whose[i].end() ? kOthersColour : colour_of(most->first);
    out += coloured(kHeights.at(height), colour, colours && height > 0);
  }
  return out;
}

std::string TopScreen::memory_line(std::size_t columns) const {
  const json::Array& devices = array_at(memory_, "devices");
  if (devices.empty()) return "";
  const json::Value& device = devices.front();
  double total = number_at(device, "total");
  double known = 0;
  for (const auto& [name, letter] : kParts) known += number_at(device, name);
  total = std::max({total, known, 1.0});
  std::string bars, words;
  for (const auto& [name, letter] : kParts) {
    const double bytes = number_at(device, name);
    const long share = std::lround(bytes / total * static_cast<double>(columns));
    const long wide = bytes > 0 ? std::max(1L, share) : 0;
    for (long i = 0; i < wide; ++i) bars += letter;
    words += fmt::format("  {} {}", name, format_bytes(static_cast<std::int64_t>(bytes)));
  }
  return bars + words;
}

std::string TopScreen::models_line() const {
  std::string out;
  for (const json::Value& model : array_at(models_, "data")) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", text_at(model, "id"),
                       text_at(model, "state"));
  }
  return out.empty() ? "none" : out;
}

std::pair<std::int64_t, std::int64_t> TopScreen::counts() const {
  const json::Value* others = queue_.find("others");
  std::int64_t running = 0, waiting = 0;
  if (others != nullptr) {
    running = static_cast<std::int64_t>(number_at(*others, "running"));
    waiting = static_cast<std::int64_t>(number_at(*others, "queued"));
  }
  for (const json::Value& job : array_at(queue_, "jobs"))
    ++(text_at(job, "state") == "running" ? running : waiting);
  return {running, waiting};
}

void TopScreen::add_jobs(std::vector<std::string>& out, const Size& size) const {
  std::vector<std::vector<std::string>> rows{
      {"", "member", "class", "model", "read", "written", "since", "begins in", "why"}};
  std::vector<const json::Value*> jobs;
  for (const json::Value& job : array_at(queue_, "jobs")) jobs.push_back(&job);
  std::ranges::stable_sort(jobs, {}, [](const json::Value* job) {
    return std::pair(text_at(*job, "state") != "running", number_at(*job, "position"));
  });
  for (const json::Value* job : jobs) {
    const bool runs = text_at(*job, "state") == "running";
    rows.push_back({runs ? ">" : fmt::format("{:.0f}", number_at(*job, "position") + 1),
                    text_at(*job, "member"), text_at(*job, "class"), text_at(*job, "model"),
                    fmt::format("{:.0f}", number_at(*job, "prompt_tokens")),
                    fmt::format("{:.0f}", number_at(*job, "output_tokens")),
                    seconds_text(number_at(*job, "waited_s")),
                    runs ? "" : seconds_text(number_at(*job, "estimate_s")),
                    text_at(*job, "reason")});
  }
  if (jobs.empty()) return out.push_back("nothing of yours runs or waits");
  std::string table = aligned_table(rows, "rlllrrrrl");
  for (std::size_t begin = 0; begin < table.size();) {
    const std::size_t end = std::min(table.find('\n', begin), table.size());
    const std::string line = table.substr(begin, end - begin);
    out.push_back(begin == 0 ? head(line, size.colours) : line);
    begin = end + 1;
  }
}

std::vector<std::string> TopScreen::lines(const Size& size, std::string_view clock,
                                          std::string_view trouble) const {
  const Sums recent = sums(kRecently);
  const auto [running, waiting] = counts();
  const std::size_t wide = size.columns > 40 ? size.columns - 10 : 30;
  std::string shares;
  double all = 0;
  const auto minute = sums(kWindow).shares;
  for (const auto& [member, device] : minute) all += device;
  for (const auto& [member, device] : minute) {
    shares += coloured(fmt::format("{}{} {:.0f} %", shares.empty() ? "" : "  ",
                                   member.empty() ? "others" : member, 100 * device / all),
                       colour_of(member), size.colours);
  }
  std::vector<std::string> out;
  out.push_back(
      fmt::format("{}  {}  {}  {}", head("lares top", size.colours), server_, member_, clock));
  if (!trouble.empty()) out.push_back(coloured(trouble, 31, size.colours));
  out.push_back(fmt::format("device    {} {:3.0f} %   {:.0f} tokens/s   running {}   waiting {}",
                            bar(recent.busy, 20), 100 * recent.busy, recent.tokens, running,
                            waiting));
  out.push_back("a minute  " + strip(wide, size.colours));
  out.push_back("members   " + (shares.empty() ? "nobody in the last minute" : shares));
  out.push_back("memory    " + memory_line(20));
  out.push_back("models    " + models_line());
  out.emplace_back();
  add_jobs(out, size);
  if (out.size() > size.rows) {
    const std::size_t hidden = out.size() - size.rows + 1;
    out.resize(size.rows - 1);
    out.push_back(fmt::format("... and {} more", hidden));
  }
  for (std::string& line : out) line = cut_to(line, size.columns);
  return out;
}

std::string TopScreen::to_json() const {
  const Sums recent = sums(kRecently);
  const auto [running, waiting] = counts();
  std::string shares;
  for (const auto& [member, device] : sums(kWindow).shares) {
    shares += fmt::format(R"({}{{"member":{},"device_s":{:.6f}}})", shares.empty() ? "" : ",",
                          member.empty() ? "null" : json_quoted(member), device);
  }
  return fmt::format(
      R"({{"object":"top","server":{},"member":{},"device":{{"busy":{:.4f},"tokens_per_s":{:.3f},)"
      R"("over_s":{}}},"shares":{{"over_s":{},"data":[{}]}},"running":{},"waiting":{},)"
      R"("queue":{},"memory":{},"models":{}}})",
      json_quoted(server_), json_quoted(member_), recent.busy, recent.tokens, kRecently, kWindow,
      shares, running, waiting, json::to_text(queue_), json::to_text(memory_),
      json::to_text(models_));
}

}  // namespace lares::app
