#include "sketch/parser.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "sketch/json_form.h"
#include "sketch/lexer.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

std::string problems_of(std::string_view text, const Limits& limits = {}) {
  std::string out;
  for (const Problem& problem : parse(text, limits).problems) out += to_text(problem) + '\n';
  return out;
}

// Printed, the text is this; and printed again it stays.
void expect_prints(std::string_view text, std::string_view printed) {
  SCOPED_TRACE(text);
  const Parsed first = parse(text);
  ASSERT_EQ(problems_of(text), "");
  EXPECT_EQ(print(first.sketch), printed);
  const Parsed second = parse(printed);
  EXPECT_EQ(second.sketch, first.sketch);
  EXPECT_EQ(print(second.sketch), printed);
  const Parsed third = read_json(to_json(first.sketch));
  EXPECT_TRUE(third.problems.empty()) << to_text(third.problems.front());
  EXPECT_EQ(third.sketch, first.sketch) << to_json(first.sketch);
}

TEST(Lexer, PlacesCountCodePoints) {
  const Lexed lexed = lex("größe = \"für 😀\" | encode", {});
  ASSERT_EQ(lexed.tokens.size(), 7U);
  EXPECT_EQ(lexed.tokens[2].text, "für 😀");
  EXPECT_EQ(lexed.tokens[3].place.column, 17U);
  EXPECT_EQ(lexed.tokens[4].place.column, 19U);
}

TEST(Lexer, BracketsAndBarsContinueALine) {
  const Lexed lexed = lex("a = sample (\n  c\n)\n\n  # why\n  | resize 2x\nb = c\n", {});
  int lines = 0;
  for (const Token& token : lexed.tokens) lines += token.kind == Token::Kind::LineEnd ? 1 : 0;
  EXPECT_EQ(lines, 3) << "the comment moves before the line";
  EXPECT_EQ(lexed.tokens.front().kind, Token::Kind::Comment);
}

TEST(Printer, OneWayToWriteEachThing) {
  expect_prints("c   =   \"a\"|encode   no \"b\"", "c = \"a\" | encode no \"b\"\n");
  expect_prints("out (sample c 2) webp q 90", "sample c 2 | out webp q 90\n");
  expect_prints("out ((c)) png", "out c png\n");
  expect_prints("x = ((a | resize 2x) | resize 2x)", "x = a | resize 2x | resize 2x\n");
  expect_prints("sketch 1\nout c png", "out c png\n");
  expect_prints("x = c | sample 20 cfg 7.50 from 0.550", "x = c | sample 20 cfg 7.5 from 0.55\n");
  expect_prints("use \"sd-turbo\" at 512x512 f16", "use sd-turbo at 512x512 f16\n");
  expect_prints("use \"llama-3.2 1b\"", "use \"llama-3.2 1b\"\n");
  expect_prints("use \"f16\"\nuse \"at\"", "use \"f16\"\nuse \"at\"\n");
  expect_prints("in notes:[Text]", "in notes : [Text]\n");
  expect_prints("in n : Text = [\"a\" \"b\"]", "in n : Text = [\"a\" \"b\"]\n");
  expect_prints("x : Latent sd 64x64 f16 at 8/20 = lat:3f9c",
                "x : Latent sd 64x64 f16 at 8/20 = lat:3f9c\n");
  expect_prints("x : Cond clip 77x768 f16 = a", "x : Cond clip 77x768 f16 = a\n");
  expect_prints("x : [Embedding starter-embed 384] = a", "x : [Embedding starter-embed 384] = a\n");
  expect_prints("x : Latent \"f16\" f16 clean = a", "x : Latent \"f16\" f16 clean = a\n");
  expect_prints("want draft under 10s", "want draft under 10s\n");
  expect_prints("keep small 7d", "keep small 7d\n");
  expect_prints("out \"a \\\"b\\\" \\\\ \\n {{ {idea}\" txt",
                "out \"a \\\"b\\\" \\\\ \\n {{ {idea}\" txt\n");
  expect_prints("x = \"a\" | encode model \"sd 1.5\"", "x = \"a\" | encode model \"sd 1.5\"\n");
  expect_prints("\xef\xbb\xbfout c png\r\n", "out c png\n");
}

TEST(Printer, KeepsCommentsAndGaps) {
  expect_prints("# one\n\n\n#two  \nout c png   # three\n\n\nout d png\n",
                "# one\n\n#two\nout c png  # three\n\nout d png\n");
  expect_prints("c = a # first\n  # second\n  | resize 2x # third",
                "# first\n# second\nc = a | resize 2x  # third\n");
  expect_prints("a = b\n\nc = (d # in\n| resize 2x)", "a = b\n\n# in\nc = d | resize 2x\n");
  expect_prints("\n\n# only\n\n", "# only\n");
  expect_prints("", "");
}

TEST(Printer, BreaksALongFlowBeforeItsBars) {
  const std::string words(80, 'w');
  expect_prints("c = \"" + words + "\" | encode no \"blurry\" | sample 20",
                "c = \"" + words + "\"\n  | encode no \"blurry\"\n  | sample 20\n");
}

