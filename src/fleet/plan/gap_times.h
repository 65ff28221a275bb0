#pragma once
// GapTimes: how long gaps between tokens were, of any number of them in little room: counts of classes of 1 %.
//
// Thread rule: one thread at a time.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::fleet {

class GapTimes {
 public:
  // `n` gaps of `s` seconds.
  void add(double s, std::uint64_t n) {
    if (n == 0) return;
    const double at = std::log(std::max(s, kLeast) / kLeast) / std::log(kRatio);
    const auto slot = static_cast<std::size_t>(at);
    if (slot >= counts_.size()) counts_.resize(slot + 1);
    counts_[slot] += n;
    n_ += n;
  }
  // Seconds that so great a part of them, 0 to 1, does not exceed; 0 before the first.
  double quantile(double q) const {
    double left = q * static_cast<double>(n_);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      left -= static_cast<double>(counts_[i]);
      if (left <= 0.0 && counts_[i] > 0)
        return kLeast * std::pow(kRatio, static_cast<double>(i) + 0.5);
    }
    return 0.0;
  }

 private:
  static constexpr double kLeast = 1e-6;
  static constexpr double kRatio = 1.01;
  std::vector<std::uint64_t> counts_;
  std::uint64_t n_ = 0;
};

}  // namespace coxswain::fleet
