#include "store/members.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"
#include "store/schema.h"

namespace lares::store {
namespace {

constexpr std::uint32_t kWeightMin = 100;
constexpr std::uint32_t kWeightMax = 100000;
constexpr std::size_t kClassesMax = 64;
constexpr const char* kColumns =
    "id, name, key_hash, classes, default_class, weight_permille, admin, in_flight, queued, "
    "tokens_a_day, device_seconds_a_day, created_unix_ms";

// Empty for "", which stands for every class.
std::vector<std::string> split_classes(std::string_view text) {
  std::vector<std::string> classes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    classes.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return classes;
}

Member member_of(const Statement& row) {
  Member member;
  member.share.id = MemberId{static_cast<std::uint32_t>(row.integer(0))};
  member.share.name = row.text(1);
  member.key_hash = row.text(2);
  member.classes = split_classes(row.text(3));
  member.default_class = row.text(4);
  member.share.weight_permille = static_cast<std::uint32_t>(row.integer(5));
  member.admin = row.integer(6) != 0;
  member.share.limits.in_flight = static_cast<std::uint32_t>(row.integer(7));
  member.share.limits.queued = static_cast<std::uint32_t>(row.integer(8));
  member.share.limits.tokens_a_day = static_cast<std::uint64_t>(row.integer(9));
  member.share.limits.device_seconds_a_day = static_cast<std::uint64_t>(row.integer(10));
  member.created_unix_ms = row.integer(11);
  return member;
}

// From the classes to the limits, in the order of the columns.
void bind_settings(Statement& statement, const Member& member) {
  const MemberLimits& limits = member.share.limits;
  statement.bind(fmt::format("{}", fmt::join(member.classes, ",")));
  statement.bind(member.default_class);
  statement.bind(std::int64_t{member.share.weight_permille});
  statement.bind(std::int64_t{member.admin ? 1 : 0});
  statement.bind(std::int64_t{limits.in_flight});
  statement.bind(std::int64_t{limits.queued});
  statement.bind(static_cast<std::int64_t>(limits.tokens_a_day));
  statement.bind(static_cast<std::int64_t>(limits.device_seconds_a_day));
}

Result<> check_name(std::string_view name) {
  const bool plain = std::ranges::none_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == ','; });
  if (name.empty() || name.size() > kMemberNameMax || !plain || !is_utf8(name) ||
      name.front() == ' ' || name.front() == '-' || name.back() == ' ') {
    return fail(Code::Invalid,
                fmt::format("a member's name has 1 to {} bytes, without control characters and "
                            "commas, and does not begin with a blank or `-`",
                            kMemberNameMax));
  }
  if (name == "home") {
    return fail(Code::Invalid, "`home` is everybody who asks on this machine without a key");
  }
  return {};
}

Result<> check_class(std::string_view name) {
  if (!name.empty() && name.size() <= 32 &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == std::string_view::npos) {
    return {};
  }
  return fail(Code::Invalid, fmt::format("`{}` is no class: its name has 1 to 32 small letters, "
                                         "digits, `-` and `_`",
                                         name));
}

}  // namespace

bool Member::may_claim(std::string_view cls) const {
  return classes.empty() || std::ranges::find(classes, cls) != classes.end();
}

