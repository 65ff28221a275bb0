#include "fleet/plan/load_history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPointsMax = 4096;

// A span of fewer has no three rates.
constexpr int kLooksMin = 6;
constexpr double kDeviations = 2.0;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double rate(const LoadPoint& from, const LoadPoint& to) {
  return static_cast<double>(to.arrived_tokens - from.arrived_tokens) / seconds(to.at - from.at);
}

milliseconds percentile(std::vector<Clock::duration>& of) {
  if (of.empty()) return milliseconds(0);
  const auto at = of.begin() + static_cast<std::ptrdiff_t>((of.size() - 1) * 95 / 100);
  std::nth_element(of.begin(), at, of.end());
  return std::chrono::duration_cast<milliseconds>(*at);
}

}  // namespace

void LoadHistory::add(const LoadPoint& point) {
  if (!points_.empty() && point.at < points_.back().at + interval_) return;
  points_.push_back(point);
  while (points_.size() > kPointsMax || (points_.size() > 2 && points_[1].at + window_ <= point.at))
    points_.pop_front();
}

LoadHistory::Totals LoadHistory::totals_at(TimePoint at) const {
  const auto of = [](const LoadPoint& point) {
    return Totals{static_cast<double>(point.arrived_tokens), point.arrived_squares};
  };
  const auto next = std::ranges::lower_bound(points_, at, {}, &LoadPoint::at);
  if (next == points_.begin()) return of(points_.front());
  if (next == points_.end()) return of(points_.back());
  const Totals before = of(*std::prev(next));
  const Totals after = of(*next);
  const double part = seconds(at - std::prev(next)->at) / seconds(next->at - std::prev(next)->at);
  return {std::lerp(before.tokens, after.tokens, part),
          std::lerp(before.squares, after.squares, part)};
}

LoadHistory::Rate LoadHistory::rate_between(TimePoint from, TimePoint to) const {
  const double s = seconds(to - from);
  const Totals begin = totals_at(from);
  const Totals end = totals_at(to);
  return {(end.tokens - begin.tokens) / s, (end.squares - begin.squares) / (s * s)};
}

bool LoadHistory::bends(Clock::duration span) const {
  const TimePoint now = points_.back().at;
  const Rate first = rate_between(now - span, now - span * 2 / 3);
  const Rate second = rate_between(now - span * 2 / 3, now - span / 3);
  const Rate third = rate_between(now - span / 3, now);
  const double bend = first.tokens_per_s - 2.0 * second.tokens_per_s + third.tokens_per_s;
  const double variance = first.variance + 4.0 * second.variance + third.variance;
  return std::abs(bend) > kDeviations * std::sqrt(variance);
}

LoadTrend LoadHistory::trend() const {
  if (points_.size() < 2) return {};
  const TimePoint now = points_.back().at;
  const Clock::duration least = kLooksMin * 2 * interval_;
  const Clock::duration known = now - points_.front().at;
  Clock::duration span = std::min<Clock::duration>(std::max(known, least), window_);
  bool is_line = span == window_;
  while (span > least && bends(span)) {
    span /= 2;
    is_line = false;
  }
  const double late = rate_between(now - span / 2, now).tokens_per_s;
  if (!is_line) return {.tokens_per_s = late};
  const double half_s = seconds(span) / 2.0;
  const double slope = (late - rate_between(now - span, now - span / 2).tokens_per_s) / half_s;
  return {.tokens_per_s = std::max(0.0, late + slope * half_s / 2.0), .slope = slope};
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
