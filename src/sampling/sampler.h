#pragma once
// Sampler: from one row of logits to one token, its log-probability and the best alternatives.
//
// The result is a pure function of SampleInput: nothing else is read, sums have a fixed order, ties go to the lowest
// id, and the random number is philox(seed, position).
// Order of the steps and formulas: docs/sampling.md.
//
// All memory is taken by the constructor. Thread rule: a Sampler belongs to one thread at a time;
// rows of a step may be spread over several samplers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "sampling/candidates.h"
#include "sampling/dry.h"
#include "sampling/token_counts.h"

namespace coxswain::sampling {

struct ScoredToken {
  TokenId id = 0;
  float logprob = 0.0F;

  friend bool operator==(const ScoredToken&, const ScoredToken&) = default;
};

struct SampleInput {
  std::span<const float> logits;  // [vocab]
  const SamplingParams* params = nullptr;
  const TokenCounts* counts = nullptr;  // may be null unless needs_token_counts(*params)
  std::uint64_t position = 0;           // of the token to choose: prompt + output so far
  // Ids that may not be chosen (forbidden_tokens.h), ascending, each once. Without effect if no other is left.
  std::span<const TokenId> forbidden = {};
  // A bit for each id that may be chosen (candidates.h, assign_masked); empty: all of them.
  std::span<const std::uint64_t> allowed = {};
  // The id that is chosen (thought_budget.h), whatever the scores are.
  std::optional<TokenId> forced = {};
  // What DRY looks at (dry.h); none unless wants_repetitions(*params).
  std::span<const Repetition> repetitions = {};
  TokenId previous = 0;  // the last one of prompt and output; read for a watermark alone
};

struct SampleOutput {
  ScoredToken token;  // logprob: log-softmax of the processed scores
  // At least n_top_tokens best candidates (fewer if fewer are left), best first, with everything
  // that ties with the last up to kTopTokensMax. Valid until the next call.
  std::span<const ScoredToken> top;
};

// The order of the steps of a request that names none.
inline constexpr std::array kSamplerOrder{
    SamplerStep::kDry,
    SamplerStep::kTopNSigma,
    SamplerStep::kTemperature,
    SamplerStep::kTopK,
    SamplerStep::kTopP,
    SamplerStep::kTypicalP,
    SamplerStep::kMinP,
    SamplerStep::kEpsilon,
    SamplerStep::kEta,
    SamplerStep::kXtc,
};

bool is_greedy(const SamplingParams& params);
bool needs_token_counts(const SamplingParams& params);

class Sampler {
 public:
  // More than max(kTopTokensMax, n_top_tokens_max) alternatives are never reported.
  explicit Sampler(std::size_t vocab_max, std::size_t n_top_tokens_max = kTopTokensMax);

  // Errors, of kind kGeneration: kInternal if the logits hold a NaN, or if no id that is allowed is above -infinity;
  // the latter is kInvalidArgument with the field allowed_token_ids if the request has such a list.
  Result<SampleOutput> sample(const SampleInput& input);

  static std::size_t bytes(std::size_t vocab_max);

 private:
  // False: nothing is allowed. `is_masked`: what is not has left.
  bool process(const SampleInput& input, bool is_masked);
  void penalise(const SampleInput& input);
  void apply_step(SamplerStep step, const SampleInput& input);
  std::size_t pick(const SampleInput& input, const CandidateSet::Weights& weights) const;

  CandidateSet set_;
  std::vector<ScoredToken> top_;
};

// log-softmax of unprocessed logits at `id`. Errors: as Sampler::sample. REQUIRES: 0 <= id < logits.size().
Result<float> logprob_of(std::span<const float> logits, TokenId id);

}  // namespace coxswain::sampling
