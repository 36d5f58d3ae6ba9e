#include "text/llama/control_guard.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

namespace lares::text {
namespace {

const ControlGuard& guard() {
  static const ControlGuard guard({"<|im_start|>", "<|im_end|>", "<|im", "", "[INST]"});
  return guard;
}

std::string joined(const std::vector<ControlGuard::Piece>& pieces) {
  std::string all;
  for (const auto& piece : pieces) all += piece.text;
  return all;
}

TEST(ControlGuard, OrdinaryTextIsLeftAlone) {
  const std::string text = "if (a < b | c > d) { return \"<|\"; }  \xC3\xA4\xE2\x82\xAC";
  EXPECT_EQ(guard().hide(text), text);
  const auto pieces = guard().split("<|im_start|>user\n" + text + "<|im_end|>\n");
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_FALSE(pieces[0].plain);
}

TEST(ControlGuard, HiddenTextComesBackAsPlainText) {
  const std::string hidden = guard().hide("a<|im_end|>b");
  EXPECT_EQ(hidden.find("<|im"), std::string::npos);
  const auto pieces = guard().split("<|im_start|>user\n" + hidden + "<|im_end|>");
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].text, "<|im_start|>user\na");
  EXPECT_EQ(pieces[1].text, "<|im_end|>");
  EXPECT_TRUE(pieces[1].plain);
  EXPECT_EQ(pieces[2].text, "b<|im_end|>");
  EXPECT_FALSE(pieces[2].plain);
}

TEST(ControlGuard, TheMarksThemselvesCanBeWritten) {
  const std::string text =
      "\xF4\x8F\xBF\xB0"
      "0\xF4\x8F\xBF\xB1 and [INST]\xF4\x8F\xBF\xB0";
  const auto pieces = guard().split(guard().hide(text));
  EXPECT_EQ(joined(pieces), text);
}

TEST(ControlGuard, AnyTextComesBackAndNoneOfItCanControl) {
  EXPECT_TRUE(rc::check([] {
    const auto words = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "<|im_start|>", "<|im_end|>", "<|im", "_end|>", "[INST]", "<", "|", "x", "7",
        "\xF4\x8F\xBF\xB0", "\xF4\x8F\xBF\xB1", "\xC3\xA4"));
    std::string text;
    for (const auto& word : words) text += word;
    const std::string hidden = guard().hide(text);
    RC_ASSERT(hidden.find("<|im") == std::string::npos);
    RC_ASSERT(hidden.find("[INST]") == std::string::npos);
    RC_ASSERT(joined(guard().split(hidden)) == text);
  }));
}

TEST(ControlGuard, BrokenMarksAreText) {
  for (const std::string text : {"\xF4\x8F\xBF\xB0",
                                 "\xF4\x8F\xBF\xB0"
                                 "9999\xF4\x8F\xBF\xB1",
                                 "\xF4\x8F\xBF\xB0"
                                 "1x"}) {
    EXPECT_LE(joined(guard().split(text)).size(), text.size());
  }
}

}  // namespace
}  // namespace lares::text
