#include "batch/length_forecast.h"

#include <algorithm>
#include <cmath>

namespace coxswain::batch {
namespace {

constexpr double kKept = 0.998;  // of the weight of a request when the next one finishes
constexpr double kPrior = 2;     // requests that used everything
constexpr double kBrakeStep = 0.25;
constexpr double kBrakeMax = 16;
constexpr double kBrakeKept = 0.999;  // from step to step

}  // namespace

LengthForecast::LengthForecast() {
  weights_.back() = kPrior;
  shares_.back() = kPrior;
  sum_up();
}

std::size_t LengthForecast::bin_of(double share) {
  const double bin =
      static_cast<double>(kBins - 1) + static_cast<double>(kPerOctave) * std::log2(share);
  return static_cast<std::size_t>(std::clamp(bin, 0.0, static_cast<double>(kBins - 1)));
}

void LengthForecast::finished(std::uint32_t n_produced, std::uint32_t n_max) {
  if (n_produced == 0 || n_max == 0) return;
  const double share = std::min(1.0, static_cast<double>(n_produced) / n_max);
  for (double& w : weights_) w *= kKept;
  for (double& s : shares_) s *= kKept;
  const std::size_t bin = bin_of(share);
  weights_[bin] += 1;
  shares_[bin] += share;
  sum_up();
}

void LengthForecast::sum_up() {
  for (std::size_t bin = kBins; bin-- > 0;) {
    weights_above_[bin] = weights_above_[bin + 1] + weights_[bin];
    shares_above_[bin] = shares_above_[bin + 1] + shares_[bin];
  }
}

void LengthForecast::paused(std::uint32_t n_requests) {
  brake_ = std::min(kBrakeMax, brake_ + kBrakeStep * n_requests);
}

void LengthForecast::stepped() {
  brake_ = brake_ < 0.01 ? 0 : brake_ * kBrakeKept;
}

std::uint32_t LengthForecast::total(std::uint32_t n_produced, std::uint32_t n_max) const {
  const double share = static_cast<double>(n_produced) / n_max;
  std::size_t bin = n_produced == 0 ? 0 : bin_of(share);
  // Of its own bin those count that went further, as far as a mean can say.
  if (n_produced > 0 && shares_[bin] <= share * weights_[bin]) ++bin;
  const double weight = weights_above_[bin];
  const double expected = weight > 1e-9 ? shares_above_[bin] / weight * n_max : n_max;
  const double left = std::max(1.0, expected - n_produced) * (1 + brake_);
  return n_produced + static_cast<std::uint32_t>(
                          std::min(std::ceil(left), static_cast<double>(n_max - n_produced)));
}

}  // namespace coxswain::batch
