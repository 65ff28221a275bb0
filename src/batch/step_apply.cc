// EngineCore, second half of a step: a StepResult moves the sequences on and becomes events.

#include <algorithm>
#include <cassert>
#include <utility>

#include "batch/engine_admission.h"
#include "batch/engine_core.h"

namespace coxswain::batch {

namespace {

// First tokens of a step that are each told before the next one is looked at. More are as many that nobody notices.
constexpr std::size_t kToldAloneMax = 8;

}  // namespace

Result<StepResult> EngineCore::wait_oldest(TimePoint until) {
  assert(!steps_.empty());
  const Step& step = steps_.front();
  if (!step.refused.ok()) return step.refused;
  return runner_->wait(step.ticket, until);
}

bool EngineCore::still_runs(const Result<StepResult>& result) const {
  return steps_.front().refused.ok() && result.status().code() == Code::kDeadlineExceeded;
}

void EngineCore::apply_oldest(Result<StepResult> result, TimePoint now) {
  Step step = std::move(steps_.front());
  steps_.pop_front();
  const Status status = outcome(step, result);
  if (status.code() == Code::kUnavailable) {
    hooks_.runner_lost();
    lose_runner(status);
  } else {
    cache_->retire(step.ticket.step);
    ++stats_.steps;
    forecast_.stepped();
    applied_step_ = step.ticket.step;
    step.stats.duration =
        now - std::max(step.submitted_at, std::exchange(stats_.last_step_at, now));
    if (status.ok()) {
      observe_step(step, result.value().timings, now);
      const std::uint32_t n_layers = result.value().layers_ready.end;
      // It waited for weights, if it is not the first of a runner.
      const bool waited = std::exchange(stats_.layers_ready, n_layers) < n_layers;
      if (learns_costs() && !step.rows.empty() && !waited)
        step_cost_.observe(step.shape,
                           std::chrono::duration<double>(step.stats.duration).count(),
                           step.expected_seconds);
      const std::uint64_t n_before = stats_.generated_tokens;
      apply_rows(step, result.value(), now);
      step.stats.n_decoded_tokens =
          step.n_early_tokens + static_cast<std::uint32_t>(stats_.generated_tokens - n_before);
      observe_iteration(step, now);
    } else {
      apply_failed_step(step, status);
    }
    transfers_->retired(step.ticket.step, status, step.stats.duration);
    retire_layers(step, result, status);
  }
  step.rows.clear();
  spare_rows_ = std::move(step.rows);
  finish_call();
}

// What follows is pushed by whom it tells; if nothing does, the next plan says what the runner may forget.
void EngineCore::retire_layers(const Step& step,
                               const Result<StepResult>& result,
                               const Status& status) {
  const bool row = status.ok() && step.layer_row.has_value();
  layer_steps_.retired(step.ticket.step, row ? result->sequences.front().status : status);
  if (layer_steps_.has_work()) return;
  for (const SequenceId id : layer_steps_.take_forgotten()) {
    dropped_.push_back(id);
    tells_drops_ = true;
  }
}

// Where a step fails that later ones count on, theirs are worth nothing either: all begins anew, with another runner.
Status EngineCore::outcome(const Step& step, const Result<StepResult>& result) const {
  Status out = result.ok() ? result_matches(step, *result) : result.status();
  if (!step.counted_on) return out;
  if (out.ok() && step.layer_row) out = result->sequences.front().status;
  if (out.ok()) return out;
  return {Code::kUnavailable, ErrorKind::kUnavailable, std::string(out.message())};
}

Status EngineCore::result_matches(const Step& step, const StepResult& result) const {
  if (result.epoch != info_.epoch) return {Code::kUnavailable, "the runner was started anew"};
  if (result.step != step.ticket.step) return internal_error("the runner answered another step");
  if (step.layer_row) {
    const auto& sequences = result.sequences;
    if (sequences.size() == 1 && sequences.front().sequence == *step.layer_row) return {};
    return internal_error("the runner answered other rows than it was given");
  }
  const bool same = std::ranges::equal(
      step.rows,
      result.sequences,
      [](SequenceId a, SequenceId b) { return a == b; },
      [](const StepRow& row) { return row.id; },
      [](const SequenceResult& r) { return r.sequence; });
  if (!same) return internal_error("the runner answered other rows than it was given");
  return {};
}

void EngineCore::settle(const StepRow& row) {
  if (row.slot > 0) return;
  --row.sequence->n_in_flight;
  if (!row.early) settle_tokens(row);
}

void EngineCore::settle_tokens(const StepRow& row) {
  if (!row.sample) return;
  --row.sequence->n_pending;
  row.sequence->n_pending_extra -= row.n_draft_max;
}

// What is wrong with the tokens or the position of a result, or null. Rows of a running sequence apply in their
// order, so the row began at s.computed; where one began that was paused meanwhile, nobody needs to know.
const char* EngineCore::wrong_with(const Sequence& s,
                                   const StepRow& row,
                                   const SequenceResult& result) {
  const std::size_t n = result.tokens.size();
  const std::size_t n_known = s.tokens.size() + n;
  const bool running = s.state == SequenceState::kRunning;
  const std::uint32_t nearest = s.computed + row.n_tokens;
  const std::uint32_t next = result.next_position != 0 ? result.next_position : nearest;
  // A row may end before the end of what is known, and yields nothing then.
  const bool may_yield_none = !row.sample || !running || next < n_known;
  const std::size_t n_most = row.sample ? 1U + row.n_draft_max : 0U;
  if (n > n_most || (n == 0 && !may_yield_none))
    return "the runner sampled where it should not, or did not where it should";
  if (s.n_produced() + n > s.n_new_max) return "the runner went on after max_new_tokens";
  if (!running || result.finish) return nullptr;
  const bool in_bounds = next >= nearest && next <= nearest + row.n_draft_max &&
                         (n > 0 ? next < n_known : next <= n_known);
  return in_bounds ? nullptr : "the runner stands at a position that the row cannot reach";
}

// Who waits for a first token has it before the other rows of a large batch are looked at. Only where events are handed
// on: a sink of its own may call back, and the step is in the middle.
void EngineCore::apply_rows(Step& step, StepResult& result, TimePoint now) {
  const auto apply = [&](bool first_tokens_only) {
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      StepRow& row = step.rows[i];
      if (row.applied || (first_tokens_only && !gives_first_token(row))) continue;
      row.applied = true;
      apply_row(row, result.sequences[i], now);
    }
  };
  apply(true);
  const bool all_hand_on = std::ranges::all_of(
      events_, [](const SinkEvent& event) { return event.sink->outlet() != nullptr; });
  if (all_hand_on) tell_events();
  apply(false);
}

