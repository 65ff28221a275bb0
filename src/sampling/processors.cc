#include "sampling/processors.h"

#include <algorithm>

#include "base/scalar_math.h"
#include "sampling/row_math.h"

namespace coxswain::sampling {
namespace {

float clamped(float score) {
  return std::clamp(score, -kScoreMax, kScoreMax);
}

// score = change(score, entry) for every counted id that is a candidate.
template <typename Change>
void change_counted(CandidateSet& set, const TokenCounts& counts, Change change) {
  const std::span<float> scores = set.scores();
  for (const TokenCounts::Entry& entry : counts.entries()) {
    if (const auto at = set.index_of(entry.id)) scores[*at] = clamped(change(scores[*at], entry));
  }
}

}  // namespace

void apply_repetition_penalty(CandidateSet& set, const TokenCounts& counts, float penalty) {
  change_counted(set, counts, [&](float score, const TokenCounts::Entry&) {
    return score < 0.0F ? score * penalty : score / penalty;
  });
}

void apply_relative_frequency_penalty(CandidateSet& set, const TokenCounts& counts, float penalty) {
  if (counts.context_length() == 0) return;
  const auto length = static_cast<float>(counts.context_length());
  change_counted(set, counts, [&](float score, const TokenCounts::Entry& entry) {
    return score - penalty * (static_cast<float>(entry.in_context) / length);
  });
}

void apply_count_penalties(CandidateSet& set,
                           const TokenCounts& counts,
                           Counted counted,
                           float frequency,
                           float presence) {
  const bool whole = counted == Counted::kPromptAndOutput;
  change_counted(set, counts, [&](float score, const TokenCounts::Entry& entry) {
    const std::uint32_t count = whole ? entry.in_context : entry.in_output;
    if (count == 0) return score;
    return score - frequency * static_cast<float>(count) - presence;
  });
}

void apply_logit_bias(CandidateSet& set, std::span<const std::pair<TokenId, float>> biases) {
  const std::span<float> scores = set.scores();
  for (const auto& [id, bias] : biases) {
    if (const auto at = set.index_of(id)) scores[*at] = clamped(scores[*at] + bias);
  }
}

void apply_temperature(CandidateSet& set, float temperature) {
  divide(set.scores(), temperature);
}

void apply_dynamic_temperature(CandidateSet& set, float temperature, float range, float exponent) {
  if (set.size() == 1) return;
  const double low = std::max(0.0, static_cast<double>(temperature) - static_cast<double>(range));
  const double high = static_cast<double>(temperature) + static_cast<double>(range);
  const double most = base::log(static_cast<double>(set.size()));
  // Rounding may leave it a little outside.
  const double share = std::clamp(entropy_of(set, set.weights()) / most, 0.0, 1.0);
  const double raised = share > 0.0 ? base::pow(share, static_cast<double>(exponent)) : 0.0;
  const auto chosen = static_cast<float>(low + (high - low) * raised);
  divide(set.scores(), std::max(chosen, kGreedyTemperature));
}

bool keep_masked(CandidateSet& set, std::span<const std::uint64_t> mask) {
  const std::span<std::uint32_t> found = set.index_scratch();
  std::size_t n = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto id = static_cast<std::size_t>(set.id(i));
    const bool allowed = id / 64 < mask.size() && (mask[id / 64] >> (id % 64) & 1) != 0;
    if (allowed) found[n++] = static_cast<std::uint32_t>(i);
  }
  if (n == 0) return false;
  if (n < set.size()) set.keep(found.first(n));
  return true;
}

void remove_ids(CandidateSet& set, std::span<const TokenId> ids) {
  const std::span<std::uint32_t> found = set.index_scratch();
  std::size_t n = 0;
  for (const TokenId id : ids) {
    if (const auto at = set.index_of(id)) found[n++] = static_cast<std::uint32_t>(*at);
  }
  if (n < set.size()) set.remove(found.first(n));
}

}  // namespace coxswain::sampling
