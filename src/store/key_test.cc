#include "store/key.h"

#include <set>

#include <gtest/gtest.h>

namespace lares::store {
namespace {

TEST(Key, HasAFormAndIsNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto key = new_key();
    ASSERT_TRUE(key);
    EXPECT_TRUE(is_key(*key)) << *key;
    EXPECT_EQ(key->size(), 49U);
    EXPECT_TRUE(seen.insert(*key).second);
  }
}

TEST(Key, APlaceholderIsNoKey) {
  const std::string key = *new_key();
  for (const std::string& text :
       {std::string(), std::string("none"), std::string("sk-123"), std::string("lares-"), key + "x",
        key.substr(0, key.size() - 1), key.substr(0, key.size() - 1) + "+", "x" + key.substr(1)}) {
    EXPECT_FALSE(is_key(text)) << text;
  }
}

TEST(Key, HashesTellKeysApart) {
  const std::string a = *new_key();
  const std::string b = *new_key();
  EXPECT_EQ(hash_key(a).size(), 64U);
  EXPECT_EQ(hash_key(a), hash_key(a));
  EXPECT_TRUE(same_hash(hash_key(a), hash_key(a)));
  EXPECT_FALSE(same_hash(hash_key(a), hash_key(b)));
  EXPECT_FALSE(same_hash(hash_key(a), ""));
  EXPECT_TRUE(same_hash("", ""));
  EXPECT_EQ(hash_key(a).find(a.substr(6)), std::string::npos);
}

// What is stored must mean the same in every release.
TEST(Key, TheHashIsThatOfEveryRelease) {
  EXPECT_EQ(hash_key("lares-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            "fa05ebe60d4dc78153535d5c15fcbf4e3e68fb4403449023f00e82e65bf0e947");
}

// RFC 4231, test cases 1 and 6.
TEST(Key, SignsAsTheStandardSays) {
  const auto hex = [](const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += kDigits[static_cast<unsigned char>(c) >> 4U];
      out += kDigits[static_cast<unsigned char>(c) & 15U];
    }
    return out;
  };
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(random_bytes(32)->size(), 32U);
  EXPECT_NE(*random_bytes(32), *random_bytes(32));
}

}  // namespace
}  // namespace lares::store
