#include "trace_plot.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

namespace coxswain::bench {
namespace {

constexpr double kWidth = 300;  // of a panel's axes
constexpr double kHeight = 200;
constexpr double kTop = 50;
constexpr std::array kColours{"#1b6ac9", "#d1495b", "#2a9d5c", "#8a8a8a"};

template <typename... Values>
std::string format(const char* text, Values... values) {
  std::array<char, 512> out{};
  std::snprintf(out.data(), out.size(), text, values...);
  return out.data();
}

std::string text(double x, double y, const std::string& what, const char* extra = "") {
  return format("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, extra, what.c_str());
}

}  // namespace

std::string TracePlot::panel(double left, const char* label, double Point::*value) const {
  double load_max = 0;
  double most = 0;
  for (const Line& line : lines_) {
    for (const Point& p : line.points) {
      load_max = std::max(load_max, p.load);
      most = std::max(most, p.*value);
    }
  }
  if (load_max <= 0 || most <= 0) return {};
  const auto x = [&](double load) { return left + kWidth * load / load_max; };
  const auto y = [&](double v) { return kTop + kHeight * (1 - v / (1.1 * most)); };
  std::string out = text(left, kTop - 10, label);
  out += format("<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#000\"/>\n",
                left,
                kTop,
                kTop + kHeight,
                left + kWidth);
  for (int i = 0; i <= 4; ++i) {
    const double v = most * i / 4;
    const double load = load_max * i / 4;
    out += text(left - 6, y(v) + 4, format(most < 20 ? "%.2f" : "%.0f", v), "text-anchor=\"end\"");
    out += text(x(load), kTop + kHeight + 16, format("%.1f", load), "text-anchor=\"middle\"");
  }
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    out += format("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colour);
    for (const Point& p : lines_[i].points) out += format("%.1f,%.1f ", x(p.load), y(p.*value));
    out += "\"/>\n";
    for (const Point& p : lines_[i].points)
      out += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    x(p.load),
                    y(p.*value),
                    colour);
  }
  return out;
}

bool TracePlot::write(const std::string& path) const {
  std::ofstream out(path);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 330\" "
         "font-family=\"sans-serif\" "
         "font-size=\"12\">\n<rect width=\"800\" height=\"330\" fill=\"#fff\"/>\n";
  out << text(60, 20, title_) << panel(60, "tokens/s", &Point::tokens_per_s)
      << panel(460, "requests/s within 2 s and 100 ms", &Point::goodput)
      << text(400,
              kTop + kHeight + 32,
              "load, in multiples of saturation",
              "text-anchor=\"middle\"");
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const double left = 60 + 180 * static_cast<double>(i);
    out << format("<rect x=\"%.1f\" y=\"300\" width=\"14\" height=\"4\" fill=\"%s\"/>\n",
                  left,
                  kColours[i % kColours.size()])
        << text(left + 20, 306, lines_[i].name);
  }
  out << "</svg>\n";
  if (!out.flush()) std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
  return out.good();
}

}  // namespace coxswain::bench
