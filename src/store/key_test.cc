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

}  // namespace
}  // namespace lares::store
