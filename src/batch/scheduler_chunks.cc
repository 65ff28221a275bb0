// The part of Scheduler that says how long a row is, and how many blocks a sequence takes.

#include <algorithm>

#include <coxswain/kv_layout.h>

#include "base/numbers.h"
#include "batch/scheduler.h"

namespace coxswain::batch {
namespace {

// Blocks of a group that a sequence of n_tokens positions can hold at once; window groups give blocks back.
std::uint32_t peak_blocks(std::uint32_t block_tokens,
                          const kvcache::KvGroupOptions& group,
                          std::uint32_t n_tokens,
                          std::uint32_t row_tokens) {
  if (group.window_tokens == 0) return base::ceil_div(n_tokens, block_tokens);
  return window_blocks_max(
      group.window_tokens, group.sink_tokens, block_tokens, n_tokens, row_tokens);
}

// The longest row of a sequence of n_tokens positions, so that its peak in a window group is not above n_blocks: such
// a group may be made for shorter rows than the engine's budget allows.
std::uint32_t row_for_window(std::uint32_t row,
                             std::uint32_t block_tokens,
                             const kvcache::KvGroupOptions& group,
                             std::uint32_t n_tokens) {
  if (group.window_tokens == 0 || peak_blocks(block_tokens, group, n_tokens, row) <= group.n_blocks)
    return row;
  const std::uint32_t beside_rows = 1 + base::ceil_div(group.sink_tokens, block_tokens);
  const std::uint64_t room =
      std::uint64_t{base::sub_sat(group.n_blocks, beside_rows)} * block_tokens;
  const std::uint64_t beside = room > group.window_tokens ? (room - group.window_tokens) / 2 : 0;
  const std::uint64_t fits = std::min(beside, room / 3) / block_tokens * block_tokens;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(row, std::max<std::uint64_t>(fits, block_tokens)));
}

// The longest row by budget.
std::uint32_t row_tokens_max(const Capabilities& capabilities,
                             const EngineOptions& options,
                             std::uint32_t block_tokens) {
  if (!capabilities.plans_chunks || !capabilities.grows_blocks) return 0xFFFFFFFFU;
  std::uint32_t chunk = base::round_up(options.prefill_tokens_max, block_tokens);
  if (options.chunk_tokens_max > 0) chunk = std::min(chunk, options.chunk_tokens_max);
  return std::max({block_tokens, chunk, 1 + capabilities.draft_tokens_max});
}

}  // namespace

bool Scheduler::fits_alone(const kvcache::KvCacheOptions& cache,
                           const kvcache::KvGroupOptions& group,
                           const Capabilities& capabilities,
                           const EngineOptions& options,
                           std::uint32_t n_tokens,
                           BeamsAlone beams) {
  std::uint32_t row = row_tokens_max(capabilities, options, cache.block_tokens);
  if (capabilities.plans_chunks && capabilities.grows_blocks)
    row = row_for_window(row, cache.block_tokens, group, n_tokens);
  const std::uint64_t peak = peak_blocks(cache.block_tokens, group, n_tokens, row);
  const std::uint64_t shared =
      group.window_tokens == 0 && beams.width > 1 ? beams.n_prompt / cache.block_tokens : 0;
  return shared + beams.width * (peak - shared) <= group.n_blocks;
}
// The most positions that are held once a row of n_tokens has run: what is in flight may yield more than one token
// each, and so may the row itself.
std::uint32_t Scheduler::end_max(const Sequence& s, std::uint32_t n_tokens) const {
  const std::uint32_t end = s.planned + n_tokens;
  std::uint32_t extra = s.n_pending_extra;
  if (s.decoding()) extra += s.draft_tokens(in_.capabilities, in_.cache->block_tokens());
  return extra == 0 ? end : std::max(end, std::min(end + extra, s.tokens_max()));
}
// The longest row of `s`.
std::uint32_t Scheduler::row_tokens_max_of(const Sequence& s) const {
  const std::uint32_t block = in_.cache->block_tokens();
  std::uint32_t row = row_tokens_max(in_.capabilities, options_, block);
  if (!in_.capabilities.plans_chunks || !in_.capabilities.grows_blocks) return row;
  for (std::size_t g = 0; g < in_.cache->n_groups(); ++g) {
    if (in_.cache->window_tokens(g) == 0) continue;
    row = row_for_window(row, block, in_.cache->group_options(g), s.tokens_max());
  }
  return row;
}

// A chunk that does not end its prompt is a multiple of it, where a row has room for so many tokens.
std::uint32_t Scheduler::chunk_unit(std::uint32_t row_tokens) const {
  const std::uint32_t block = in_.cache->block_tokens();
  return std::clamp(row_tokens / block * block, block, chunk_unit_);
}

