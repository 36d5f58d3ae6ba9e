// Members' keys: how they are made, and what is kept of them; and ids and digests of what is
// stored; and what webhooks are signed with. libsodium is confined to key.cc.
//
// A key is "lares-" and 32 random bytes. Only its hash is stored: BLAKE2b with 256 bits. The bytes
// are random, so there is nothing to guess and no need for a slow hash. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace lares::store {

// Errors: Unavailable, if the system gives no random numbers.
Result<std::string> new_key();

// Whether `text` has the form of a key. Many clients insist on sending some key; a placeholder such
// as "none" is told from a wrong key by its form.
bool is_key(std::string_view text);

// 64 hexadecimal digits.
std::string hash_key(std::string_view key);

// In a time that does not depend on where they differ.
bool same_hash(std::string_view a, std::string_view b);

// `prefix` and 24 letters and digits that nobody can guess: 18 random bytes. Errors: Unavailable.
Result<std::string> random_id(std::string_view prefix);

// Errors: Unavailable.
Result<std::string> random_bytes(std::size_t count);

// 32 bytes: whoever has the key can tell that the text is from somebody who has it.
std::string hmac_sha256(std::string_view key, std::string_view text);

// What a blob is known by: BLAKE2b with 256 bits of the bytes, as 64 hexadecimal digits.
std::string digest(std::string_view bytes);

}  // namespace lares::store
