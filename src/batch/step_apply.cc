// EngineCore, second half of a step: a StepResult moves the sequences on and becomes events.

#include <algorithm>
#include <cassert>

#include "batch/engine_core.h"

namespace coxswain::batch {
namespace {

double seconds(std::chrono::nanoseconds d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

Result<StepResult> EngineCore::wait_oldest() {
  assert(!steps_.empty());
  const Step& step = steps_.front();
  if (!step.refused.ok()) return step.refused;
  return runner_->wait(step.ticket);
}

void EngineCore::apply_oldest(Result<StepResult> result, TimePoint now) {
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  Status status = result.ok() ? result_matches(step, result.value()) : result.status();
  if (status.code() == Code::kUnavailable) {
    lose_runner(status);
  } else {
    cache_->retire(step.ticket.step);
    ++stats_.steps;
    stats_.last_step_at = now;
    if (status.ok()) {
      observe_step(step, result.value().timings, now);
      for (std::size_t i = 0; i < step.rows.size(); ++i)
        apply_row(step.rows[i], result.value().sequences[i], now);
    } else {
      apply_failed_step(step, status);
    }
  }
  gone_.clear();
}

Status EngineCore::result_matches(const Step& step, const StepResult& result) const {
  if (result.epoch != info_.epoch) return {Code::kUnavailable, "the runner was started anew"};
  if (result.step != step.ticket.step) return internal_error("the runner answered another step");
  const bool same = std::ranges::equal(
      step.rows,
      result.sequences,
      [](SequenceId a, SequenceId b) { return a == b; },
      [](const StepRow& row) { return row.sequence->id; },
      [](const SequenceResult& r) { return r.sequence; });
  if (!same) return internal_error("the runner answered other rows than it was given");
  return {};
}

void EngineCore::settle(const StepRow& row) {
  --row.sequence->n_in_flight;
  if (row.sample) --row.sequence->n_pending;
}

void EngineCore::apply_row(const StepRow& row, SequenceResult& result, TimePoint now) {
  Sequence& s = *row.sequence;
  settle(row);
  if (s.state == SequenceState::kEnding) {  // a surplus row: its result is nobody's
    if (s.n_in_flight == 0) send_final(s);
    return;
  }
  if (!result.status.ok()) {
    s.known_to_runner = false;  // the runner has dropped it
    fail(s, generation_error(result.status));
    return;
  }
  if (result.tokens.size() != (row.sample ? 1U : 0U)) {
    fail(s,
         generation_error(
             internal_error("the runner sampled where it should not, or did not where it should")));
    return;
  }
  if (s.request.prompt_logprobs) collect_prompt(s, row, result.prompt);
  if (row.sample) s.tokens.push_back(result.tokens[0].id);
  if (s.state == SequenceState::kRunning) {  // else it was paused meanwhile: only the token counts
    s.computed = row.first_position + row.n_tokens;
    cache_->publish(s.lease, std::span(s.tokens).first(s.computed));
  }
  if (row.sample) emit_token(s, result, now);
}

// After a pause in the middle of a prompt positions come twice; the first answer stands.
void EngineCore::collect_prompt(Sequence& s, const StepRow& row, std::vector<PromptToken>& prompt) {
  if (s.prompt_sent) return;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::size_t position = row.first_position + i;
    if (position == s.prompt_tokens.size() && position < s.n_prompt)
      s.prompt_tokens.push_back(std::move(prompt[i]));
  }
}

void EngineCore::emit_token(Sequence& s, SequenceResult& result, TimePoint now) {
  ++stats_.generated_tokens;
  TokenEvent event;
  event.tokens = std::move(result.tokens);
  if (s.n_produced() == 1) s.first_token_at = now;
  if (s.request.prompt_logprobs && !s.prompt_sent) {
    if (!s.prompt_complete()) {
      fail(s, generation_error(internal_error("log-probabilities of the prompt are missing")));
      return;
    }
    event.prompt = std::exchange(s.prompt_tokens, {});
    s.prompt_sent = true;
  }
  if (result.finish) {
    event.finish = std::move(result.finish);
    end(s, Outcome::kFinished, std::move(event));
  } else if (s.n_produced() >= s.request.stopping.max_new_tokens) {
    fail(s, generation_error(internal_error("the runner went on after max_new_tokens")));
  } else {
    s.sink->on_event(std::move(event));
  }
}

void EngineCore::apply_failed_step(const Step& step, const Status& status) {
  for (const StepRow& row : step.rows) {
    Sequence& s = *row.sequence;
    settle(row);
    if (s.state != SequenceState::kEnding) {
      fail(s, generation_error(status));
    } else if (s.n_in_flight == 0) {
      send_final(s);
    }
  }
  if (hooks_.metrics == nullptr) return;
  hooks_.metrics
      ->batch_inference_failure(step.prefill ? telemetry::BatchMethod::kPrefill
                                             : telemetry::BatchMethod::kDecode)
      .add();
}

void EngineCore::observe_step(const Step& step, const StepTimings& timings, TimePoint now) {
  if (hooks_.metrics == nullptr || step.rows.empty()) return;
  telemetry::Metrics& m = *hooks_.metrics;
  const auto method =
      step.prefill ? telemetry::BatchMethod::kPrefill : telemetry::BatchMethod::kDecode;
  m.batch_inference_success(method).add();
  m.batch_inference_duration(method).observe(seconds(now - step.submitted_at));
  m.batch_forward_duration(method).observe(seconds(timings.forward));
  m.batch_decode_duration(method).observe(seconds(timings.sample));
}

void EngineCore::observe_state() const {
  if (hooks_.metrics == nullptr) return;
  telemetry::Metrics& m = *hooks_.metrics;
  const EngineStats s = stats();
  std::uint64_t n_tokens = 0;
  for (const Sequence* sequence : running_) n_tokens += sequence->tokens_max();
  m.queue_size().set(s.queued);
  m.batch_current_size().set(static_cast<double>(running_.size()));
  m.batch_current_max_tokens().set(static_cast<double>(n_tokens));
  m.batch_max_total_tokens().set(
      static_cast<double>(cache_->n_groups() == 0 ? 0 : cache_->counts(0).total) *
      cache_->block_tokens());
  m.kv_blocks_total().set(s.blocks_total);
  m.kv_blocks_free().set(s.blocks_free);
  m.kv_blocks_cached().set(s.blocks_cached);
  m.kv_blocks_leased().set(s.blocks_leased);
  m.kv_blocks_retiring().set(s.blocks_retiring);
}

}  // namespace coxswain::batch
