#include "simulate/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace meadow::simulate {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 72, kRight = 20, kTop = 44, kBottom = 84;
// Told apart also by people who do not see all colours (Okabe and Ito, 2008).
constexpr std::array<const char*, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#e69f00", "#56b4e9"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// One axis: from values to the picture's coordinates, and where its ticks are.
struct Axis {
  bool log = false;
  double low = 0, high = 1;  // of values
  double from = 0, to = 1;   // of the picture
  std::vector<double> ticks;

  double scaled(double v) const { return log ? std::log10(v) : v; }
  double at(double v) const {
    const double l = scaled(low), h = scaled(high);
    return from + (to - from) * (scaled(v) - l) / (h - l);
  }
};

Axis axis(double low, double high, bool log, bool from_zero) {
  Axis axis;
  axis.log = log;
  if (!(low <= high)) low = log ? 1 : 0, high = 1;
  if (log) {
    low = std::max(low, 1e-12);
    axis.low = std::pow(10, std::floor(std::log10(low) + 1e-9));
    axis.high = std::pow(10, std::ceil(std::log10(std::max(high, low)) - 1e-9));
    if (axis.high <= axis.low) axis.high = axis.low * 10;
    for (double t = axis.low; t <= axis.high * 1.001; t *= 10) axis.ticks.push_back(t);
    return axis;
  }
  if (from_zero) low = std::min(low, 0.0);
  if (high <= low) high = low + 1;
  const double rough = (high - low) / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0})
    if (step < rough) step = factor * power;
  axis.low = std::floor(low / step + 1e-9) * step;
  axis.high = std::ceil(high / step - 1e-9) * step;
  const int ticks = static_cast<int>(std::lround((axis.high - axis.low) / step));
  for (int i = 0; i <= ticks; i++) axis.ticks.push_back(axis.low + i * step);
  return axis;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

bool shown(const Plot& plot, double x, double y) {
  return std::isfinite(x) && std::isfinite(y) && (!plot.log_x || x > 0) && (!plot.log_y || y > 0);
}

std::string frame(const Plot& plot, const Axis& x, const Axis& y) {
  std::string out;
  for (const double t : y.ticks)
    out += fmt::format(
        "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>"
        "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:.6g}</text>\n",
        kLeft, kWidth - kRight, y.at(t), y.at(t), kLeft - 6, y.at(t) + 4, t);
  for (const double t : x.ticks)
    out += fmt::format(
        "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#888'/>"
        "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:.6g}</text>\n",
        x.at(t), x.at(t), kHeight - kBottom, kHeight - kBottom + 5, x.at(t), kHeight - kBottom + 18,
        t);
  out += fmt::format(
      "<rect x='{}' y='{}' width='{}' height='{}' fill='none' stroke='#888'/>\n"
      "<text x='{}' y='24' text-anchor='middle' font-size='15'>{}</text>\n"
      "<text x='{}' y='{}' text-anchor='middle'>{}</text>\n"
      "<text transform='translate(16,{}) rotate(-90)' text-anchor='middle'>{}</text>\n",
      kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom, kWidth / 2,
      escaped(plot.title), kWidth / 2, kHeight - kBottom + 36, escaped(plot.x_label),
      (kTop + kHeight - kBottom) / 2, escaped(plot.y_label));
  return out;
}

std::string drawn(const Plot& plot, size_t index, const Axis& x, const Axis& y) {
  const Series& s = plot.series[index];
  const char* colour = kColours[index % kColours.size()];
  std::string points, out;
  for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); i++) {
    if (!shown(plot, s.x[i], s.y[i])) continue;
    const double px = x.at(s.x[i]), py = y.at(s.y[i]);
    switch (plot.kind) {
      case Plot::Kind::kLines:
        points += fmt::format("{:.1f},{:.1f} ", px, py);
        break;
      case Plot::Kind::kPoints:
        out += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2' fill='{}'/>\n", px, py, colour);
        break;
      case Plot::Kind::kBars: {
        const double cell = (kWidth - kLeft - kRight) / static_cast<double>(s.x.size() + 1);
        const double width = 0.8 * cell / static_cast<double>(plot.series.size());
        const double left = px - 0.4 * cell + width * static_cast<double>(index);
        out +=
            fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='{}'/>\n",
                        left, py, width, y.at(y.low) - py, colour);
        break;
      }
    }
  }
  if (!points.empty())
    out += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='1.6'/>\n",
                       points, colour);
  return out;
}

}  // namespace

std::string svg(const Plot& plot) {
  Range xs, ys;
  size_t longest = 0;
  for (const Series& s : plot.series) {
    longest = std::max(longest, s.x.size());
    for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); i++) {
      if (!shown(plot, s.x[i], s.y[i])) continue;
      xs.add(s.x[i]);
      ys.add(s.y[i]);
    }
  }
  if (plot.kind == Plot::Kind::kBars && longest > 1) {  // room for half a bar at both ends
    const double half = (xs.high - xs.low) / static_cast<double>(longest - 1) / 2;
    xs.add(xs.low - half);
    xs.add(xs.high + half);
  }
  Axis x = axis(xs.low, xs.high, plot.log_x, false);
  Axis y = axis(ys.low, ys.high, plot.log_y, true);
  if (!plot.log_x && xs.low < xs.high) x.low = xs.low, x.high = xs.high;
  std::erase_if(x.ticks, [&](double t) { return t < x.low - 1e-9 || t > x.high + 1e-9; });
  x.from = kLeft, x.to = kWidth - kRight;
  y.from = kHeight - kBottom, y.to = kTop;

  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='{}' viewBox='0 0 {} {}' "
      "font-family='sans-serif' font-size='12' fill='#222'>\n"
      "<rect width='100%' height='100%' fill='white'/>\n",
      kWidth, kHeight, kWidth, kHeight);
  out += frame(plot, x, y);
  double legend = kLeft;
  for (size_t i = 0; i < plot.series.size(); i++) {
    out += drawn(plot, i, x, y);
    out += fmt::format(
        "<rect x='{:.1f}' y='{}' width='12' height='12' fill='{}'/>"
        "<text x='{:.1f}' y='{}'>{}</text>\n",
        legend, kHeight - 24, kColours[i % kColours.size()], legend + 17, kHeight - 14,
        escaped(plot.series[i].name));
    legend += 40 + 6.6 * static_cast<double>(plot.series[i].name.size());
  }
  return out + "</svg>\n";
}

Series thinned(const Series& series, size_t points) {
  if (series.x.size() <= points || points == 0) return series;
  Series out{series.name, {}, {}};
  for (size_t i = 0; i < points; i++) {
    const size_t first = series.x.size() * i / points, last = series.x.size() * (i + 1) / points;
    double x = 0, y = 0;
    for (size_t k = first; k < last; k++) x += series.x[k], y += series.y[k];
    const auto n = static_cast<double>(last - first);
    out.x.push_back(x / n);
    out.y.push_back(y / n);
  }
  return out;
}

}  // namespace meadow::simulate
