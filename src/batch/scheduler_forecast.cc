// The part of Scheduler that looks at the steps to come: whether those who run find the blocks that they are expected
// to take (length_forecast.h, future_blocks.h).

#include <algorithm>

#include "base/numbers.h"
#include "batch/scheduler.h"

namespace coxswain::batch {

// Positions that `s` is expected to hold when it ends.
std::uint32_t Scheduler::expected_end(const Sequence& s) const {
  const std::uint32_t n_max = s.n_new_max;
  const std::uint32_t n_produced = s.n_produced() + s.n_pending;
  if (n_produced >= n_max) return s.context_end();
  return s.n_prompt + in_.forecast->total(n_produced, n_max) - 1;
}

FutureBlocks::Use Scheduler::future_of(const Sequence& s,
                                       std::size_t group,
                                       std::uint32_t n_blocks) const {
  const std::uint32_t end = s.goes_on() ? std::max(expected_end(s), s.context_end()) : 0;
  const std::uint32_t freed = s.lease ? reclaimable(s, group) + n_blocks - s.n_blocks() : n_blocks;
  // That beams to come need not take.
  const std::uint32_t shared = s.n_beams_to_come() * (s.n_prompt / in_.cache->block_tokens());
  const std::uint32_t n_prompt =
      end > 0 && foresees_prompts(group)
          ? base::sub_sat(in_.cache->blocks_for(s.context_end()), n_blocks)
          : 0;
  return {.n_steps = base::sub_sat(end, s.context_end()) +
                     n_prompt * in_.cache->block_tokens() / step_max_,
          .n_tokens = s.context_end(),
          .n_blocks = n_blocks + shared,
          .n_freed = s.stalled ? 0 : freed,
          .n_tables = s.n_places(),
          .n_prompt = n_prompt};
}

// Once a plan, and only where somebody could be admitted.
void Scheduler::foresee_running() {
  if (foreseen_) return;
  foreseen_ = true;
  const std::uint32_t block = in_.cache->block_tokens();
  const std::uint32_t prompt_max = base::round_up(options_.prefill_tokens_max, block);
  futures_.assign(in_.cache->n_groups(), FutureBlocks(block, prompt_max));
  for (std::size_t g = 0; g < futures_.size(); ++g) {
    if (in_.cache->window_tokens(g) > 0) continue;
    for (std::size_t i = 0; i < in_.running.size(); ++i) {
      if (!is_paused(i)) futures_[g].add(future_of(*in_.running[i], g, blocks_after_[i]));
    }
    for (const PlannedRow& row : out_.rows) {
      if (row.admitted) futures_[g].add(future_of(*row.sequence, g, row.n_blocks));
    }
    futures_[g].sort();
  }
}

// What `s`, with n_blocks, may still take.
std::uint32_t Scheduler::blocks_to_end(const Sequence& s, std::uint32_t n_blocks) const {
  return s.n_blocks_to(in_.cache->blocks_for(s.tokens_max()), n_blocks, in_.cache->block_tokens());
}

// Beyond what they hold after this plan, and none of what they give back.
std::uint32_t Scheduler::promised_blocks() {
  if (promised_) return *promised_;
  promised_ = 0;
  const auto add = [&](const Sequence& s, std::uint32_t n_blocks) {
    *promised_ += blocks_to_end(s, n_blocks);
  };
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    if (!is_paused(i)) add(*in_.running[i], blocks_after_[i]);
  }
  for (const PlannedRow& row : out_.rows) {
    if (row.admitted) add(*row.sequence, row.n_blocks);
  }
  return *promised_;
}

// Whether nothing needs to be foreseen: `s` and all that run may take all that they asked for.
bool Scheduler::has_room_for_all(const Sequence& s,
                                 std::uint32_t n_blocks,
                                 const std::vector<std::uint32_t>& taken) {
  const std::uint32_t n = promised_blocks() + blocks_to_end(s, n_blocks);
  for (std::size_t g = 0; g < taken.size(); ++g) {
    if (in_.cache->window_tokens(g) == 0 && n > available_[g] - taken[g]) return false;
  }
  return true;
}

// Whether all that run, and `s`, find the blocks that they are expected to take until they end. Adds `s`. Alone it may
// begin in any case.
bool Scheduler::foresees_room(const Sequence& s,
                              std::uint32_t n_blocks,
                              const std::vector<std::uint32_t>& taken) {
  foresee_running();
  bool fits = true;
  for (std::size_t g = 0; g < futures_.size(); ++g) {
    if (in_.cache->window_tokens(g) > 0) continue;
    const FutureBlocks::Use use = future_of(s, g, n_blocks);
    const bool alone = futures_[g].empty();
    futures_[g].insert(use);
    if (alone || futures_[g].peak() <= available_[g] - taken[g]) continue;
    fits = false;
  }
  if (fits) return true;
  for (std::size_t g = 0; g < futures_.size(); ++g) {
    if (in_.cache->window_tokens(g) == 0) futures_[g].erase(future_of(s, g, n_blocks));
  }
  return false;
}

}  // namespace coxswain::batch
