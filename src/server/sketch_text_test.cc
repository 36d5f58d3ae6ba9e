#include "server/sketch_text.h"

#include <gtest/gtest.h>

#include "core/text.h"

namespace lares::server {
namespace {

using Texts = std::vector<std::string>;

TEST(SketchText, ChunksEndBetweenWordsAndHoldTheWholeText) {
  EXPECT_EQ(chunks_of("", 4, 0), Texts{""});
  EXPECT_EQ(chunks_of("short", 4, 0), Texts{"short"});
  EXPECT_EQ(chunks_of("one two three four five", 3, 0), (Texts{"one two ", "three four ", "five"}));
  std::string text;
  for (int i = 0; i < 200; ++i) text += "word" + std::to_string(i) + (i % 7 == 0 ? "\n" : " ");
  std::string together;
  for (const std::string& piece : chunks_of(text, 10, 0)) {
    EXPECT_LE(piece.size(), 40U);
    together += piece;
  }
  EXPECT_EQ(together, text);
}

TEST(SketchText, ChunksOverlapAndAlwaysGetFurther) {
  const Texts pieces = chunks_of("one two three four five", 3, 1);
  EXPECT_EQ(pieces, (Texts{"one two ", "two three ", "three four ", "four five"}));
  EXPECT_LE(chunks_of(std::string(1000, 'x'), 1, 0).size(), 250U);
  EXPECT_GT(chunks_of(std::string(100, 'x'), 2, 1).size(), 12U);
  EXPECT_EQ(chunks_of(std::string(1'000'000, 'x'), 1, 0).size(), kChunksMax + 1);
}

TEST(SketchText, CodePointsStayWhole) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xe2\x82\xac";
  for (const std::string& piece : chunks_of(text, 2, 1)) EXPECT_TRUE(is_utf8(piece)) << piece;
}

TEST(SketchText, VectorsAsNumpyReadsThem) {
  const std::string npy = npy_of({1.0F, -2.0F});
  EXPECT_EQ(npy.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ((npy.size() - 8) % 64, 0U);
  EXPECT_NE(npy.find("'shape': (2,)"), std::string::npos);
  EXPECT_EQ(npy[npy.size() - 9], '\n');
  EXPECT_EQ(json_of({1.5F, -2.0F}), "[1.5,-2]");
}

}  // namespace
}  // namespace lares::server
