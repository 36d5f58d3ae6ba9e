#include "app/chat_session.h"

#include <gtest/gtest.h>

namespace lares::app {
namespace {

TEST(ChatSession, AsksWithAllThatWasSaid) {
  ChatSession session;
  session.add("user", "say \"hi\"\n");
  EXPECT_EQ(session.request_body(),
            R"({"stream":true,"messages":[{"role":"user","content":"say \"hi\"\n"}]})");
  session.model = "m";
  session.system = "Be brief.";
  session.add("assistant", "hi\xff");
  EXPECT_EQ(session.request_body(),
            "{\"stream\":true,\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":"
            "\"Be brief.\"},{\"role\":\"user\",\"content\":\"say \\\"hi\\\"\\n\"},{\"role\":"
            "\"assistant\",\"content\":\"hi\xef\xbf\xbd\"}]}");
}

TEST(ChatSession, ComesBackFromItsText) {
  ChatSession session;
  session.add("user", "a\nb");
  session.add("assistant", "c");
  ChatSession again;
  ASSERT_TRUE(again.read_text(session.to_text() + "\n"));
  ASSERT_EQ(again.lines().size(), 2U);
  EXPECT_EQ(again.lines()[0].content, "a\nb");
  EXPECT_EQ(again.to_text(1), "{\"role\":\"assistant\",\"content\":\"c\"}\n");
  const auto broken = again.read_text("{\"role\":\"user\",\"content\":\"x\"}\n{\"role\":1}\n");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("line 2"), std::string::npos);
}

TEST(ChatCommand, SlashesAndWhatFollows) {
  EXPECT_FALSE(parse_chat_command("hello /help"));
  EXPECT_FALSE(parse_chat_command("//etc"));
  EXPECT_EQ(parse_chat_command("/help")->name, "help");
  const auto save = parse_chat_command("/save  my file ");
  ASSERT_TRUE(save);
  EXPECT_EQ(save->name, "save");
  EXPECT_EQ(save->argument, "my file");
}

TEST(MessageLines, GoOnWhereTheyAreToldTo) {
  MessageLines lines;
  EXPECT_TRUE(lines.add("one"));
  EXPECT_EQ(lines.take(), "one");
  EXPECT_FALSE(lines.add("one\\"));
  EXPECT_TRUE(lines.pending());
  EXPECT_TRUE(lines.add("two"));
  EXPECT_EQ(lines.take(), "one\ntwo");
  EXPECT_FALSE(lines.add("\"\"\""));
  EXPECT_FALSE(lines.add("/not a command"));
  EXPECT_FALSE(lines.add(""));
  EXPECT_FALSE(lines.add("end\\"));
  EXPECT_TRUE(lines.add("\"\"\""));
  EXPECT_EQ(lines.take(), "/not a command\n\nend\\");
  EXPECT_FALSE(lines.add("   "));
  EXPECT_EQ(lines.take(), "   ");
  EXPECT_TRUE(lines.add("//etc"));
  EXPECT_EQ(lines.take(), "/etc");
}

TEST(TerminalSafe, ControlsAreShownNotObeyed) {
  EXPECT_EQ(terminal_safe("a\tb\nc \xc3\xa9 \xe2\x82\xac"), "a\tb\nc \xc3\xa9 \xe2\x82\xac");
  EXPECT_EQ(terminal_safe("\x1b[2J\x07\x7f"), "\xef\xbf\xbd[2J\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(terminal_safe("\xc2\x9b"
                          "2J"),
            "\xef\xbf\xbd"
            "2J");
}

}  // namespace
}  // namespace lares::app
