#include "batch/dynamic_batch.h"

#include <algorithm>
#include <bit>

namespace coxswain::batch {
namespace {

// Beyond the table sizes are multiples of it.
constexpr std::uint64_t kCoarseStep = 512;

}  // namespace

void DynamicBatch::note(std::uint32_t n_prompt_tokens, std::uint32_t n_new_tokens) {
  if (!options_.tunes_batch_size && !options_.tunes_tokens) return;
  const std::pair<std::uint32_t, std::uint32_t> now(n_prompt_tokens, n_new_tokens);
  if (lengths_.size() < std::max(options_.window_requests, 1U)) {
    lengths_.push_back(now);
  } else {
    n_prompt_tokens_ -= lengths_[next_].first;
    n_new_tokens_ -= lengths_[next_].second;
    lengths_[next_] = now;
    next_ = (next_ + 1) % lengths_.size();
  }
  n_prompt_tokens_ += n_prompt_tokens;
  n_new_tokens_ += n_new_tokens;
}

std::uint32_t DynamicBatch::batch_size_max(std::uint64_t cache_tokens) const {
  const bool known = cache_tokens > 0 && !lengths_.empty() && !options_.batch_sizes.empty();
  if (!options_.tunes_batch_size || !known) return kNoLimit;
  const std::uint64_t n_tokens = std::max<std::uint64_t>(n_prompt_tokens_ + n_new_tokens_, 1);
  const std::uint64_t n_held = cache_tokens * lengths_.size() / n_tokens;
  for (const auto& [below, batch_size] : options_.batch_sizes) {
    if (n_held < below) return batch_size;
  }
  const std::uint64_t coarse = std::max<std::uint64_t>(n_held / kCoarseStep * kCoarseStep,
                                                       options_.batch_sizes.back().second);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(coarse, kNoLimit));
}

std::uint32_t DynamicBatch::tokens_max(std::uint32_t batch_size) const {
  if (!options_.tunes_tokens || lengths_.empty()) return kNoLimit;
  const std::uint64_t n_new = std::max<std::uint64_t>(n_new_tokens_, 1);
  const std::uint64_t n_tokens = batch_size * n_prompt_tokens_ / n_new + batch_size;
  std::uint64_t floor = options_.tokens_min.balanced;
  if (n_prompt_tokens_ > 2 * n_new) floor = options_.tokens_min.prompts;
  if (2 * n_prompt_tokens_ <= n_new) floor = options_.tokens_min.answers;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::max(std::bit_ceil(n_tokens), floor), kNoLimit));
}

}  // namespace coxswain::batch
