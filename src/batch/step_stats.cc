// EngineCore: the statistics of a step, for an observer that wants them.

#include <utility>

#include "batch/engine_core.h"

namespace coxswain::batch {
namespace {

RequestStats stats_of(const Sequence& s, bool scheduled) {
  RequestStats out{.id = s.request.id,
                   .context_position = s.computed,
                   .n_generated_tokens = s.n_produced(),
                   .n_token_iterations = s.n_token_steps,
                   .scheduled = scheduled,
                   .paused = s.state == SequenceState::kPaused,
                   .use = s.block_use,
                   .arrived_at = s.queued_at,
                   .first_token_at = s.first_token_at,
                   .last_token_at = s.last_token_at,
                   .first_iteration = s.first_token_step,
                   .last_iteration = s.last_token_step};
  if (s.state != SequenceState::kWaiting) out.scheduled_at = s.scheduled_at;
  if (s.state == SequenceState::kEnding) {
    out.stage = RequestStage::kComplete;
  } else if (s.n_produced() > 0) {
    out.stage = RequestStage::kGeneration;
  } else if (s.state != SequenceState::kWaiting) {
    out.stage = RequestStage::kContext;
  }
  return out;
}

}  // namespace

void EngineCore::count_plan(const Decision& decision, Step& step) {
  IterationStats& out = step.stats;
  out.wait = decision.wait;
  if (!stats_wanted_.iterations && !stats_wanted_.requests) return;
  if (step.rows.empty()) return;  // pauses alone: the next step tells them
  out.n_paused = std::exchange(n_paused_, 0);
  out.batch_size_max = batch_size_max();
  out.prompt_tokens_max = decision.prompt_tokens_max;
  for (const StepRow& row : step.rows) {
    ++out.n_scheduled;
    ++(row.prefill ? out.n_context : out.n_generation);
    if (row.prefill) out.n_context_tokens += row.n_tokens;
  }
}

// Before the events leave: a sequence that the step has ended is still there.
void EngineCore::observe_iteration(Step& step, TimePoint now) {
  if (step.rows.empty() || (!stats_wanted_.iterations && !stats_wanted_.requests)) return;
  IterationStats& out = step.stats;
  out.iteration = step.ticket.step;
  out.ended_at = now;
  out.n_queued = static_cast<std::uint32_t>(n_never_scheduled_);
  out.n_active = static_cast<std::uint32_t>(n_sequences() - n_never_scheduled_);
  out.n_completed = std::exchange(n_ended_, 0);
  for (std::size_t g = 0; g < cache_->n_groups(); ++g) {
    const kvcache::BlockCounts& counts = cache_->counts(g);
    out.kv.blocks_max += counts.total;
    out.kv.blocks_free += counts.free + counts.cached;
    out.kv.blocks_used += counts.leased + counts.retiring;
  }
  out.kv.block_tokens = cache_->block_tokens();
  out.kv.use = block_use_;
  if (tier_ != nullptr) out.kv.tier = tier_->stats();
  request_stats_.clear();
  if (stats_wanted_.requests) collect_requests(step);
  observer_.on_iteration(out, request_stats_);
}

void EngineCore::collect_requests(const Step& step) {
  for (const StepRow& row : step.rows) {
    if (row.slot > 0) continue;
    Sequence& s = *row.sequence;
    // Of one that ended before, the row was surplus.
    if (s.state == SequenceState::kEnding && s.ended_step != applied_step_) continue;
    s.told_step = applied_step_;
    request_stats_.push_back(stats_of(s, true));
  }
  for (const Sequence* s : running_) {
    if (s->told_step != applied_step_) request_stats_.push_back(stats_of(*s, false));
  }
  for (const auto& [rank, s] : waiting_.in_order()) {
    if (s->told_step != applied_step_) request_stats_.push_back(stats_of(*s, false));
  }
}

}  // namespace coxswain::batch
