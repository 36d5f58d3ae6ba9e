#include "app/member_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/config.h"
#include "app/table.h"
#include "core/text.h"
#include "store/key.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares member add NAME [FLAGS]   make a member and print its key, which is shown only once\n"
    "lares member set NAME [FLAGS]   change what is named by the flags, and nothing else\n"
    "lares member list               everybody\n"
    "lares member show NAME          one member\n"
    "lares member rotate NAME        a new key; the old one ends, and what it had running too\n"
    "lares member remove NAME        takes the key away; usage stays in the ledger\n"
    "\n"
    "A running server notices within a second. Clients send `Authorization: Bearer KEY`.\n"
    "\n"
    "  --class C                 A class that the key may claim in X-Lares-Class; again for more.\n"
    "                            Default chat.\n"
    "  --default-class C         Of requests that claim none. Default chat, or the first --class.\n"
    "  --weight W                Share beside others, 0.1 to 100. Default 1.\n"
    "  --admin, --no-admin       May see and cancel everybody's requests, and read /metrics.\n"
    "  --in-flight N             Most requests that run at once; 0: no limit, as for all limits.\n"
    "  --queued N                Most requests that wait at once.\n"
    "  --tokens-a-day N          Most tokens in 24 hours, prompts and answers.\n"
    "  --device-seconds-a-day N  Most device time in 24 hours.\n"
    "  --json                    For programs.\n"
    "  --data DIR                The server's data folder; default $XDG_DATA_HOME/lares or\n"
    "                            ~/.local/share/lares.\n";

constexpr std::array<std::string_view, 6> kActions{"add",  "set",    "list",
                                                   "show", "rotate", "remove"};
constexpr std::array<std::string_view, 12> kFlags{
    "--class",  "--default-class", "--weight",
    "--admin",  "--no-admin",      "--in-flight",
    "--queued", "--tokens-a-day",  "--device-seconds-a-day",
    "--json",   "--data",          "--help"};

// What the flags say; nothing where they are silent.
struct Changes {
  std::vector<std::string> classes;
  std::optional<std::string> default_class;
  std::optional<std::uint32_t> weight_permille, in_flight, queued;
  std::optional<std::uint64_t> tokens_a_day, device_seconds_a_day;
  std::optional<bool> admin;
};

struct Options {
  std::string action, name;
  Changes changes;
  bool changes_named = false;
  bool json = false, help = false;
  std::string data = default_data_folder();
};

template <class Number>
Result<Number> whole(std::string_view flag, std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() ||
      value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return fail(Code::Invalid, fmt::format("{}: `{}` is not a whole number from 0", flag, text));
  }
  return value;
}

Result<std::uint32_t> weight(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0.1 && value <= 100)) {
    return fail(Code::Invalid, fmt::format("--weight: `{}` is not a number from 0.1 to 100", text));
  }
  return static_cast<std::uint32_t>(std::lround(value * kWeightOne));
}

Result<> set_flag(Options& options, std::string_view flag, const std::string& value) {
  Changes& changes = options.changes;
  options.changes_named = options.changes_named || flag != "--data";
  if (flag == "--class") {
    changes.classes.push_back(value);
  } else if (flag == "--default-class") {
    changes.default_class = value;
  } else if (flag == "--weight") {
    changes.weight_permille = TRY(weight(value));
  } else if (flag == "--in-flight") {
    changes.in_flight = TRY(whole<std::uint32_t>(flag, value));
  } else if (flag == "--queued") {
    changes.queued = TRY(whole<std::uint32_t>(flag, value));
  } else if (flag == "--tokens-a-day") {
    changes.tokens_a_day = TRY(whole<std::uint64_t>(flag, value));
  } else if (flag == "--device-seconds-a-day") {
    changes.device_seconds_a_day = TRY(whole<std::uint64_t>(flag, value));
  } else {
    options.data = value;
  }
  return {};
}

// Flags without a value; false if `flag` is another.
bool set_switch(Options& options, std::string_view flag) {
  if (flag == "--json") {
    options.json = true;
  } else if (flag == "--help" || flag == "-h") {
    options.help = true;
  } else if (flag == "--admin" || flag == "--no-admin") {
    options.changes.admin = flag == "--admin";
    options.changes_named = true;
  } else {
    return false;
  }
  return true;
}