// Those of sequences that go on, and of sinks whose events are handed on: nothing ends in the middle of a step. The
// rest waits for the result, which has these rows again.
void EngineCore::on_early(StepTicket ticket,
                          std::vector<SequenceResult> first_tokens,
                          TimePoint now) {
  if (steps_.empty() || steps_.front().ticket.step != ticket.step || !steps_.front().refused.ok())
    return;
  Step& step = steps_.front();
  const std::uint64_t applied_before = std::exchange(applied_step_, ticket.step);
  const std::uint64_t n_before = stats_.generated_tokens;
  std::size_t n_told_alone = 0;
  auto row = step.rows.begin();
  for (SequenceResult& result : first_tokens) {
    row = std::find_if(row, step.rows.end(), [&](const StepRow& r) {
      return r.id == result.sequence && r.slot == 0;
    });
    if (row == step.rows.end()) break;  // they come in the order of the rows
    if (!may_be_early(*row, result)) continue;
    row->early = true;
    Sequence& sequence = *row->sequence;
    settle_tokens(*row);
    append_tokens(sequence, *row, result);
    emit_tokens(sequence, result, now);
    if (n_told_alone++ < kToldAloneMax) tell_events();
    advance(sequence, *row, result.next_position, now);
  }
  step.n_early_tokens += static_cast<std::uint32_t>(stats_.generated_tokens - n_before);
  applied_step_ = applied_before;
  tell_events();
}

