#include "app/table.h"

#include <algorithm>

#include "core/assert.h"
#include "core/text.h"

namespace lares::app {

std::string aligned_table(const std::vector<std::vector<std::string>>& rows,
                          std::string_view sides) {
  std::vector<std::size_t> widths(sides.size());
  for (const auto& row : rows) {
    LARES_ASSERT(row.size() == sides.size(), "{} cells in {} columns", row.size(), sides.size());
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], columns_of(row[c]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - columns_of(row[c]), ' ');
      line += (sides[c] == 'r' ? blanks + row[c] : row[c] + blanks) + "  ";
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace lares::app