Result<> check_words(const Options& options, const std::vector<std::string>& words) {
  if (words.empty())
    return fail(Code::Invalid,
                "say what to do: add, set, list, show, rotate or "
                "remove; `lares member --help` explains");
  if (std::ranges::find(kActions, words[0]) == kActions.end()) {
    return fail(Code::Invalid, fmt::format("there is no `lares member {}`.{}", words[0],
                                           suggestion(words[0], kActions)));
  }
  const std::size_t wanted = words[0] == "list" ? 1 : 2;
  if (words.size() != wanted) {
    return fail(Code::Invalid, wanted == 1 ? "`lares member list` takes no name"
                                           : fmt::format("write `lares member {} NAME`", words[0]));
  }
  const bool changes = words[0] == "add" || words[0] == "set";
  if (options.changes_named && !changes) {
    return fail(Code::Invalid,
                fmt::format("`lares member {}` changes nothing else; `lares member set {}` does",
                            words[0], wanted == 2 ? words[1] : "NAME"));
  }
  if (words[0] == "set" && !options.changes_named) {
    return fail(Code::Invalid, "say what to change, such as --weight 2");
  }
  return {};
}

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-')) {
      words.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    if (set_switch(options, argument)) continue;
    if (std::ranges::find(kFlags, flag) == kFlags.end()) {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", flag, suggestion(flag, kFlags)));
    }
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      return fail(Code::Invalid, flag + " needs a value after it");
    }
    const std::string value =
        equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1);
    TRY_VOID(set_flag(options, flag, value));
  }
  if (options.help) return options;
  TRY_VOID(check_words(options, words));
  options.action = words[0];
  if (words.size() > 1) options.name = words[1];
  return options;
}

void apply(const Changes& changes, store::Member& member) {
  MemberLimits& limits = member.share.limits;
  if (!changes.classes.empty()) {
    member.classes = changes.classes;
    // Where the default goes with the old classes, the first of the new ones takes its place.
    if (!member.may_claim(member.default_class)) member.default_class = changes.classes.front();
  }
  member.default_class = changes.default_class.value_or(member.default_class);
  member.share.weight_permille = changes.weight_permille.value_or(member.share.weight_permille);
  member.admin = changes.admin.value_or(member.admin);
  limits.in_flight = changes.in_flight.value_or(limits.in_flight);
  limits.queued = changes.queued.value_or(limits.queued);
  limits.tokens_a_day = changes.tokens_a_day.value_or(limits.tokens_a_day);
  limits.device_seconds_a_day = changes.device_seconds_a_day.value_or(limits.device_seconds_a_day);
}

std::string weight_text(const MemberShare& share) {
  return fmt::format("{}", static_cast<double>(share.weight_permille) / kWeightOne);
}

