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

float kth_largest(std::span<const float> values, std::size_t k, std::span<float> scratch) {
  assert(k >= 1 && k <= values.size() && scratch.size() >= values.size());
  const std::size_t n_blocks = (values.size() + kBlock - 1) / kBlock;
  if (n_blocks < k * kBlocksPerValue) {
    std::copy(values.begin(), values.end(), scratch.begin());
    return nth_of(scratch.first(values.size()), k);
  }
  // k blocks have a maximum of at least the k-th largest maximum, so the k-th largest value is no
  // smaller: only few values need a closer look.
  const std::span<float> maxima = scratch.first(n_blocks);
  block_maxima(values, kBlock, maxima);
  const float bound = nth_of(maxima, k);
  std::size_t n = 0;
  for (const float value : values) {
    if (value >= bound) scratch[n++] = value;
  }
  return nth_of(scratch.first(n), k);
}

std::span<const std::uint32_t> best_candidates(CandidateSet& set,
                                               std::size_t n,
                                               std::size_t limit) {
  if (n == 0 || limit == 0) return {};
  const std::span<const float> scores = set.scores();
  const float threshold = kth_largest(scores, std::min(n, set.size()), set.float_scratch());
  const std::span<std::uint32_t> order = set.index_scratch();
  std::size_t count = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > threshold) order[count++] = static_cast<std::uint32_t>(i);
  }
  std::sort(order.begin(),
            order.begin() + static_cast<std::ptrdiff_t>(count),
            [&](std::uint32_t a, std::uint32_t b) {
              return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
            });
  for (std::size_t i = 0; i < scores.size() && count < limit; ++i) {
    if (scores[i] == threshold) order[count++] = static_cast<std::uint32_t>(i);
  }
  return order.first(std::min(count, limit));
}

}  // namespace coxswain::sampling
