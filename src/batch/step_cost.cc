#include "batch/step_cost.h"

#include <algorithm>

namespace coxswain::batch {
namespace {

constexpr double kKept = 0.99;  // of the weight of a step when the next one comes
// Of those to come 2 in 257 are above the second largest, if all are alike.
constexpr std::size_t kRatios = 256;
// What one step may teach: a process that was stopped for a while says nothing about steps.
constexpr double kRatioMax = 4;
constexpr double kMarginMin = 1.02;
// How much of a step's ratio the pace takes over: what made one slow is likely there for the next.
constexpr double kPaceUp = 0.7;
constexpr double kPaceDown = 0.2;
constexpr int kSweeps = 30;

}  // namespace

// Of the same order of magnitude, so that the descent is quick.
StepCost::Vector StepCost::features(const StepShape& step) {
  return {1.0,
          step.n_decodes / 16.0,
          step.n_prompt_tokens / 64.0,
          static_cast<double>(step.decode_context) / 8192.0,
          static_cast<double>(step.prompt_context) / 65'536.0};
}

double StepCost::predict(const StepShape& step) const {
  const Vector x = features(step);
  double out = 0;
  for (std::size_t i = 0; i < kN; ++i) out += coefficients_[i] * x[i];
  return out;
}

double StepCost::expect(const StepShape& step) const {
  return n_steps_ < kStepsMin ? 0 : std::max(pace_, 1.0) * predict(step);
}

double StepCost::expect_at_most(const StepShape& step) const {
  return margin_ * expect(step);
}

double StepCost::prompt_seconds(std::uint32_t n_tokens) const {
  if (n_steps_ < kStepsMin) return 0;
  const std::uint64_t n = n_tokens;
  return predict({.n_prompt_tokens = n_tokens, .prompt_context = n * (n + 1) / 2}) - predict({});
}

void StepCost::observe(const StepShape& step, double seconds, double expected) {
  if (seconds <= 0) return;
  const double predicted = predict(step);
  if (n_steps_ >= kStepsMin && predicted > 0) {
    if (step.n_prompt_tokens > 0 && step.n_decodes > 0 && expected > 0)
      note_ratio(seconds / expected);
    seconds = std::min(seconds, kRatioMax * predicted);
    if (step.n_decodes > 0) {
      const double ratio = seconds / predicted;
      pace_ += (ratio > pace_ ? kPaceUp : kPaceDown) * (ratio - pace_);
    }
  }
  prompt_tokens_seen_ = std::max(prompt_tokens_seen_, step.n_prompt_tokens);
  ++n_steps_;
  const Vector x = features(step);
  for (std::size_t i = 0; i < kN; ++i) {
    for (std::size_t j = 0; j < kN; ++j) {
      products_[i][j] = kKept * products_[i][j] + x[i] * x[j] / (seconds * seconds);
    }
    sums_[i] = kKept * sums_[i] + x[i] / seconds;
  }
  solve();
}

void StepCost::solve() {
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < kN; ++i) {
      if (products_[i][i] <= 0) continue;
      double rest = sums_[i];
      for (std::size_t j = 0; j < kN; ++j) {
        if (j != i) rest -= products_[i][j] * coefficients_[j];
      }
      coefficients_[i] = std::max(0.0, rest / products_[i][i]);
    }
  }
}

void StepCost::note_ratio(double ratio) {
  if (ratios_.size() < kRatios) {
    ratios_.push_back(ratio);
  } else {
    ratios_[next_ratio_] = ratio;
    next_ratio_ = (next_ratio_ + 1) % kRatios;
  }
  std::vector<double> sorted = ratios_;
  const auto second = sorted.end() - 2;
  std::nth_element(sorted.begin(), second, sorted.end());
  margin_ = std::clamp(*second, kMarginMin, kRatioMax);
}

std::uint32_t StepCost::prompt_tokens_within(double seconds,
                                             const StepShape& step,
                                             std::uint32_t position,
                                             std::uint32_t unit,
                                             std::uint32_t n_max) const {
  if (n_steps_ < kStepsMin) return std::min(unit, n_max);
  n_max = std::min(n_max, std::max(unit, 2 * prompt_tokens_seen_));
  const auto fits = [&](std::uint32_t n) {
    StepShape with = step;
    with.n_prompt_tokens = n;
    with.prompt_context = std::uint64_t{n} * position + std::uint64_t{n} * n / 2;
    return expect_at_most(with) <= seconds;
  };
  if (fits(n_max)) return n_max;
  const std::uint32_t part = least_of(unit);
  std::uint32_t least = 1;  // also where none fits
  std::uint32_t most = std::max(1U, n_max / part);
  while (least < most) {
    const std::uint32_t middle = (least + most + 1) / 2;
    if (fits(middle * part)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least * part;
}

}  // namespace coxswain::batch