std::string limits_text(const MemberLimits& limits) {
  std::string out;
  const auto add = [&out](std::uint64_t limit, std::string_view what) {
    if (limit != 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", limit, what);
  };
  add(limits.in_flight, "in flight");
  add(limits.queued, "queued");
  add(limits.tokens_a_day, "tokens a day");
  add(limits.device_seconds_a_day, "device seconds a day");
  return out.empty() ? "none" : out;
}

std::string member_text(const store::Member& member) {
  return fmt::format(
      "name           {}\nid             {}\nclasses        {}\ndefault class  {}\n"
      "weight         {}\nadmin          {}\nlimits         {}\n",
      member.share.name, member.share.id.value, fmt::join(member.classes, ", "),
      member.default_class, weight_text(member.share), member.admin ? "yes" : "no",
      limits_text(member.share.limits));
}

// The key alone on standard output; what a person should know, beside it.
void print_key(const Options& options, const store::Member& member, const std::string& key) {
  if (options.json) {
    fmt::print("{}\n", member_json(member, key));
    return;
  }
  fmt::print(stderr,
             "This is the key of {}, shown only now; send it as `Authorization: Bearer KEY`.\n",
             member.share.name);
  fmt::print("{}\n", key);
}

Result<> add(const Options& options) {
  store::Member member;
  member.share.name = options.name;
  member.classes = {member.default_class};
  apply(options.changes, member);
  using namespace std::chrono;
  member.created_unix_ms =
      duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  const std::string key = TRY(store::new_key());
  member.key_hash = store::hash_key(key);
  TRY_VOID(store::check_member(member));  // Before a folder is made for nothing.
  auto members = TRY(store::MemberStore::open(options.data));
  print_key(options, TRY(members.add(std::move(member))), key);
  return {};
}

Result<> rotate(const Options& options, store::MemberStore& members) {
  const std::string key = TRY(store::new_key());
  TRY_VOID(members.set_key_hash(options.name, store::hash_key(key)));
  print_key(options, TRY(members.find(options.name)), key);
  return {};
}

Result<> list(const Options& options) {
  std::vector<store::Member> all;
  auto members = store::MemberStore::open_existing(options.data);
  if (members) {
    all = TRY(members->all());
  } else if (members.error().code != Code::NotFound) {
    return tl::unexpected(std::move(members.error()));
  }
  if (!options.json) {
    fmt::print("{}", member_table(all));
    return {};
  }
  std::vector<std::string> lines;
  for (const store::Member& member : all) lines.push_back("\n  " + member_json(member));
  fmt::print("[{}{}]\n", fmt::join(lines, ","), lines.empty() ? "" : "\n");
  return {};
}

void print_member(const Options& options, const store::Member& member) {
  fmt::print("{}", options.json ? member_json(member) + "\n" : member_text(member));
}

Result<> run(const Options& options) {
  if (options.action == "add") return add(options);
  if (options.action == "list") return list(options);
  auto members = TRY(store::MemberStore::open_existing(options.data));
  if (options.action == "rotate") return rotate(options, members);
  store::Member member = TRY(members.find(options.name));
  if (options.action == "remove") {
    TRY_VOID(members.remove(options.name));
    if (options.json) {
      print_member(options, member);
    } else {
      fmt::print("{} has no key any more; what it used stays in the ledger\n", options.name);
    }
    return {};
  }
  if (options.action == "set") {
    apply(options.changes, member);
    TRY_VOID(members.change(member));
  }
  print_member(options, member);
  return {};
}

}  // namespace

std::string member_table(const std::vector<store::Member>& members) {
  if (members.empty()) return "no members yet; `lares member add NAME` makes one\n";
  std::vector<std::vector<std::string>> rows{
      {"id", "name", "classes (* default)", "weight", "admin", "limits"}};
  for (const store::Member& member : members) {
    std::vector<std::string> classes;
    for (const std::string& cls : member.classes) {
      classes.push_back(cls + (cls == member.default_class ? "*" : ""));
    }
    rows.push_back({fmt::format("{}", member.share.id.value), member.share.name,
                    fmt::format("{}", fmt::join(classes, " ")), weight_text(member.share),
                    member.admin ? "yes" : "no", limits_text(member.share.limits)});
  }
  return aligned_table(rows, "llllll");
}

std::string member_json(const store::Member& member, std::string_view key) {
  std::vector<std::string> classes;
  for (const std::string& cls : member.classes) classes.push_back(json_quoted(cls));
  const MemberLimits& limits = member.share.limits;
  std::string out = fmt::format(
      "{{\"id\": {}, \"name\": {}, \"classes\": [{}], \"default_class\": {}, \"weight\": {}, "
      "\"admin\": {}, \"in_flight\": {}, \"queued\": {}, \"tokens_a_day\": {}, "
      "\"device_seconds_a_day\": {}, \"created\": {}",
      member.share.id.value, json_quoted(member.share.name), fmt::join(classes, ", "),
      json_quoted(member.default_class), weight_text(member.share), member.admin, limits.in_flight,
      limits.queued, limits.tokens_a_day, limits.device_seconds_a_day,
      member.created_unix_ms / 1000);
  if (!key.empty()) out += fmt::format(", \"key\": {}", json_quoted(key));
  return out + '}';
}

int run_member_command(std::span<const std::string> arguments) {
  const Result<Options> options = parse(arguments);
  if (!options) {
    fmt::print(stderr, "lares member: {}\n", options.error().message);
    return 2;
  }
  if (options->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  if (const Result<> done = run(*options); !done) {
    fmt::print(stderr, "lares member: {}\n", done.error().message);
    return done.error().code == Code::Invalid ? 2 : 1;
  }
  return 0;
}

}  // namespace lares::app