// Tokens of a prompt that the budget allows from position `first` on: whole units up to the end of a block, unless it
// is the rest, or blocks are divided. Where all prompts advance alike it is one unit, and share_rest() gives more.
std::uint32_t Scheduler::prefill_chunk(const Sequence& s,
                                       std::uint32_t first,
                                       std::uint32_t n_planned_prefills) const {
  const std::uint32_t remaining = s.context_end() - first;
  const std::uint32_t row = row_tokens_max_of(s);
  const std::uint32_t unit = chunk_unit(row);
  std::uint32_t budget = std::min(prefill_budget_, row);
  if (options_.chunking == ChunkingPolicy::kEqualProgress && in_.capabilities.plans_chunks)
    budget = std::min(budget, unit);
  if (remaining <= budget) return remaining;
  // A long one goes alone.
  if (!in_.capabilities.plans_chunks) return n_planned_prefills == 0 ? remaining : 0;
  if (options_.chunking == ChunkingPolicy::kWholePrompts && remaining <= std::min(row, step_max_))
    return 0;
  if (chunk_min_ < in_.cache->block_tokens()) return budget;
  const std::uint32_t begin = first / in_.cache->block_tokens() * in_.cache->block_tokens();
  return base::sub_sat(begin + (first - begin + budget) / unit * unit, first);
}

// What the prompts of the step leave of it goes to them, a unit each in turn.
void Scheduler::share_rest() {
  if (!in_.capabilities.plans_chunks) return;
  bool any = true;
  while (any && prefill_budget_ > 0) {
    any = false;
    for (PlannedRow& row : out_.rows) any |= row.prefill && extend(row);
  }
}

bool Scheduler::extend(PlannedRow& row) {
  const std::uint32_t end = row.first_position + row.n_tokens;
  const std::uint32_t remaining = row.sequence->context_end() - end;
  const std::uint32_t row_max = row_tokens_max_of(*row.sequence);
  const std::uint32_t more = std::min(chunk_unit(row_max), remaining);
  if (more == 0 || more > prefill_budget_ || row.n_tokens + more > row_max) return false;
  const std::uint32_t n_blocks = std::max(row.n_blocks, in_.cache->blocks_for(end + more));
  const std::uint32_t n_new = n_blocks - row.n_blocks;
  if (!fits_now(n_new)) return false;
  for (std::size_t g = 0; g < available_.size(); ++g) {
    available_[g] -= n_new;
    outstanding_[g] = base::sub_sat(outstanding_[g], n_new);
  }
  row.n_tokens += more;
  row.n_blocks = n_blocks;
  row.sample = more == remaining;
  prefill_budget_ -= more;
  return true;
}

// What `s` may still ask for: its whole future under a reserving policy, else the rest of its known context. In a
// window group the rows to come, and those in flight, decide how much it has in use at once.
std::uint32_t Scheduler::reserved_blocks(const Sequence& s,
                                         std::size_t group,
                                         std::uint32_t computed,
                                         Held held) const {
  const std::uint32_t block = in_.cache->block_tokens();
  const std::uint32_t window = in_.cache->window_tokens(group);
  std::uint32_t n_tokens = s.context_end();
  if (rules_.reserves_answers) n_tokens = std::max(s.tokens_max(), n_tokens);
  if (rules_.foresees_lengths && window > 0) n_tokens = std::max(expected_end(s), n_tokens);
  const std::uint32_t to_come =
      s.n_blocks_to(in_.cache->blocks_for(n_tokens), held.n_entries, block);
  if (window == 0 || to_come == 0) return to_come;
  const std::uint32_t row = std::max({base::sub_sat(s.context_end(), computed) + s.n_pending_extra,
                                      1 + in_.capabilities.draft_tokens_max,
                                      1 + s.draft_tokens(in_.capabilities, block)});
  const std::uint32_t peak = s.n_places() * peak_blocks(block,
                                                        in_.cache->group_options(group),
                                                        n_tokens,
                                                        std::min(row, row_tokens_max_of(s)));
  return std::min(base::sub_sat(peak, held.n_blocks), to_come);
}

// After this plan's row of running[index].
std::uint32_t Scheduler::reserved_running(std::size_t index, std::size_t group) const {
  const Sequence& s = *in_.running[index];
  const std::uint32_t n_entries = blocks_after_[index];
  return reserved_blocks(
      s, group, s.computed, {.n_entries = n_entries, .n_blocks = n_entries - s.n_released(group)});
}

}  // namespace coxswain::batch
