// Who may use this server: the members, in the data folder's database.
//
// Written by `lares member`, read by `lares serve`, which looks for changes while it runs. One
// thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/member.h"
#include "core/result.h"
#include "store/sqlite.h"

namespace lares::store {

struct Member {
  MemberShare share;
  // Those that the key may claim. Empty, as for `home`: every class.
  std::vector<std::string> classes;
  std::string default_class = "chat";  // Of a request that claims none.
  bool admin = false;
  std::int64_t created_unix_ms = 0;
  std::string key_hash;  // store/key.h; "" for `home`.

  [[nodiscard]] bool may_claim(std::string_view cls) const;
  bool operator==(const Member&) const = default;
};

inline constexpr std::size_t kMembersMax = 4096;
inline constexpr std::size_t kMemberNameMax = 64;  // Bytes.

// Errors: Invalid, naming the field and its range. `add` and `change` call it.
Result<> check_member(const Member& member);

class MemberStore {
 public:
  // Makes the folder and the database if need be. Errors: as open_database().
  static Result<MemberStore> open(const std::string& folder);
  // Errors: NotFound if there is no database yet, and as above.
  static Result<MemberStore> open_existing(const std::string& folder);

  // Gives it an id. Errors: Invalid, Conflict (the name is taken), TooLarge (kMembersMax), Io.
  Result<Member> add(Member member);
  // Everything but id, key and time of creation. Errors: NotFound, Invalid, Io.
  Result<> change(const Member& member);
  // Errors of these three: NotFound, with the names that are there; Io.
  Result<> set_key_hash(std::string_view name, std::string_view key_hash);
  Result<> remove(std::string_view name);
  Result<Member> find(std::string_view name);

  Result<std::vector<Member>> all();  // By id.
  // Another value once somebody else has written to the database.
  Result<std::int64_t> data_version();

 private:
  explicit MemberStore(Database database) : database_(std::move(database)) {}

  Database database_;
};

}  // namespace lares::store
