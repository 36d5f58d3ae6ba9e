#include "engine/llm/cells.h"

#include <gtest/gtest.h>

namespace lares::llm {
namespace {

void take(Cells& cells, std::uint32_t seq, std::uint32_t n) {
  cells.begin(n);
  for (std::uint32_t i = 0; i < n; ++i) cells.take(SeqId{seq});
}

TEST(Cells, FreedCellsAreFilledFirst) {
  Cells cells(100, 4);
  take(cells, 0, 30);
  take(cells, 1, 20);
  EXPECT_EQ(cells.span(), 50U);
  cells.drop(SeqId{0});
  EXPECT_EQ(cells.used(), 20U);
  EXPECT_EQ(cells.span(), 50U);  // The upper ones are in use.
  take(cells, 2, 25);
  EXPECT_EQ(cells.span(), 50U);
  take(cells, 2, 10);  // 5 in the gap, 5 above.
  EXPECT_EQ(cells.span(), 55U);
  cells.drop(SeqId{2});
  EXPECT_EQ(cells.span(), 50U);
  cells.drop(SeqId{1});
  EXPECT_EQ(cells.span(), 0U);
  EXPECT_EQ(cells.used(), 0U);
}

TEST(Cells, SharedCellsCountOnceAndOutliveTheirFirstOwner) {
  Cells cells(100, 4);
  take(cells, 0, 30);
  cells.share(SeqId{0}, SeqId{1}, 20);
  EXPECT_EQ(cells.used(), 30U);
  cells.drop(SeqId{0});
  EXPECT_EQ(cells.used(), 20U);
  EXPECT_EQ(cells.span(), 20U);
  cells.drop(SeqId{1});
  EXPECT_EQ(cells.used(), 0U);
}

TEST(Cells, AFullPoolIsNoBug) {
  Cells cells(10, 1);
  take(cells, 0, 15);
  EXPECT_EQ(cells.used(), 10U);
  EXPECT_EQ(cells.span(), 10U);
}

}  // namespace
}  // namespace lares::llm