bool EngineCore::may_be_early(const StepRow& row, const SequenceResult& result) {
  const Sequence& s = *row.sequence;
  return !row.early && gives_first_token(row) && s.state == SequenceState::kRunning &&
         s.sink->outlet() != nullptr && !s.wants_more && !s.request.context_only &&
         result.status.ok() && !result.tokens.empty() && !result.finish &&
         s.n_produced() + result.tokens.size() < s.n_new_max &&
         wrong_with(s, row, result) == nullptr;
}

bool EngineCore::gives_first_token(const StepRow& row) {
  const Sequence& s = *row.sequence;
  return row.sample && row.slot == 0 && s.first_token_step == 0 && s.beams == nullptr;
}

void EngineCore::apply_row(const StepRow& row, SequenceResult& result, TimePoint now) {
  Sequence& s = *row.sequence;
  if (row.slot > 0) return keep_candidates(row, result);
  settle(row);
  if (s.state == SequenceState::kEnding) {                // a surplus row: its result is nobody's
    if (!result.status.ok()) std::erase(dropped_, s.id);  // the runner has dropped it
    retire(s);
    return;
  }
  if (!result.status.ok()) {
    s.known_to_runner = false;  // the runner has dropped it
    fail(s, generation_error(result.status));
    return;
  }
  if (row.early) return;
  const char* wrong = s.beams == nullptr ? wrong_with(s, row, result) : nullptr;
  if (wrong != nullptr) return fail(s, generation_error(internal_error(wrong)));
  if (s.wants_prompt && !s.prompt_sent) {
    collect_prompt(s, row, result.prompt);
    if (result.outputs != nullptr) collect_context(s, row, *result.outputs);
  }
  if (s.beams != nullptr) return apply_beam_row(row, result, now);
  if (s.wants_more && !result.tokens.empty() && !outputs_complete(s, result)) {
    return fail(
        s, generation_error(internal_error("log-probabilities, logits or states are missing")));
  }
  take_tokens(s, row, result, now);
}

void EngineCore::take_tokens(Sequence& s,
                             const StepRow& row,
                             SequenceResult& result,
                             TimePoint now) {
  append_tokens(s, row, result);
  advance(s, row, result.next_position, now);
  if (!result.tokens.empty()) emit_tokens(s, result, now);
}

void EngineCore::append_tokens(Sequence& s, const StepRow& row, const SequenceResult& result) {
  for (const OutputToken& token : result.tokens) s.tokens.push_back(token.id);
  if (row.n_draft_max > 0 && !result.tokens.empty()) note_drafts(s, result);
}

// To `next_position`, or behind the row if it is 0.
void EngineCore::advance(Sequence& s,
                         const StepRow& row,
                         std::uint32_t next_position,
                         TimePoint now) {
  if (s.state != SequenceState::kRunning) return;  // it was paused meanwhile: only the tokens count
  const std::uint32_t nearest = s.computed + row.n_tokens;
  const std::uint32_t next = next_position != 0 ? next_position : nearest;
  s.computed = std::min(next, static_cast<std::uint32_t>(s.tokens.size()));
  // Rows in flight stand so much further on.
  s.planned += s.computed - std::min(s.computed, nearest);
  const std::uint32_t n_shown = std::min(s.computed, s.publish_end());
  cache_->publish(s.lease, std::span(s.tokens).first(n_shown), s.retention_rule());
  if (s.request.on_blocks_ahead && s.computed < s.n_prompt) tell_blocks_ahead(s, now);
}

// Tokens beyond one may also be forced ones, which nobody has guessed.
void EngineCore::note_drafts(Sequence& s, const SequenceResult& result) {
  const auto n_more = static_cast<std::uint32_t>(result.tokens.size()) - 1;
  const DraftCounts counts{.computed = result.n_drafts,
                           .accepted = std::min(n_more, result.n_drafts)};
  s.drafts += counts;
  observer_.on_drafts(counts);
}

// After a pause in the middle of a prompt positions come twice; the first answer stands.
void EngineCore::collect_prompt(Sequence& s, const StepRow& row, std::vector<PromptToken>& prompt) {
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::size_t position = row.first_position + i;
    if (position == s.prompt_tokens.size() && position < s.n_prompt)
      s.prompt_tokens.push_back(std::move(prompt[i]));
  }
}

