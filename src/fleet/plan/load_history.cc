#include "fleet/plan/load_history.h"

#include <algorithm>
#include <vector>

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPointsMax = 4096;

double rate(const LoadPoint& from, const LoadPoint& to) {
  const double seconds = std::chrono::duration<double>(to.at - from.at).count();
  return seconds > 0.0 ? static_cast<double>(to.arrived_tokens - from.arrived_tokens) / seconds
                       : 0.0;
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

double LoadHistory::tokens_per_s() const {
  if (points_.size() < 2) return 0.0;
  if (points_.size() == 2) return rate(points_.front(), points_.back());
  const LoadPoint& middle = points_[points_.size() / 2];
  const double seconds = std::chrono::duration<double>(points_.back().at - middle.at).count();
  return std::max(0.0, rate(middle, points_.back()) + slope() * seconds / 2.0);
}

double LoadHistory::slope() const {
  if (points_.size() < 3) return 0.0;
  const LoadPoint& middle = points_[points_.size() / 2];
  const double seconds =
      std::chrono::duration<double>(points_.back().at - points_.front().at).count() / 2.0;
  return seconds > 0.0 ? (rate(middle, points_.back()) - rate(points_.front(), middle)) / seconds
                       : 0.0;
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
