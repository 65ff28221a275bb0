#pragma once
// BeamParams: what a beam search is told.
//
// Thread rule: values.

#include <cstdint>

namespace coxswain {

inline constexpr std::uint32_t kBeamWidthMax = 16;

// The search keeps the `width` likeliest beginnings of an answer. In each step every one of them is continued by its
// best tokens, and the `width` best of all continuations go on; one that ends with an end token is a finished answer if
// it is among the `width` best of its step. Answers are compared by
//
//     sum of the log-probabilities of their tokens / number of their tokens ^ length_penalty
//
// as transformers' beam search does, whose `num_beams` and `length_penalty` these are.
struct BeamParams {
  std::uint32_t width = 1;      // 1: no beam search; at most kBeamWidthMax
  float length_penalty = 0.0F;  // finite; above 0 favours long answers
  // When the search ends before max_new_tokens, once `width` answers have ended.
  //   1: at once.
  //   0: when no beam can still become better than the worst of them, whatever its length (transformers' "never").
  //   else: when no beam is better at its present length (transformers' False).
  std::int32_t early_stopping = 1;
  // Continuations of one beam are put back by diversity_rate * rank among them (0 for its best one) when the next beams
  // are chosen, so that these have more ancestors (Li, Monroe, Jurafsky 2016); scores stay as they are. >= 0, finite.
  float diversity_rate = 0.0F;

  friend bool operator==(const BeamParams&, const BeamParams&) = default;
};

}  // namespace coxswain