Result<> check_member(const Member& member) {
  const MemberShare& share = member.share;
  TRY_VOID(check_name(share.name));
  for (const std::string& cls : member.classes) TRY_VOID(check_class(cls));
  if (member.classes.empty() || member.classes.size() > kClassesMax) {
    return fail(Code::Invalid, fmt::format("a member may claim 1 to {} classes, not {}",
                                           kClassesMax, member.classes.size()));
  }
  if (!member.may_claim(member.default_class)) {
    return fail(Code::Invalid,
                fmt::format("the default class `{}` is not among those that {} may claim: {}",
                            member.default_class, share.name, fmt::join(member.classes, ", ")));
  }
  if (share.weight_permille < kWeightMin || share.weight_permille > kWeightMax) {
    return fail(Code::Invalid,
                fmt::format("a weight is 0.1 to 100, not {}",
                            static_cast<double>(share.weight_permille) / kWeightOne));
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (share.limits.tokens_a_day > kMost || share.limits.device_seconds_a_day > kMost) {
    return fail(Code::Invalid, fmt::format("a limit is at most {}", kMost));
  }
  return {};
}

Result<MemberStore> MemberStore::open(const std::string& folder) {
  return MemberStore(TRY(open_database(folder)));
}

Result<MemberStore> MemberStore::open_existing(const std::string& folder) {
  return MemberStore(TRY(open_existing_database(
      folder, Access::ReadWrite,
      fmt::format("there are no members in {} yet; `lares member add NAME` makes one", folder))));
}

Result<Member> MemberStore::add(Member member) {
  TRY_VOID(check_member(member));
  Transaction transaction = TRY(Transaction::begin(database_));
  const std::vector<Member> others = TRY(all());
  if (others.size() >= kMembersMax) {
    return fail(Code::TooLarge, fmt::format("{} members are the most", kMembersMax));
  }
  const auto same = [&](const Member& m) { return m.share.name == member.share.name; };
  if (std::ranges::any_of(others, same)) {
    return fail(Code::Conflict,
                fmt::format("there is a member `{}` already; `lares member rotate {}` gives it a "
                            "new key",
                            member.share.name, member.share.name));
  }
  Statement insert = TRY(database_.prepare(
      "INSERT INTO member (classes, default_class, weight_permille, admin, in_flight, queued, "
      "tokens_a_day, device_seconds_a_day, name, key_hash, created_unix_ms) "
      "VALUES (?,?,?,?,?,?,?,?,?,?,?) RETURNING id"));
  bind_settings(insert, member);
  insert.bind(member.share.name);
  insert.bind(member.key_hash);
  insert.bind(member.created_unix_ms);
  TRY(insert.row());
  const std::int64_t id = insert.integer(0);
  insert.reset();
  if (id > std::numeric_limits<std::uint32_t>::max()) {
    return fail(Code::TooLarge, "the ids of members are used up");
  }
  TRY_VOID(transaction.commit());
  member.share.id = MemberId{static_cast<std::uint32_t>(id)};
  return member;
}

Result<> MemberStore::change(const Member& member) {
  TRY_VOID(check_member(member));
  TRY(find(member.share.name));
  Statement update = TRY(database_.prepare(
      "UPDATE member SET classes = ?, default_class = ?, weight_permille = ?, admin = ?, "
      "in_flight = ?, queued = ?, tokens_a_day = ?, device_seconds_a_day = ? WHERE name = ?"));
  bind_settings(update, member);
  update.bind(member.share.name);
  return update.run();
}

Result<> MemberStore::set_key_hash(std::string_view name, std::string_view key_hash) {
  TRY(find(name));
  Statement update = TRY(database_.prepare("UPDATE member SET key_hash = ? WHERE name = ?"));
  update.bind(key_hash);
  update.bind(name);
  return update.run();
}

Result<> MemberStore::remove(std::string_view name) {
  TRY(find(name));
  Statement statement = TRY(database_.prepare("DELETE FROM member WHERE name = ?"));
  statement.bind(name);
  return statement.run();
}

Result<Member> MemberStore::find(std::string_view name) {
  const std::vector<Member> members = TRY(all());
  std::vector<std::string_view> names;
  for (const Member& member : members) {
    if (member.share.name == name) return member;
    names.push_back(member.share.name);
  }
  return fail(Code::NotFound,
              fmt::format("there is no member `{}`.{}{}", name, suggestion(name, names),
                          names.empty() ? " There are none yet: `lares member add NAME`." : ""));
}

Result<std::vector<Member>> MemberStore::all() {
  Statement query =
      TRY(database_.prepare(fmt::format("SELECT {} FROM member ORDER BY id", kColumns)));
  std::vector<Member> members;
  while (TRY(query.row())) members.push_back(member_of(query));
  return members;
}

Result<std::int64_t> MemberStore::data_version() {
  Statement query = TRY(database_.prepare("PRAGMA data_version"));
  TRY(query.row());
  return query.integer(0);
}

}  // namespace lares::store