TEST(Parser, EveryExampleIsStable) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LARES_SOURCE_DIR "/examples/sketches")) {
    SCOPED_TRACE(entry.path());
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    ASSERT_EQ(problems_of(text), "");
    expect_prints(text, print(parse(text).sketch));
    ++files;
  }
  EXPECT_GE(files, 9);
}

TEST(Parser, GoesOnWithTheNextLine) {
  EXPECT_EQ(problems_of("x = smaple\ny = c | resice 2x\nout y pgn\nout y png"),
            "L1 line 2, column 9: there is no stage `resice`. Did you mean `resize`?\n"
            "L1 line 3, column 7: expected a medium, `png`, `webp`, `jpeg`, `txt`, `json`, `npy`, "
            "`wav` or `opus`, not `pgn`. Did you mean `png`?\n");
}

// Nothing a sketch says may crash: what is too much is refused with its place.
TEST(Parser, TooLargeIsRefused) {
  EXPECT_EQ(problems_of(std::string(1000000, '(')),
            "L2 line 1, column 1: the sketch has 1000000 bytes; at most 65536\n");
  Limits large;
  large.bytes = 1U << 24U;
  EXPECT_EQ(problems_of(std::string(1000000, '('), large),
            "L2 line 1, column 33: more than 32 brackets within each other\n");
  EXPECT_EQ(problems_of("x = " + std::string(1000000, '['), large),
            "L1 line 1, column 6: there are no lists of lists\n");
  std::string many = "x = a";
  for (int i = 0; i < 10000; ++i) many += " | resize 2x";
  EXPECT_EQ(problems_of(many, large),
            "L2 line 1, column 24573: more than 4096 lines, stages and values; split the sketch\n");
  std::string lines;
  for (int i = 0; i < 10000; ++i) lines += "out a png\n";
  EXPECT_EQ(problems_of(lines, large),
            "L2 line 2049, column 1: more than 4096 lines, stages and values; split the sketch\n");
  std::string bad;
  for (int i = 0; i < 10000; ++i) bad += "$\n";
  EXPECT_EQ(parse(bad, large).problems.size(), 20U);
  EXPECT_EQ(problems_of("x = a " + std::string(60000, '\n') + "| resize 2x"), "");
  std::string comments = "x = (a\n";
  for (int i = 0; i < 20000; ++i) comments += "#\n";
  EXPECT_EQ(problems_of(comments + ")"),
            "L2 line 4098, column 1: more than 4096 lines, stages and values; split the sketch\n");
}

TEST(Json, ProblemsNameTheirPlace) {
  const auto first = [](std::string_view text) {
    const Parsed parsed = read_json(text);
    return parsed.problems.empty() ? std::string() : to_text(parsed.problems.front());
  };
  EXPECT_EQ(first(""), "L1 line 1, column 1: the JSON ends too early");
  EXPECT_EQ(first("{\"sketch\":2,\"lines\":[]}"),
            "L1 line 1, column 11: expected `\"sketch\":1`: there is no other version");
  EXPECT_EQ(first("{\"sketch\":1,\n\"lines\":[{\"outt\":[]}]}"),
            "L1 line 2, column 10: expected a line: an object with `use`, `in`, `bind`, `out`, "
            "`keep`, `want` or `comment`");
  EXPECT_EQ(first("{\"sketch\":1,\"lines\":[{\"keep\":\"a b\",\"for\":\"7d\"}]}"),
            "L1 line 1, column 22: expected how long to keep it, as in 7d, not `b`\n   It reads: "
            "keep a b 7d");
  EXPECT_EQ(first("{\"sketch\":1,\"lines\":[{\"keep\":\"a\",\"for\":\"7\"}]}"),
            "L1 line 1, column 22: expected how long to keep it, as in 7d, not `7`\n   It reads: "
            "keep a 7");
  EXPECT_EQ(first("{\"sketch\":1,\"lines\":[{\"comment\":\"a\\nb\"}]}"),
            "L1 line 1, column 22: this line's value goes nowhere; end it with `| out png`, or "
            "bind it with `name = ...`\n   It reads: #a\n   b");
  // A bare name that is a key would be read as one.
  EXPECT_EQ(
      first("{\"sketch\":1,\"lines\":[{\"bind\":\"x\",\"flow\":[{\"stage\":\"sample\",\"args\":"
            "[{\"name\":\"c\"},{\"name\":\"seed\"},1]}]}]}"),
      "L1 line 1, column 22: this line cannot be said in a sketch's text");
  EXPECT_EQ(first(std::string(100000, '[')), "L2 line 1, column 169: JSON nested deeper than 168");
  EXPECT_EQ(first(std::string(1000000, '[')),
            "L2 line 1, column 1: the sketch's JSON has 1000000 bytes; at most 524288");
  EXPECT_EQ(first("{\"sketch\":1,\"lines\":[{\"out\":[{\"name\":\"a\"}],\"medium\":\"png\"}]}"),
            "");
}

}  // namespace
}  // namespace lares::sketch
