// A small plot as SVG text: lines or bars over axes with round ticks, a title and a legend.
// Thread rule: values.
#pragma once
#include <string>
#include <vector>

namespace meadow::simulate {

struct Series {
  std::string name;
  std::vector<double> x, y;  // of equal length; values that are not finite are left out
};

struct Plot {
  enum class Kind { kLines, kPoints, kBars };

  std::string title, x_label, y_label;
  Kind kind = Kind::kLines;
  bool log_x = false;  // x > 0
  bool log_y = false;  // y > 0; else the y axis begins at zero
  std::vector<Series> series;
};

// The picture, 760 x 420, without outside resources. The same plot gives the same bytes.
std::string svg(const Plot& plot);

// A series of at most `points` means over equal stretches of it.
Series thinned(const Series& series, size_t points);

}  // namespace meadow::simulate
