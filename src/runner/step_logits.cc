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
  if (!status.ok()) {
    for (LogitRow& row : wanted) row.status = status.with_context("logits");
  } else {
    // Drafts are decided one after the other, behind the token before them.
    logit_groups_.clear();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (i == 0 || wanted[i].ready->n_drafts == 0 || wanted[i].ready != wanted[i - 1].ready)
        logit_groups_.push_back(i);
    }
    logit_groups_.push_back(wanted.size());
    const std::size_t n_groups = logit_groups_.size() - 1;
    parts_.exec->pool().run(n_groups, [&](std::size_t index, std::size_t worker) {
      const std::size_t first = logit_groups_[index];
      const std::size_t n = logit_groups_[index + 1] - first;
      run_logits_of(
          wanted.subspan(first, n), {logits_.data() + first * vocab_size, n * vocab_size}, worker);
    });
  }
  for (LogitRow& row : wanted) {
    if (!row.delivered) deliver(row);
  }
  timings_.sample += std::chrono::duration_cast<Nanoseconds>(Clock::now() - sampling);
}

void StepExecutor::run_logits_of(std::span<LogitRow> wanted,
                                 std::span<float> logits,
                                 std::size_t worker) {
  const std::size_t vocab_size = parts_.model->info().vocab_size;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    LogitRow& row = wanted[i];
    choose(row, logits.subspan(i * vocab_size, vocab_size), worker);
    // The text is made here too, on every core, where no other group of these is of the same sequence.
    row.delivered = row.status.ok() && !row.ready->row->prompt_logprobs;
    if (!row.delivered) return;
    deliver(row);
  }
}

void StepExecutor::choose(LogitRow& wanted, std::span<float> logits, std::size_t worker) {
  const SequenceState* state = wanted.ready->state;
  if (state == nullptr || wanted.ready->settled) return;
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
  if (ready.state == nullptr || ready.settled) return;
  SequenceResult& result = *ready.result;
  if (!wanted.status.ok()) {
    if (result.tokens.empty()) return fail(ready, wanted.status);
    ready.settled = true;  // it fails in the next step, as it would have without drafts
    return;
  }
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
  if (ready.state->kept != nullptr && parts_.guesser->wants_hidden()) {
    const std::size_t width = parts_.model->info().hidden_size;
    parts_.guesser->keep_hidden(*ready.state, {hidden_.data() + wanted.slice_row * width, width});
  }
  if (ready.n_drafts > 0) {
    ready.state->computed = wanted.position + 1;
    result.next_position = static_cast<std::uint32_t>(ready.state->computed);
    ready.settled = accepted.finish || !goes_on(ready, wanted.position, accepted.token.id);
  }
  result.tokens.push_back(std::move(accepted.token));
  result.finish = std::move(accepted.finish);
}

}  // namespace coxswain::runner
