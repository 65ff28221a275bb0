#include "sampling/select.h"

#include <algorithm>
#include <cassert>
#include <functional>

#include "sampling/row_math.h"

namespace coxswain::sampling {
namespace {

constexpr std::size_t kBlock = 64;
// The short cut below pays while there are this many blocks per value looked for.
constexpr std::size_t kBlocksPerValue = 4;

float nth_of(std::span<float> values, std::size_t k) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(values.begin(), nth, values.end(), std::greater<>());
  return *nth;
}

}  // namespace

float kth_largest(CandidateSet& set, std::size_t k) {
  const std::span<const float> scores = set.scores();
  const std::span<float> scratch = set.float_scratch();
  assert(k >= 1 && k <= scores.size());
  const std::size_t n_blocks = (scores.size() + kBlock - 1) / kBlock;
  if (n_blocks < k * kBlocksPerValue) {
    std::copy(scores.begin(), scores.end(), scratch.begin());
    return nth_of(scratch, k);
  }
  // k blocks have a maximum of at least the k-th largest maximum, so the k-th largest score is no
  // smaller: only few scores need a closer look.
  const std::span<float> maxima = scratch.first(n_blocks);
  block_maxima(scores, kBlock, maxima);
  const std::span<std::uint32_t> indices = set.index_scratch();
  const std::size_t n = indices_at_least(scores, nth_of(maxima, k), indices);
  for (std::size_t i = 0; i < n; ++i) scratch[i] = scores[indices[i]];
  return nth_of(scratch.first(n), k);
}

std::span<const std::uint32_t> best_candidates(CandidateSet& set,
                                               std::size_t n,
                                               std::size_t limit) {
  if (n == 0 || limit == 0) return {};
  const std::span<const float> scores = set.scores();
  const float threshold = kth_largest(set, std::min(n, set.size()));
  const std::span<std::uint32_t> indices = set.index_scratch();
  const std::size_t n_found = indices_at_least(scores, threshold, indices);
  const auto found = indices.first(n_found);
  const auto best = found.first(std::min(n_found, limit));
  std::partial_sort(found.begin(), best.end(), found.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  return best;
}

}  // namespace coxswain::sampling
