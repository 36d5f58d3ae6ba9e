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

}  // namespace

Result<std::string> new_key() {
  if (!start_sodium()) return fail(Code::Unavailable, "the system gives no random numbers");
  std::array<unsigned char, kSecretBytes> secret{};
  randombytes_buf(secret.data(), secret.size());
  std::array<char, kSecretLetters + 1> letters{};
  sodium_bin2base64(letters.data(), letters.size(), secret.data(), secret.size(),
                    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  sodium_memzero(secret.data(), secret.size());
  return std::string(kPrefix) + letters.data();
}

bool is_key(std::string_view text) {
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + kSecretLetters) return false;
  return text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
                                kPrefix.size()) == std::string_view::npos;
}

std::string hash_key(std::string_view key) {
  LARES_ASSERT(start_sodium(), "libsodium started when the key was made");
  std::array<unsigned char, 32> hash{};
  crypto_generichash(hash.data(), hash.size(), bytes_of(key), key.size(), bytes_of(kPurpose),
                     kPurpose.size());
  std::array<char, 2 * hash.size() + 1> hex{};
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  return hex.data();
}

bool same_hash(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lares::store
