#pragma once
// StepCost: how long a step takes, learned from those that were measured, and how many prompt tokens fit into a time.
//
// Model: seconds = a + b decodes + c prompt tokens + d context of the decodes + e context of the prompt tokens, where
// the context of a row is the positions that it attends to, and no coefficient is negative: each part can only add
// work. A step within the range of those seen lately is near linear, whatever the curve over the whole range is, and
// old steps are forgotten (half of the weight is that of the last 70), so the model follows the range. The fit is by
// least squares of the relative error, solved by coordinate descent (Lawson and Hanson's problem; five unknowns).
//
// What the model does not see (other programs, a cold cache) comes in bursts and alone. A pace, how much more than
// predicted the last steps took, follows the bursts. A margin covers what nothing announced: the second largest of what
// measured steps with prompts took, over what had been expected when they were planned, of the last 256. Two steps that
// took a quarter more are assumed before the first.
//
// Time comes in as values: the same steps give the same answers. Thread rule: one engine thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::batch {

struct StepShape {
  std::uint32_t n_decodes = 0;
  std::uint32_t n_prompt_tokens = 0;
  std::uint64_t decode_context = 0;  // positions attended to, summed over the decodes
  std::uint64_t prompt_context = 0;  // likewise over the prompt tokens
};

class StepCost {
 public:
  // Steps until fits() believes the model; fewer than the unknowns say nothing.
  static constexpr std::uint32_t kStepsMin = 8;

  // `expected`: what expect() said when the step was planned; 0: it says nothing of the margin.
  void observe(const StepShape& step, double seconds, double expected);
  double predict(const StepShape& step) const;  // seconds; 0 before the first step
  // predict() at the pace of the last steps; 0 before kStepsMin steps.
  double expect(const StepShape& step) const;
  // The same with its margin: what 99 of 100 such steps stay below.
  double expect_at_most(const StepShape& step) const;
  // Seconds that the first so many tokens of a prompt add to the steps that compute them; 0: nothing is known yet.
  double prompt_seconds(std::uint32_t n_tokens) const;
  // What a step with prompts took beyond what was expected, as a factor, at least 1.02: see above.
  double margin() const { return margin_; }

  // What prompt_tokens_within() counts in: a quarter of a unit.
  static constexpr std::uint32_t least_of(std::uint32_t unit) { return unit < 8 ? 1 : unit / 4; }
  // The most prompt tokens, at `position` of their prompts, that with `step`, which has none, end within `seconds`:
  // n_max, or as many quarters of a `unit` as fit, one at least. At most twice as many as any measured step had: the
  // model knows nothing beyond those.
  std::uint32_t prompt_tokens_within(double seconds,
                                     const StepShape& step,
                                     std::uint32_t position,
                                     std::uint32_t unit,
                                     std::uint32_t n_max) const;

 private:
  static constexpr std::size_t kN = 5;
  using Vector = std::array<double, kN>;
  static Vector features(const StepShape& step);
  void solve();
  void note_ratio(double ratio);

  std::array<Vector, kN> products_{};  // decayed sums of features x features, and of features x 1
  Vector sums_{};
  Vector coefficients_{};
  std::uint32_t n_steps_ = 0;
  std::uint32_t prompt_tokens_seen_ = 0;
  static constexpr double kRatioAssumed = 1.25;
  std::vector<double> ratios_{kRatioAssumed, kRatioAssumed};  // a ring
  std::size_t next_ratio_ = 0;
  double margin_ = kRatioAssumed;
  double pace_ = 1;
};

}  // namespace coxswain::batch
