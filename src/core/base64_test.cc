#include "core/base64.h"

#include <gtest/gtest.h>

namespace lares {
namespace {

TEST(Base64, BothWays) {
  for (const std::string& text : {std::string(), std::string("a"), std::string("ab"),
                                  std::string("abc"), std::string("\0\xff\x80x", 4)}) {
    EXPECT_EQ(read_base64(base64_of(text)), text);
  }
  EXPECT_EQ(read_base64("data:image/png;base64,YWI="), "ab");
  EXPECT_EQ(read_base64("a*b"), std::nullopt);
}

}  // namespace
}  // namespace lares
