#pragma once
// TracePlot: throughput and goodput over load, a line for each policy, as an SVG file.
//
// Thread rule: one thread.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace coxswain::bench {

class TracePlot {
 public:
  struct Point {
    double load = 0;
    double tokens_per_s = 0;
    double goodput = 0;
  };

  explicit TracePlot(std::string title) : title_(std::move(title)) {}
  void add_line(std::string name) { lines_.push_back({std::move(name), {}}); }
  void add_point(std::size_t line, const Point& point) { lines_[line].points.push_back(point); }
  // False, and a line on stderr, if the file cannot be written.
  bool write(const std::string& path) const;

 private:
  struct Line {
    std::string name;
    std::vector<Point> points;
  };
  std::string panel(double left, const char* label, double Point::*value) const;

  std::string title_;
  std::vector<Line> lines_;
};

}  // namespace coxswain::bench
