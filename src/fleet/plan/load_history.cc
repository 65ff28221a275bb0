#include "fleet/plan/load_history.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPointsMax = 4096;

// Too short a span for three rates.
constexpr std::size_t kSpanMin = 6;
constexpr double kDeviations = 2.0;

double seconds_between(const LoadPoint& from, const LoadPoint& to) {
  return std::chrono::duration<double>(to.at - from.at).count();
}

double rate(const LoadPoint& from, const LoadPoint& to) {
  const double seconds = seconds_between(from, to);
  return seconds > 0.0 ? static_cast<double>(to.arrived_tokens - from.arrived_tokens) / seconds
                       : 0.0;
}

// Of that rate, where prompts arrive at random (a compound Poisson process).
double variance(const LoadPoint& from, const LoadPoint& to) {
  const double seconds = seconds_between(from, to);
  return seconds > 0.0 ? (to.arrived_squares - from.arrived_squares) / (seconds * seconds) : 0.0;
}

milliseconds percentile(std::vector<Clock::duration>& of) {
  if (of.empty()) return milliseconds(0);
  const auto at = of.begin() + static_cast<std::ptrdiff_t>((of.size() - 1) * 95 / 100);
  std::nth_element(of.begin(), at, of.end());
  return std::chrono::duration_cast<milliseconds>(*at);
}

}  // namespace

void LoadHistory::add(const LoadPoint& point) {
  points_.push_back(point);
  while (points_.size() > kPointsMax || (points_.size() > 2 && points_[1].at + window_ <= point.at))
    points_.pop_front();
}

std::size_t LoadHistory::span() const {
  std::size_t first = 0;
  while (points_.size() - first > kSpanMin) {
    const std::size_t n = points_.size() - first;
    const LoadPoint& begin = points_[first];
    const LoadPoint& one = points_[first + n / 3];
    const LoadPoint& two = points_[first + 2 * n / 3];
    const double bend = rate(begin, one) - 2.0 * rate(one, two) + rate(two, points_.back());
    const double by_chance =
        std::sqrt(variance(begin, one) + 4.0 * variance(one, two) + variance(two, points_.back()));
    if (std::abs(bend) <= kDeviations * by_chance) break;
    first += n / 2;
  }
  return first;
}

LoadTrend LoadHistory::trend() const {
  if (points_.size() < 2) return {};
  if (points_.size() == 2) return {.tokens_per_s = rate(points_.front(), points_.back())};
  const std::size_t first = span();
  const LoadPoint& middle = points_[first + (points_.size() - first) / 2];
  const double late = rate(middle, points_.back());
  const double half = seconds_between(points_[first], points_.back()) / 2.0;
  if (first > 0 || half <= 0.0) return {.tokens_per_s = late};
  const double slope = (late - rate(points_.front(), middle)) / half;
  const double ahead = seconds_between(middle, points_.back()) / 2.0;
  return {.tokens_per_s = std::max(0.0, late + slope * ahead), .slope = slope};
}

double LoadHistory::peak_tokens_per_s() const {
  double peak = 0.0;
  for (std::size_t i = 1; i < points_.size(); ++i)
    peak = std::max(peak, rate(points_[i - 1], points_[i]));
  return peak;
}

std::uint64_t LoadHistory::peak_blocks() const {
  std::uint64_t peak = 0;
  for (const LoadPoint& point : points_) peak = std::max(peak, point.used_blocks);
  return peak;
}

void LatencyWindow::note(TimePoint ended,
                         Clock::duration to_first,
                         Clock::duration since_first,
                         std::uint64_t n_tokens) {
  if (samples_.size() == kSamplesMax) samples_.pop_front();
  const auto gaps = static_cast<Clock::rep>(n_tokens) - 1;
  samples_.push_back(
      {.at = ended, .ttft = to_first, .itl = gaps > 0 ? since_first / gaps : Clock::duration(0)});
}

Latencies LatencyWindow::within(TimePoint now, milliseconds window) const {
  std::vector<Clock::duration> ttft;
  std::vector<Clock::duration> itl;
  for (const Sample& sample : samples_) {
    if (sample.at + window <= now) continue;
    ttft.push_back(sample.ttft);
    if (sample.itl.count() > 0) itl.push_back(sample.itl);
  }
  return {.ttft = percentile(ttft), .itl = percentile(itl)};
}

}  // namespace coxswain::fleet