// The same of logits and hidden states. Rows that are missing are noticed by emit_tokens().
void EngineCore::collect_context(Sequence& s, const StepRow& row, SequenceOutputs& from) {
  const std::uint32_t end = std::min(row.first_position + row.n_tokens, s.n_prompt);
  if (row.first_position > s.n_context_outputs || end <= s.n_context_outputs) return;
  const std::size_t n_skipped = s.n_context_outputs - row.first_position;
  const std::size_t n_rows = end - row.first_position;
  const auto append = [&](std::vector<float>& rows, std::vector<float>& to, std::size_t width) {
    if (rows.size() != n_rows * width) return false;
    if (n_rows == s.n_prompt) {
      to = std::move(rows);
    } else {
      to.reserve(s.n_prompt * width);
      to.insert(
          to.end(), rows.begin() + static_cast<std::ptrdiff_t>(n_skipped * width), rows.end());
    }
    return true;
  };
  const OutputParams& wanted = s.request.outputs;
  SequenceOutputs& to = s.context_outputs;
  if (wanted.context_logits && !append(from.context_logits, to.context_logits, info_.vocab_size)) {
    return;
  }
  if (wanted.context_hidden && !append(from.context_hidden, to.context_hidden, info_.hidden_size)) {
    return;
  }
  s.n_context_outputs = end;
}

// Whether all is there that the request wants with the tokens of `result`.
bool EngineCore::outputs_complete(const Sequence& s, const SequenceResult& result) const {
  if (s.wants_prompt && !s.prompt_complete()) return false;
  const OutputParams& wanted = s.request.outputs;
  if (result.outputs == nullptr) return !wanted.any_generation();
  const SequenceOutputs& given = *result.outputs;
  const std::size_t n = result.tokens.size();
  return given.generation_logits.size() == (wanted.generation_logits ? n * info_.vocab_size : 0) &&
         given.generation_hidden.size() == (wanted.generation_hidden ? n * info_.hidden_size : 0);
}

void EngineCore::add_outputs(Sequence& s, SequenceResult& result, TokenEvent& event) {
  if (s.wants_prompt && !s.prompt_sent) {
    event.prompt = std::exchange(s.prompt_tokens, {});
    if (s.request.outputs.any_context())
      event.outputs = std::make_shared<SequenceOutputs>(std::exchange(s.context_outputs, {}));
    s.prompt_sent = true;
    if (s.siblings != nullptr && !s.siblings->has_prompt) {
      s.siblings->prompt = event.prompt;
      if (event.outputs != nullptr) s.siblings->context = *event.outputs;
      s.siblings->has_prompt = true;
    }
  }
  if (event.outputs == nullptr) {
    event.outputs = std::move(result.outputs);
    if (event.outputs == nullptr) return;
    // Sent before; a pause made the runner compute them again.
    event.outputs->context_logits.clear();
    event.outputs->context_hidden.clear();
  } else if (result.outputs != nullptr) {
    event.outputs->generation_logits = std::move(result.outputs->generation_logits);
    event.outputs->generation_hidden = std::move(result.outputs->generation_hidden);
  }
}

void EngineCore::note_tokens(Sequence& s, std::uint32_t n_new, TimePoint now) {
  stats_.generated_tokens += n_new;
  if (s.first_token_step == 0) {
    s.first_token_at = now;
    s.first_token_step = applied_step_;
  }
  s.last_token_at = now;
  s.last_token_step = applied_step_;
  ++s.n_token_steps;
}

