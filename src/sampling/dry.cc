#include "sampling/dry.h"

#include <algorithm>
#include <cassert>

#include "base/scalar_math.h"
#include "sampling/row_math.h"

namespace coxswain::sampling {
namespace {

// lengths[k]: how many ids of `text` from k on are those of its begin (the Z function: Gusfield 1997, 1.4).
void match_begin(std::span<const TokenId> text, std::span<std::uint32_t> lengths) {
  std::size_t begin = 0;  // of the match that reaches farthest
  std::size_t end = 0;
  for (std::size_t k = 1; k < text.size(); ++k) {
    std::size_t n = k < end ? std::min<std::size_t>(end - k, lengths[k - begin]) : 0;
    while (k + n < text.size() && text[n] == text[k + n]) ++n;
    lengths[k] = static_cast<std::uint32_t>(n);
    if (k + n > end) {
      begin = k;
      end = k + n;
    }
  }
}

}  // namespace

bool wants_repetitions(const SamplingParams& params) {
  return params.dry_multiplier > 0.0F &&
         (params.samplers.empty() ||
          std::find(params.samplers.begin(), params.samplers.end(), SamplerStep::kDry) !=
              params.samplers.end());
}

void find_repetitions(const TokenHistory& history,
                      std::span<const std::uint8_t> breaks,
                      const SamplingParams& params,
                      RepetitionScratch& scratch,
                      std::vector<Repetition>& found) {
  assert(breaks.empty() || breaks.size() == history.size());
  found.clear();
  const std::size_t n_all = history.size();
  const std::size_t n = params.dry_penalty_last_n == 0
                            ? n_all
                            : std::min<std::size_t>(n_all, params.dry_penalty_last_n);
  // From the end on: what is repeated is the begin of it, up to the first break.
  const auto is_break = [&](std::size_t k) {
    return !breaks.empty() && breaks[n_all - 1 - k] != 0;
  };
  std::size_t limit = 0;
  while (limit < n && !is_break(limit)) ++limit;
  if (limit < params.dry_allowed_length) return;
  scratch.reversed.resize(n);
  scratch.lengths.resize(n);
  for (std::size_t k = 0; k < n; ++k) scratch.reversed[k] = history[n_all - 1 - k];
  match_begin(scratch.reversed, scratch.lengths);
  for (std::size_t k = 1; k < n; ++k) {
    const std::size_t length = std::min<std::size_t>(scratch.lengths[k], limit);
    if (length < params.dry_allowed_length || is_break(k - 1)) continue;
    found.push_back({.id = scratch.reversed[k - 1], .length = static_cast<std::uint32_t>(length)});
  }
  std::sort(found.begin(), found.end(), [](const Repetition& a, const Repetition& b) {
    return a.id != b.id ? a.id < b.id : a.length > b.length;
  });
  const auto same_id = [](const Repetition& a, const Repetition& b) { return a.id == b.id; };
  found.erase(std::unique(found.begin(), found.end(), same_id), found.end());
}

void apply_dry(CandidateSet& set,
               std::span<const Repetition> repetitions,
               const SamplingParams& params) {
  const auto growth = static_cast<double>(params.dry_base);
  const auto multiplier = static_cast<double>(params.dry_multiplier);
  for (const Repetition& one : repetitions) {
    const auto at = set.index_of(one.id);
    if (!at) continue;
    float& score = set.scores()[*at];
    const auto beyond = static_cast<double>(one.length - params.dry_allowed_length);
    const double lowered = static_cast<double>(score) - multiplier * base::pow(growth, beyond);
    score = static_cast<float>(
        std::clamp(lowered, -static_cast<double>(kScoreMax), static_cast<double>(kScoreMax)));
  }
}

}  // namespace coxswain::sampling
