// Plots as SVG: panels under each other, lines that share their panel's time.
//
// Pure. Text is escaped; the same numbers make the same bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lares::sim {

struct PlotLine {
  std::string name;
  std::vector<double> values;  // At times evenly from 0 to the panel's length, both included.
};

struct PlotPanel {
  std::string title{};
  double seconds = 0;
  std::vector<PlotLine> lines{};
};

// Points of a line that make it smooth at the width of a plot.
constexpr std::size_t kPlotPoints = 120;

std::string plot_svg(std::string_view title, std::span<const PlotPanel> panels);

}  // namespace lares::sim
