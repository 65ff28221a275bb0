#include "sampling/processors.h"

#include <algorithm>
#include <vector>

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

void apply_output_penalties(CandidateSet& set,
                            const TokenCounts& counts,
                            float frequency,
                            float presence) {
  change_counted(set, counts, [&](float score, const TokenCounts::Entry& entry) {
    if (entry.in_output == 0) return score;
    return score - frequency * static_cast<float>(entry.in_output) - presence;
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

void keep_allowed(CandidateSet& set, std::span<const TokenId> ids) {
  const auto is_candidate = [&](TokenId id) { return set.index_of(id).has_value(); };
  if (std::none_of(ids.begin(), ids.end(), is_candidate)) return;
  auto next = ids.begin();
  set.keep_if([&](std::size_t i) {
    next = std::lower_bound(next, ids.end(), set.id(i));
    return next != ids.end() && *next == set.id(i);
  });
}

void remove_ids(CandidateSet& set, std::span<const TokenId> ids) {
  const auto is_removed = [&](std::size_t i) {
    return std::find(ids.begin(), ids.end(), set.id(i)) != ids.end();
  };
  std::size_t n_removed = 0;
  for (std::size_t i = 0; i < set.size(); ++i) n_removed += is_removed(i) ? 1 : 0;
  if (n_removed == set.size()) return;
  set.keep_if([&](std::size_t i) { return !is_removed(i); });
}

void remove_repeated_ngrams(CandidateSet& set, std::span<const TokenId> context, std::size_t n) {
  if (context.size() < n) return;
  const auto last = context.last(n - 1);
  std::vector<TokenId> banned;
  for (std::size_t begin = 0; begin + n <= context.size(); ++begin) {
    const auto seen = context.subspan(begin, n - 1);
    if (std::equal(seen.begin(), seen.end(), last.begin()))
      banned.push_back(context[begin + n - 1]);
  }
  remove_ids(set, banned);
}

}  // namespace coxswain::sampling
