#include "server/timeline.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {

// There are as many as members, classes and models; beyond what fits, they have no name.
std::uint16_t Timeline::named(std::string_view name) {
  const auto known = std::ranges::find(names_, name);
  if (known != names_.end()) return static_cast<std::uint16_t>(known - names_.begin());
  if (names_.size() > std::numeric_limits<std::uint16_t>::max()) return 0;
  const std::lock_guard lock(mutex_);
  names_.emplace_back(name);
  return static_cast<std::uint16_t>(names_.size() - 1);
}

void Timeline::stepped(std::string_view model, Instant end, Duration device, std::uint32_t tokens) {
  Entry entry;
  entry.end = end;
  // What is known is when the answer came and how long the device computed. Two steps never
  // overlap.
  entry.begin = std::max(end - device, std::min(last_end_, end));
  entry.device = device;
  entry.tokens = tokens;
  entry.model = named(model);
  last_end_ = end;
  if (pending_.empty()) left_ = device;
  pending_.push_back(entry);
}

void Timeline::charged(MemberId member, std::string_view name, std::string_view cls,
                       Duration device) {
  if (pending_.empty()) return;
  // A step's charges sum to its time.
  while (left_ <= Duration{0} && at_ + 1 < pending_.size()) left_ = pending_[++at_].device;
  left_ -= device;
  Entry& entry = pending_[at_];
  // Most charges of a step are of few members: names are looked up once for each.
  for (std::uint16_t i = 0; i < entry.count; ++i) {
    Share& share = entry.shares.at(i);
    if (share.member != member || names_[share.cls] != cls) continue;
    share.device += device;
    return;
  }
  add_share(entry, {member, named(name), named(cls), device});
}

void Timeline::add_share(Entry& entry, const Share& share) {
  const auto begin = entry.shares.begin();
  const auto end = begin + entry.count;
  const auto same = std::find_if(begin, end, [&](const Share& other) {
    return other.member == share.member && other.name == share.name && other.cls == share.cls;
  });
  if (same != end) {
    same->device += share.device;
  } else if (entry.count < kSharesMax) {
    entry.shares.at(entry.count++) = share;
  } else {
    Share& rest = entry.shares.back();  // Of several: nobody's.
    rest = {.member = MemberId{std::numeric_limits<std::uint32_t>::max()},
            .device = rest.device + share.device};
  }
}

bool Timeline::joins(const Entry& last, const Entry& next) {
  const auto alike = [](const Share& a, const Share& b) {
    return a.member == b.member && a.name == b.name && a.cls == b.cls;
  };
  return last.model == next.model && last.count == next.count && next.begin - last.end <= kGapMax &&
         next.end - last.begin <= kEntryMax &&
         std::is_permutation(last.shares.begin(), last.shares.begin() + last.count,
                             next.shares.begin(), next.shares.begin() + next.count, alike);
}

void Timeline::settle() {
  if (pending_.empty()) return;
  const std::lock_guard lock(mutex_);
  for (Entry& next : pending_) {
    if (!entries_.empty() && joins(entries_.back(), next)) {
      Entry& last = entries_.back();
      last.end = next.end;
      last.device += next.device;
      last.tokens += next.tokens;
      last.steps += next.steps;
      for (std::size_t i = 0; i < next.count; ++i) add_share(last, next.shares.at(i));
      continue;
    }
    next.number = next_++;
    if (entries_.size() == kEntriesMax) entries_.pop_front();
    entries_.push_back(next);
  }
  pending_.clear();
  at_ = 0;
}

void Timeline::append_entry(std::string& out, const Entry& entry, const Reader& reader,
                            const std::vector<std::string>& names) const {
  fmt::format_to(std::back_inserter(out),
                 R"({{"n":{},"start":{:.6f},"end":{:.6f},"device_s":{:.6f},"model":{},"steps":{},)"
                 R"("tokens":{},"shares":[)",
                 entry.number, in_seconds(entry.begin - start_), in_seconds(entry.end - start_),
                 in_seconds(entry.device), json_quoted(names[entry.model]), entry.steps,
                 entry.tokens);
  Duration others{};
  bool first = true;
  for (std::size_t i = 0; i < entry.count; ++i) {
    const Share& share = entry.shares.at(i);
    if (names[share.name].empty() || (!reader.admin && share.member != reader.member)) {
      others += share.device;
      continue;
    }
    fmt::format_to(std::back_inserter(out), R"({}{{"member":{},"class":{},"device_s":{:.6f}}})",
                   first ? "" : ",", json_quoted(names[share.name]), json_quoted(names[share.cls]),
                   in_seconds(share.device));
    first = false;
  }
  if (others > Duration{0}) {
    fmt::format_to(std::back_inserter(out), R"({}{{"member":null,"class":null,"device_s":{:.6f}}})",
                   first ? "" : ",", in_seconds(others));
  }
  out += "]}";
}

std::string Timeline::json(std::uint64_t since, const Reader& reader, Instant now) const {
  std::vector<Entry> found;
  std::vector<std::string> names;
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    auto from = std::ranges::lower_bound(entries_, since, {}, &Entry::number);
    if (entries_.end() - from > static_cast<std::ptrdiff_t>(kAnswerMax))
      from = entries_.end() - kAnswerMax;
    found.assign(from, entries_.end());
    names = names_;
    last = next_ - 1;
  }
  std::string out = fmt::format(R"({{"object":"timeline","now":{:.6f},"next":{},"steps":[)",
                                in_seconds(now - start_), last);
  for (const Entry& entry : found) {
    if (&entry != &found.front()) out += ',';
    append_entry(out, entry, reader, names);
  }
  return out + "]}";
}

}  // namespace lares::server