void EngineCore::emit_tokens(Sequence& s, SequenceResult& result, TimePoint now) {
  const auto n_new = static_cast<std::uint32_t>(result.tokens.size());
  note_tokens(s, n_new, now);
  const bool parks = !result.finish && s.request.context_only;
  if (!result.finish && !parks && s.n_produced() >= s.n_new_max)
    return fail(s, generation_error(internal_error("the runner went on after max_new_tokens")));
  const auto fill = [&](TokenEvent& event) {
    for (const OutputToken& token : result.tokens)
      s.cumulative_logprob += static_cast<double>(token.logprob);
    event.sequence = s.index;
    event.cumulative_logprob = s.cumulative_logprob;
    event.tokens = std::move(result.tokens);
    if (s.wants_more) add_outputs(s, result, event);
  };
  if (!result.finish && !parks) {
    SinkEvent& out = events_.emplace_back();  // an event is large: made where it stays
    out.sink = s.sink;
    stamp(out.event, s);
    return fill(out.event);
  }
  TokenEvent last;
  fill(last);
  if (parks) {
    last.parked = park(s, s.computed, now);
  } else {
    forecast_.finished(s.n_produced(), s.request.stopping.max_new_tokens);
    last.finish = std::move(result.finish);
  }
  end(s, Outcome::kFinished, std::move(last));
}

// From a piece on.
void EngineCore::tell_blocks_ahead(Sequence& s, TimePoint now) {
  const std::uint32_t of_a_piece = handover_piece_blocks(info_);
  if (of_a_piece == 0) return;
  const std::uint32_t n_blocks = s.computed / cache_->block_tokens();
  if (n_blocks < s.n_blocks_told + of_a_piece) return;
  s.n_blocks_told = n_blocks;
  std::shared_ptr<ParkedContext> front = park(s, n_blocks * cache_->block_tokens(), now);
  if (front->hold == 0) return;
  if (front->n_blocks < n_blocks)  // the window of a group has moved on
    return transfers_->close(front->hold);
  front->attachments_max = handover_attachments_max(info_);
  s.request.on_blocks_ahead(std::move(front));
}

// What is computed of the prompt is held for whoever goes on, in another engine.
std::shared_ptr<ParkedContext> EngineCore::park(const Sequence& s,
                                                std::uint32_t n_tokens,
                                                TimePoint now) {
  auto out = std::make_shared<ParkedContext>();
  out->until = now + *s.request.context_only;
  out->incarnation = info_.epoch;
  const auto computed = std::span(s.tokens).first(n_tokens);
  HeldPrefix held = transfers_->hold(s.identity, computed, out->until);
  if (held.id == 0) return out;
  out->hold = held.id;
  out->n_blocks = held.n_blocks;
  out->piece_blocks = handover_piece_blocks(info_);
  out->first_blocks = std::move(held.first_blocks);
  out->layout = std::make_shared<const KvLayout>(kv_layout_of(info_));
  out->runner = runner_;
  out->slots = transfers_->slots();
  out->digest = prefix_digest(s.identity,
                              computed.first(std::size_t{held.n_blocks} * cache_->block_tokens()));
  return out;
}

// Whom the step told the runner to forget is told again with the next plan: twice does no harm.
void EngineCore::apply_failed_step(const Step& step, const Status& status) {
  dropped_.insert(dropped_.end(), step.dropped.begin(), step.dropped.end());
  for (const StepRow& row : step.rows) {
    if (row.slot > 0) continue;
    Sequence& s = *row.sequence;
    settle(row);
    if (s.state != SequenceState::kEnding) {
      fail(s, generation_error(status));
    } else {
      retire(s);
    }
  }
  observer_.on_step_failed(kind_of(step), status);
}

StepKind EngineCore::kind_of(const Step& step) {
  return step.prefill ? StepKind::kPrefill : StepKind::kDecode;
}

void EngineCore::observe_step(const Step& step, const StepTimings& timings, TimePoint now) {
  if (step.rows.empty()) return;
  std::uint32_t n_prompt_tokens = 0;
  if (step.prefill)
    for (const StepRow& row : step.rows) n_prompt_tokens += row.prefill ? row.n_tokens : 0;
  observer_.on_step_finished({.step = step.ticket.step,
                              .kind = kind_of(step),
                              .n_rows = static_cast<std::uint32_t>(step.rows.size()),
                              .n_prompt_tokens = n_prompt_tokens,
                              .duration = now - step.submitted_at,
                              .timings = timings,
                              .wait = step.stats.wait,
                              .floor = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::duration<double>(step.floor_seconds))});
}

}  // namespace coxswain::batch
