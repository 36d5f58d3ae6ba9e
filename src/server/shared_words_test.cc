#include "server/shared_words.h"

#include <gtest/gtest.h>

#include "text/byte_text.h"

namespace lares::server {
namespace {

// Tokens of two letters each, so that words may end within one.
class SharedWords : public ::testing::Test {
 protected:
  SharedWords() {
    text::Vocabulary vocabulary;
    vocabulary.offsets.push_back(0);
    for (int i = 0; i < 26 * 26; ++i) {
      vocabulary.bytes += static_cast<char>('a' + i / 26);
      vocabulary.bytes += static_cast<char>('a' + i % 26);
      vocabulary.offsets.push_back(static_cast<std::uint32_t>(vocabulary.bytes.size()));
      vocabulary.flags.push_back(0);
    }
    pieces = *PieceTable::create(std::move(vocabulary));
  }
  static std::vector<std::int32_t> tokens(std::string_view text) {
    std::vector<std::int32_t> out;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
      out.push_back((text[i] - 'a') * 26 + (text[i + 1] - 'a'));
    return out;
  }
  std::size_t shared(std::vector<std::string> prompts, std::string_view text) const {
    return shared_tokens(prompts, pieces, tokens(text));
  }

  PieceTable pieces;
};

TEST_F(SharedWords, AreThoseOfThePromptAndOfTheTemplateBeforeIt) {
  EXPECT_EQ(shared({"household"}, "householdsaysxx"), 4U);  // "ds" is not all of it.
  EXPECT_EQ(shared({"household"}, "xxhouseholdsays"), 5U);
  EXPECT_EQ(shared({"house", "household"}, "householdsaysxx"), 4U);
  EXPECT_EQ(shared({"household"}, "householdx"), 4U);
}

TEST_F(SharedWords, AreNoneWhereThePromptBeginsOtherwise) {
  EXPECT_EQ(shared({}, "householdsays"), 0U);
  EXPECT_EQ(shared({""}, "householdsays"), 0U);
  EXPECT_EQ(shared({"household"}, "somethingelse"), 0U);
  EXPECT_EQ(shared({"household"}, "househol"), 0U);
  EXPECT_EQ(shared({"household"}, std::string(258, 'x') + "household"), 0U);
  EXPECT_EQ(shared({"household"}, std::string(256, 'x') + "householdx"), 132U);
}

}  // namespace
}  // namespace lares::server
