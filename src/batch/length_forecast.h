#pragma once
// LengthForecast: how many tokens a request will have produced in the end, by what those did that have finished.
//
// What is learned is the share of max_new_tokens that was used: a histogram of its logarithm (8 bins an octave, 12
// octaves), in which old requests are forgotten (half of the weight is that of the last 350). A request that has
// produced some is compared with those that went further. It starts with a few that used everything, so an engine
// that knows nothing reserves as kGuaranteedNoEvict does.
//
// The brake: a pause says that the forecasts were too low together. Each adds a quarter to what requests are still
// expected to produce, at most up to all that they may; each step without one takes a little of that back.
//
// The same calls give the same answers. Thread rule: one engine thread.

#include <array>
#include <cstddef>
#include <cstdint>

namespace coxswain::batch {

class LengthForecast {
 public:
  LengthForecast();

  void finished(std::uint32_t n_produced, std::uint32_t n_max);
  void paused(std::uint32_t n_requests);
  void stepped();

  // Tokens that a request which has produced n_produced of n_max will have in the end: more than n_produced and at most
  // n_max. REQUIRES: n_produced < n_max.
  std::uint32_t total(std::uint32_t n_produced, std::uint32_t n_max) const;
  double brake() const { return brake_; }  // 0 = off

 private:
  static constexpr std::size_t kPerOctave = 8;
  static constexpr std::size_t kBins = 12 * kPerOctave + 1;
  static std::size_t bin_of(double share);
  void sum_up();

  std::array<double, kBins> weights_{};
  std::array<double, kBins> shares_{};  // weight x share
  // Of this bin and those above.
  std::array<double, kBins + 1> weights_above_{};
  std::array<double, kBins + 1> shares_above_{};
  double brake_ = 0;
};

}  // namespace coxswain::batch
