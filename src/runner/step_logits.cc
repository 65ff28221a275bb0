// StepExecutor: from the logits of a slice to tokens, candidates and log-probabilities of the prompt.

#include <algorithm>
#include <chrono>
#include <utility>

#include "runner/step_executor.h"

namespace coxswain::runner {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

}  // namespace

void StepExecutor::run_logits(std::span<LogitRow> wanted) {
  const auto begin = Clock::now();
  const std::size_t vocab_size = parts_.model->info().vocab_size;
  logit_row_ids_.clear();
  for (const LogitRow& row : wanted) logit_row_ids_.push_back(row.slice_row);
  const Status status = parts_.model->logits(
      hidden_, logit_row_ids_, {logits_.data(), wanted.size() * vocab_size}, *parts_.exec);
  const auto sampling = Clock::now();
  timings_.forward += std::chrono::duration_cast<Nanoseconds>(sampling - begin);
  parts_.exec->pool().run(wanted.size(), [&](std::size_t index, std::size_t worker) {
    if (!status.ok()) {
      wanted[index].status = status.with_context("logits");
      return;
    }
    LogitRow& row = wanted[index];
    choose(row, {logits_.data() + index * vocab_size, vocab_size}, worker);
    // The text is made here too, on every core, where no other row of these is of the same sequence.
    row.delivered = row.status.ok() && !row.ready->row->prompt_logprobs;
    if (row.delivered) deliver(row);
  });
  for (LogitRow& row : wanted) {
    if (!row.delivered) deliver(row);
  }
  timings_.sample += std::chrono::duration_cast<Nanoseconds>(Clock::now() - sampling);
}

void StepExecutor::choose(LogitRow& wanted, std::span<float> logits, std::size_t worker) {
  const SequenceState* state = wanted.ready->state;
  if (state == nullptr) return;
  if (wanted.prompt_logprob) judge_prompt(wanted, logits, worker);
  if (!wanted.sample || !wanted.status.ok()) return;
  const bool lists = wanted.ready->row->emit == Emit::kCandidates;
  if (state->spec().outputs.generation_logits && !lists)
    outputs_of(*wanted.ready->result).generation_logits.assign(logits.begin(), logits.end());
  wanted.status = process_logits(*state, logits);
  if (!wanted.status.ok()) return;
  SamplingParams listing;
  if (lists) {
    listing = state->spec().sampling;
    listing.n_top_tokens = wanted.ready->row->n_candidates;
  }
  state->find_forbidden(forbidden_[worker]);
  state->find_repetitions(repetition_scratch_[worker], repetitions_[worker]);
  wanted.status = state->find_allowed(allowed_[worker]);
  if (!wanted.status.ok()) return;
  const auto out = samplers_[worker].sample({.logits = logits,
                                             .params = lists ? &listing : &state->spec().sampling,
                                             .counts = state->counts(),
                                             .position = wanted.position + 1,
                                             .forbidden = forbidden_[worker],
                                             .allowed = allowed_[worker],
                                             .forced = state->find_forced(allowed_[worker]),
                                             .repetitions = repetitions_[worker],
                                             .previous = state->token_at(state->length() - 1)});
  wanted.status = out.status();
  if (!out.ok()) return;
  wanted.choice.token = out->token;
  wanted.choice.top.assign(out->top.begin(), out->top.end());
}

// The log-probability of the prompt token that follows, and what the model would rather have seen:
// both of the unprocessed logits.
void StepExecutor::judge_prompt(LogitRow& wanted,
                                std::span<const float> logits,
                                std::size_t worker) {
  const SequenceState& state = *wanted.ready->state;
  const TokenId token = state.token_at(wanted.position + 1);
  const auto value = sampling::logprob_of(logits, token);
  wanted.status = value.status();
  if (!value.ok()) return;
  wanted.prompt_value = value.value();
  SamplingParams plain;
  plain.n_top_tokens = state.spec().sampling.n_top_tokens;
  if (plain.n_top_tokens == 0) return;
  const auto best = samplers_[worker].sample({.logits = logits, .params = &plain});
  wanted.status = best.status();
  if (!best.ok()) return;
  const auto top = best->top.first(std::min<std::size_t>(best->top.size(), plain.n_top_tokens));
  wanted.prompt_top.assign(top.begin(), top.end());
  for (sampling::ScoredToken& other : wanted.prompt_top) {
    if (other.id == token) other.logprob = wanted.prompt_value;  // the same to the last bit
  }
}

void StepExecutor::deliver(LogitRow& wanted) {
  ReadyRow& ready = *wanted.ready;
  if (ready.state == nullptr) return;
  if (!wanted.status.ok()) return fail(ready, wanted.status);
  SequenceResult& result = *ready.result;
  if (wanted.prompt_logprob) {
    const std::size_t index = wanted.position + 1 - ready.first_position;
    auto alternatives = ready.state->with_text(wanted.prompt_top);
    if (index < result.prompt.size()) {
      result.prompt[index].logprob = wanted.prompt_value;
      result.prompt[index].alternatives = std::move(alternatives);
    } else {
      ready.state->carry = {.position = wanted.position + 1,
                            .logprob = wanted.prompt_value,
                            .alternatives = std::move(alternatives)};
    }
  }
  if (!wanted.sample) return;
  if (ready.row->emit == Emit::kCandidates) {
    const std::span<const sampling::ScoredToken> best = wanted.choice.top;
    result.candidates = ready.state->with_text(
        best.first(std::min<std::size_t>(best.size(), ready.row->n_candidates)));
    return;
  }
  SequenceState::Accepted accepted = ready.state->accept(wanted.choice);
  result.tokens.push_back(std::move(accepted.token));
  result.finish = std::move(accepted.finish);
}

}  // namespace coxswain::runner
