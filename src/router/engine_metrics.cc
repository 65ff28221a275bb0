#include "router/engine_metrics.h"

namespace coxswain::router {
namespace {

telemetry::BatchMethod method_of(batch::StepKind kind) {
  return kind == batch::StepKind::kPrefill ? telemetry::BatchMethod::kPrefill
                                           : telemetry::BatchMethod::kDecode;
}

double seconds(std::chrono::nanoseconds d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

void EngineMetrics::on_state(const batch::EngineState& state) {
  const batch::EngineStats& s = state.stats;
  queue_.set(state.queued.low, state.queued.normal, state.queued.high);
  batch_size_.set(state.batch_sequences);
  batch_tokens_max_.set(static_cast<double>(state.batch_tokens_max));
  cache_tokens_.set(static_cast<double>(state.cache_tokens_total));
  blocks_total_.set(s.blocks_total);
  blocks_free_.set(s.blocks_free);
  blocks_cached_.set(s.blocks_cached);
  blocks_leased_.set(s.blocks_leased);
  blocks_retiring_.set(s.blocks_retiring);
  if (s.tier != tier_) count_tier(s.tier);
}

// A driver of a new runner counts anew what it has onboarded and skipped.
void EngineMetrics::count_tier(const KvTierStats& tier) {
  const auto more = [](std::uint64_t now, std::uint64_t before) {
    return now >= before ? now - before : now;
  };
  metrics_.kv_tier_blocks_offloaded.add(more(tier.blocks_offloaded, tier_.blocks_offloaded));
  metrics_.kv_tier_blocks_onboarded.add(more(tier.blocks_onboarded, tier_.blocks_onboarded));
  metrics_.kv_tier_memory_blocks_onboarded.add(
      more(tier.memory_blocks_onboarded, tier_.memory_blocks_onboarded));
  metrics_.kv_tier_paused_blocks_offloaded.add(
      more(tier.paused_blocks_offloaded, tier_.paused_blocks_offloaded));
  metrics_.kv_tier_paused_blocks_onboarded.add(
      more(tier.paused_blocks_onboarded, tier_.paused_blocks_onboarded));
  metrics_.kv_tier_blocks_refused.add(more(tier.blocks_refused, tier_.blocks_refused));
  metrics_.kv_tier_blocks_skipped.add(more(tier.blocks_skipped, tier_.blocks_skipped));
  tier_blocks_.set(static_cast<double>(tier.blocks_held));
  tier_bytes_.set(static_cast<double>(tier.bytes_held));
  tier_memory_blocks_.set(static_cast<double>(tier.memory_blocks_held));
  tier_memory_bytes_.set(static_cast<double>(tier.memory_bytes_held));
  tier_ = tier;
}

void EngineMetrics::on_request_admitted(const batch::RequestAdmitted& request) {
  metrics_.prompt_tokens.add(request.n_prompt_tokens);
  metrics_.prefix_cache_hit_tokens.add(request.n_cached_tokens);
  metrics_.prefix_cache_copied_tokens.add(request.n_copied_tokens);
  switch (request.hit) {
    case batch::PrefixHit::kHit:
      return metrics_.prefix_cache_hits.add();
    case batch::PrefixHit::kPartial:
      return metrics_.prefix_cache_partial_hits.add();
    case batch::PrefixHit::kMiss:
      return metrics_.prefix_cache_misses.add();
  }
}

void EngineMetrics::on_admissions(std::uint32_t n_requests) {
  metrics_.batch_next_size.observe(n_requests);
}

void EngineMetrics::on_pause(RequestId) {
  metrics_.preemptions.add();
}

void EngineMetrics::on_step_submitted(batch::StepKind kind) {
  metrics_.batch_inference_count[method_of(kind)].add();
}

void EngineMetrics::on_step_finished(const batch::StepFinished& step) {
  const telemetry::BatchMethod method = method_of(step.kind);
  metrics_.batch_inference_success[method].add();
  metrics_.queue_head_steps[step.wait].add();
  metrics_.batch_inference_duration[method].observe(seconds(step.duration));
  metrics_.batch_forward_duration[method].observe(seconds(step.timings.forward));
  metrics_.batch_decode_duration[method].observe(seconds(step.timings.sample));
  if (step.floor.count() > 0) note_floor(step);
}

// One such step may be a slow moment; so many are the machine.
void EngineMetrics::note_floor(const batch::StepFinished& step) {
  constexpr std::uint64_t kManySteps = 64;
  metrics_.itl_floor_steps.add();
  if (++n_floor_steps_ != kManySteps) return;
  log_.warn("--target-itl-ms is less than what decodes and one block of a prompt take here",
            {{"steps", kManySteps},
             {"sequences", std::uint64_t{step.n_rows}},
             {"expected_ms", seconds(step.floor) * 1000}});
}

void EngineMetrics::on_step_failed(batch::StepKind kind, const Status&) {
  metrics_.batch_inference_failure[method_of(kind)].add();
}

void EngineMetrics::on_drafts(const batch::DraftCounts& drafts) {
  metrics_.request_skipped_tokens.observe(drafts.accepted);
  metrics_.draft_tokens.add(drafts.computed);
  metrics_.draft_tokens_accepted.add(drafts.accepted);
}

void EngineMetrics::on_runner_up() {
  replica_up_.set(1);
}

void EngineMetrics::on_runner_lost(const Status& why) {
  replica_up_.set(0);
  log_.error("the model runner is lost", {{"error", std::string_view(why.message())}});
  if (on_lost_) on_lost_();
}

void EngineMetrics::on_runner_replaced(std::size_t n_requests) {
  log_.info("the model runner is replaced", {{"waiting", std::uint64_t{n_requests}}});
}

void EngineMetrics::on_broken_invariant(std::string_view what) {
  log_.error("an invariant of the engine is broken", {{"what", what}});
}

}  // namespace coxswain::router
