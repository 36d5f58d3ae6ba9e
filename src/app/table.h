// Tables for a terminal: aligned columns, two blanks between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lares::app {

// `sides` has a letter for each column, `l` or `r`: the side at which its cells line up. Every row
// has that many cells. Widths are columns of the terminal, not bytes; no line ends in blanks.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows,
                          std::string_view sides);

}  // namespace lares::app
