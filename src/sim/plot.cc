#include "sim/plot.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::sim {
namespace {

// Okabe and Ito's colours, which people tell apart however they see colours.
constexpr std::array<std::string_view, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#e69f00", "#56b4e9", "#6b6b6b", "#000000"};
constexpr int kWidth = 720, kPanel = 220, kLeft = 70, kRight = 110, kTop = 40, kHeight = 160;
constexpr std::size_t kNamed = 10;  // Lines that have room for a name beside the plot.

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : utf8_sanitised(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string path_of(const std::vector<double>& values, double most, int bottom) {
  std::string path;
  const double steps = std::max<double>(1, static_cast<double>(values.size()) - 1);
  for (std::size_t p = 0; p < values.size(); ++p) {
    const double x = kLeft + static_cast<double>(p) / steps * (kWidth - kRight - kLeft);
    const double y = bottom - values[p] / most * kHeight;
    path += fmt::format("{}{:.1f} {:.1f}", p == 0 ? "M" : "L", x, y);
  }
  return path;
}

void append_panel(std::string& out, const PlotPanel& panel, int top) {
  double most = 1;
  for (const PlotLine& line : panel.lines) {
    for (const double value : line.values) most = std::max(most, value);
  }
  const int bottom = top + kTop + kHeight;
  out += fmt::format("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>\n", kLeft, top + 24,
                     escaped(panel.title));
  out += fmt::format("<path d=\"M{} {}V{}H{}\" fill=\"none\" stroke=\"#888\"/>\n", kLeft,
                     top + kTop, bottom, kWidth - kRight);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.3g}</text>\n", kLeft - 6,
                     top + kTop + 10, most);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0f} s</text>\n",
                     kWidth - kRight, bottom + 14, panel.seconds);
  for (std::size_t i = 0; i < panel.lines.size(); ++i) {
    const PlotLine& line = panel.lines[i];
    const std::string_view colour = kColours[i % kColours.size()];
    out += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"1.5\"><title>{}</title></path>\n",
        path_of(line.values, most, bottom), colour, escaped(line.name));
    if (i >= kNamed) continue;
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kWidth - kRight + 8,
                       top + kTop + 10 + static_cast<int>(i) * 15, colour, escaped(line.name));
  }
}

}  // namespace

std::string plot_svg(std::string_view title, std::span<const PlotPanel> panels) {
  const int height = 40 + kPanel * static_cast<int>(panels.size());
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
      "font-family=\"sans-serif\" font-size=\"12\"><rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#fff\"/>\n<text x=\"20\" y=\"22\" font-size=\"15\">{2}</text>\n",
      kWidth, height, escaped(title));
  for (std::size_t i = 0; i < panels.size(); ++i)
    append_panel(out, panels[i], 30 + kPanel * static_cast<int>(i));
  return out + "</svg>\n";
}

}  // namespace lares::sim
