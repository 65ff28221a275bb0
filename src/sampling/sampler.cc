#include "sampling/sampler.h"

#include <algorithm>
#include <cassert>

#include "base/scalar_math.h"
#include "sampling/philox.h"
#include "sampling/processors.h"
#include "sampling/row_math.h"
#include "sampling/select.h"
#include "sampling/warpers.h"
#include "sampling/watermark.h"

namespace coxswain::sampling {
namespace {

Status nan_status() {
  return {Code::kInternal,
          ErrorKind::kGeneration,
          "the model produced logits that are not numbers (NaN)"};
}

// Beside a list of the request's own it is that list that can be changed.
Status nothing_allowed(const SamplingParams& p) {
  const bool has_list = !p.allowed_tokens.empty();
  return {has_list ? Code::kInvalidArgument : Code::kInternal,
          ErrorKind::kGeneration,
          "the model has no token here that the grammar or the allowed tokens of the request let "
          "through",
          has_list ? "allowed_token_ids" : ""};
}

bool has_count_penalty(const SamplingParams& p) {
  return p.frequency_penalty != 0.0F || p.presence_penalty != 0.0F;
}

// Whether the scores are the logits themselves.
bool is_plain(const SamplingParams& p) {
  const bool scaled = p.temperature != 1.0F && p.temperature >= kGreedyTemperature;
  const bool cut = p.top_k > 0 || p.top_p < 1.0F || p.typical_p < 1.0F || p.min_p > 0.0F ||
                   p.top_n_sigma > 0.0F || p.epsilon_cutoff > 0.0F || p.eta_cutoff > 0.0F;
  return !scaled && !cut && p.dynatemp_range == 0.0F && !p.watermark && p.logit_bias.empty() &&
         !needs_token_counts(p);
}

float logprob(float score, const CandidateSet::Weights& weights) {
  return static_cast<float>(static_cast<double>(score) - static_cast<double>(weights.max_score) -
                            base::log(weights.sum));
}

// The first index at which the running sum of weights exceeds target, in fixed blocks.
std::size_t inverse_cdf(const CandidateSet::Weights& weights, double target) {
  std::size_t block = 0;
  double before = 0.0;
  while (block + 1 < weights.block_sums.size() && before + weights.block_sums[block] <= target) {
    before += weights.block_sums[block++];
  }
  const std::size_t begin = block * kSumBlock;
  const std::size_t end = std::min(weights.values.size(), begin + kSumBlock);
  std::size_t last = begin;  // the last index that can be drawn
  for (std::size_t i = begin; i < end; ++i) {
    if (weights.values[i] <= 0.0F) continue;
    last = i;
    before += static_cast<double>(weights.values[i]);
    if (before > target) return i;
  }
  // Rounding put the target behind the block's end. A block without weight cannot be the one walked
  // to, except the last.
  while (last > 0 && weights.values[last] <= 0.0F) --last;
  return last;
}

}  // namespace

bool is_greedy(const SamplingParams& params) {
  return !params.do_sample || params.temperature < kGreedyTemperature;
}

bool needs_token_counts(const SamplingParams& p) {
  return p.repetition_penalty != 1.0F || p.relative_frequency_penalty != 0.0F ||
         has_count_penalty(p);
}

Sampler::Sampler(std::size_t vocab_max, std::size_t n_top_tokens_max) : set_(vocab_max) {
  top_.reserve(std::max(kTopTokensMax, n_top_tokens_max));
}

std::size_t Sampler::bytes(std::size_t vocab_max) {
  return CandidateSet::bytes(vocab_max) + kTopTokensMax * sizeof(ScoredToken);
}

void Sampler::penalise(const SampleInput& input) {
  const SamplingParams& p = *input.params;
  assert(input.counts != nullptr);
  if (p.repetition_penalty != 1.0F)
    apply_repetition_penalty(set_, *input.counts, p.repetition_penalty);
  if (p.relative_frequency_penalty != 0.0F) {
    apply_relative_frequency_penalty(set_, *input.counts, p.relative_frequency_penalty);
  }
  if (has_count_penalty(p)) {
    const Counted counted = p.penalties_count_prompt ? Counted::kPromptAndOutput : Counted::kOutput;
    apply_count_penalties(set_, *input.counts, counted, p.frequency_penalty, p.presence_penalty);
  }
}

void Sampler::apply_step(SamplerStep step, const SampleInput& input) {
  const SamplingParams& p = *input.params;
  switch (step) {
    case SamplerStep::kDry:
      return apply_dry(set_, input.repetitions, p);
    case SamplerStep::kTopNSigma:
      return keep_top_n_sigma(set_, p.top_n_sigma);
    case SamplerStep::kTopK:
      return keep_top_k(set_, static_cast<std::size_t>(std::max(p.top_k, 0)));
    case SamplerStep::kTypicalP:
      return keep_typical(set_, p.typical_p);
    case SamplerStep::kTopP:
      return keep_top_p(set_, p.top_p);
    case SamplerStep::kMinP:
      return keep_min_p(set_, p.min_p);
    case SamplerStep::kEpsilon:
      return keep_epsilon(set_, p.epsilon_cutoff);
    case SamplerStep::kEta:
      return keep_eta(set_, p.eta_cutoff);
    case SamplerStep::kXtc:
      if (p.xtc_probability > 0.0F && !is_greedy(p) &&
          uniform_draw(p.seed, input.position, DrawPurpose::kTopChoices) <
              static_cast<double>(p.xtc_probability))
        exclude_top_choices(set_, p.xtc_threshold);
      return;
    case SamplerStep::kTemperature:
      if (p.temperature < kGreedyTemperature) return;
      if (p.dynatemp_range > 0.0F)
        return apply_dynamic_temperature(
            set_, p.temperature, p.dynatemp_range, p.dynatemp_exponent);
      if (p.temperature != 1.0F) apply_temperature(set_, p.temperature);
      return;
  }
}

bool Sampler::process(const SampleInput& input, bool is_masked) {
  const SamplingParams& p = *input.params;
  if (p.watermark) {
    const auto room = set_.vocab_scratch().first(input.logits.size());
    apply_watermark(set_, green_ids(input.previous, kWatermarkGamma, room), kWatermarkDelta);
  }
  if (needs_token_counts(p)) penalise(input);
  apply_logit_bias(set_, p.logit_bias);
  if (!is_masked && !input.allowed.empty() && !keep_masked(set_, input.allowed)) return false;
  if (!input.forbidden.empty()) remove_ids(set_, input.forbidden);
  const std::span<const SamplerStep> steps =
      p.samplers.empty() ? std::span<const SamplerStep>(kSamplerOrder) : std::span(p.samplers);
  for (const SamplerStep step : steps) apply_step(step, input);
  return true;
}

std::size_t Sampler::pick(const SampleInput& input, const CandidateSet::Weights& weights) const {
  if (is_greedy(*input.params)) return weights.max_index;
  const double uniform = uniform_draw(input.params->seed, input.position, DrawPurpose::kToken);
  return inverse_cdf(weights, uniform * weights.sum);
}

Result<SampleOutput> Sampler::sample(const SampleInput& input) {
  const SamplingParams& p = *input.params;
  const bool plain = is_plain(p) && input.forbidden.empty() && input.allowed.empty() &&
                     !input.forced && input.repetitions.empty();
  if (is_greedy(p) && p.n_top_tokens == 0 && plain) {  // two passes over the logits, no copy
    const RowSummary row = summarise(input.logits);
    if (row.has_nan) return nan_status();
    const double sum = sum_exp(input.logits, row.max);
    return SampleOutput{
        .token = {static_cast<TokenId>(row.argmax), static_cast<float>(-base::log(sum))},
        .top = {}};
  }
  // What the steps before the mask do to an id is the same whichever others are there.
  const bool is_masked = !input.allowed.empty() && set_.assign_masked(input.logits, input.allowed);
  if (!is_masked && !set_.assign(input.logits)) return nan_status();
  if (!process(input, is_masked)) return nothing_allowed(p);
  const CandidateSet::Weights weights = set_.weights();
  top_.clear();
  const std::size_t limit =
      std::min(top_.capacity(), std::max<std::size_t>(kTopTokensMax, p.n_top_tokens));
  for (const std::uint32_t i : best_candidates(set_, p.n_top_tokens, limit)) {
    top_.push_back({set_.id(i), logprob(set_.scores()[i], weights)});
  }
  if (input.forced) {
    // One that did not survive is the only one that could be chosen.
    const auto at = set_.index_of(*input.forced);
    return SampleOutput{.token = {*input.forced, at ? logprob(set_.scores()[*at], weights) : 0.0F},
                        .top = top_};
  }
  const std::size_t chosen = pick(input, weights);
  return SampleOutput{.token = {set_.id(chosen), logprob(set_.scores()[chosen], weights)},
                      .top = top_};
}

Result<float> logprob_of(std::span<const float> logits, TokenId id) {
  const RowSummary row = summarise(logits);
  if (row.has_nan) return nan_status();
  const float score = std::clamp(logits[static_cast<std::size_t>(id)], -kScoreMax, kScoreMax);
  return static_cast<float>(static_cast<double>(score) - static_cast<double>(row.max) -
                            base::log(sum_exp(logits, row.max)));
}

}  // namespace coxswain::sampling
