#include "store/key.h"

#include <array>

#include <sodium.h>

#include "core/assert.h"

namespace lares::store {
namespace {

constexpr std::string_view kPrefix = "lares-";
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kSecretLetters =
    sodium_base64_ENCODED_LEN(kSecretBytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING) - 1;
// Keyed so that a hash of ours is of use nowhere else.
constexpr std::string_view kPurpose = "lares: key of a member, 1";
static_assert(kPurpose.size() >= crypto_generichash_KEYBYTES_MIN &&
              kPurpose.size() <= crypto_generichash_KEYBYTES_MAX);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

bool start_sodium() {
  static const bool started = sodium_init() >= 0;
  return started;
}

std::string letters_of(const unsigned char* bytes, std::size_t size) {
  std::string letters(sodium_base64_encoded_len(size, sodium_base64_VARIANT_URLSAFE_NO_PADDING),
                      '\0');
  sodium_bin2base64(letters.data(), letters.size(), bytes, size,
                    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  letters.pop_back();  // The end that C wants.
  return letters;
}

using Hash = std::array<unsigned char, 32>;

std::string hex_of(const Hash& hash) {
  std::array<char, 2 * Hash().size() + 1> hex{};
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  return hex.data();
}

}  // namespace

Result<std::string> new_key() {
  if (!start_sodium()) return fail(Code::Unavailable, "the system gives no random numbers");
  std::array<unsigned char, kSecretBytes> secret{};
  randombytes_buf(secret.data(), secret.size());
  std::string key = std::string(kPrefix) + letters_of(secret.data(), secret.size());
  sodium_memzero(secret.data(), secret.size());
  return key;
}

bool is_key(std::string_view text) {
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + kSecretLetters) return false;
  return text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
                                kPrefix.size()) == std::string_view::npos;
}

std::string hash_key(std::string_view key) {
  LARES_ASSERT(start_sodium(), "libsodium started when the key was made");
  Hash hash{};
  crypto_generichash(hash.data(), hash.size(), bytes_of(key), key.size(), bytes_of(kPurpose),
                     kPurpose.size());
  return hex_of(hash);
}

bool same_hash(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> random_id(std::string_view prefix) {
  if (!start_sodium()) return fail(Code::Unavailable, "the system gives no random numbers");
  std::array<unsigned char, 18> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::string id = letters_of(bytes.data(), bytes.size());
  // Letters and digits alone survive being double-clicked, and need no escape anywhere.
  for (char& c : id) {
    if (c == '-') c = 'x';
    if (c == '_') c = 'y';
  }
  return std::string(prefix) + id;
}

Result<std::string> random_bytes(std::size_t count) {
  if (!start_sodium()) return fail(Code::Unavailable, "the system gives no random numbers");
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  LARES_ASSERT(start_sodium(), "libsodium starts");
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(key), key.size());
  crypto_auth_hmacsha256_update(&state, bytes_of(text), text.size());
  std::string out(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

std::string digest(std::string_view bytes) {
  Hash hash{};
  crypto_generichash(hash.data(), hash.size(), bytes_of(bytes), bytes.size(), nullptr, 0);
  return hex_of(hash);
}

}  // namespace lares::store
