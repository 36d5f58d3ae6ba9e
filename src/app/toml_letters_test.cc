#include "app/toml_letters.h"

#include <gtest/gtest.h>

namespace lares::app {
namespace {

TEST(TomlLetters, InStringsAndCommentsTheyMayBe) {
  for (const char* toml : {"", "a = 1", "a = \"\xC3\xA9\" # \xC3\xA9\nb = '\xC3\xA9'",
                           "a = \"\"\"\n\xC3\xA9\"\"\"", "a = '''\n\xC3\xA9'''",
                           "\xEF\xBB\xBF"
                           "a = 1",
                           "a = \"\\\"\xC3\xA9\"", "\"\xC3\xA9\" = 1"}) {
    EXPECT_EQ(stray_letter(toml), std::nullopt) << toml;
  }
}

TEST(TomlLetters, ElsewhereTheFirstIsNamed) {
  EXPECT_EQ(stray_letter("\xC3\xA9 = 1"), 0U);
  EXPECT_EQ(stray_letter("a = 1\n\xC2\xA0"
                         "b = 2"),
            6U);  // A blank that does not break.
  EXPECT_EQ(stray_letter("a = 'x' \xC3\xA9"), 8U);
  EXPECT_EQ(stray_letter("a = \"x\n\xC3\xA9"), 7U);  // A string that does not end.
  EXPECT_EQ(stray_letter("# \xC3\xA9\n\xFF"), 5U);
}

}  // namespace
}  // namespace lares::app
