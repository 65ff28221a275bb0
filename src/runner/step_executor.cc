#include "runner/step_executor.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace coxswain::runner {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

Status broken_plan(std::string what) {
  return internal_error("the plan is broken: " + std::move(what));
}

bool all_ids_below(std::span<const TokenId> ids, std::uint32_t vocab_size) {
  return std::all_of(ids.begin(), ids.end(), [&](TokenId id) {
    return id >= 0 && static_cast<std::uint32_t>(id) < vocab_size;
  });
}

bool in_range(float value, float low, float high) {
  return value >= low && value <= high;
}  // false for NaN

Status check_sampling(const SamplingParams& p) {
  constexpr float kMax = std::numeric_limits<float>::max();
  if (!in_range(p.temperature, 0.0F, kMax))
    return invalid_argument("temperature must not be negative", "temperature");
  if (p.top_k < 0) return invalid_argument("top_k must not be negative", "top_k");
  if (!(p.top_p > 0.0F) || !in_range(p.top_p, 0.0F, 1.0F))
    return invalid_argument("top_p must be in (0, 1]", "top_p");
  if (!(p.typical_p > 0.0F) || !in_range(p.typical_p, 0.0F, 1.0F)) {
    return invalid_argument("typical_p must be in (0, 1]", "typical_p");
  }
  if (!in_range(p.min_p, 0.0F, 1.0F)) return invalid_argument("min_p must be in [0, 1]", "min_p");
  if (!(p.repetition_penalty > 0.0F) || !in_range(p.repetition_penalty, 0.0F, kMax)) {
    return invalid_argument("repetition_penalty must be above 0", "repetition_penalty");
  }
  for (const float penalty :
       {p.relative_frequency_penalty, p.frequency_penalty, p.presence_penalty}) {
    if (!std::isfinite(penalty))
      return invalid_argument("penalties must be finite", "frequency_penalty");
  }
  for (const auto& [id, bias] : p.logit_bias) {
    if (std::isnan(bias)) return invalid_argument("logit_bias must hold numbers", "logit_bias");
  }
  if (p.n_top_tokens > sampling::kTopTokensMax) {
    return invalid_argument(
        "top_n_tokens must not exceed " + std::to_string(sampling::kTopTokensMax), "top_n_tokens");
  }
  return {};
}

}  // namespace

StepExecutor::StepExecutor(const ExecutorParts& parts, const ExecutorLimits& limits)
    : parts_(parts), limits_(limits) {
  const model::ModelInfo& info = parts_.model->info();
  for (const std::uint32_t n_blocks : parts_.kv->options().n_blocks)
    writers_.emplace_back(n_blocks, 0);
  tokens_.resize(limits_.rows_max);
  hidden_.resize(limits_.rows_max * info.hidden_size);
  logits_.resize(limits_.logit_rows_max * info.vocab_size);
  logit_rows_.reserve(limits_.rows_max);
  logit_row_ids_.reserve(limits_.logit_rows_max);
  for (std::size_t i = 0; i < parts_.pool->n_threads(); ++i)
    samplers_.emplace_back(info.vocab_size);
}

std::uint64_t StepExecutor::workspace_bytes(const model::ModelInfo& model,
                                            const ExecutorLimits& limits,
                                            std::size_t n_threads) {
  const std::uint64_t per_row =
      std::uint64_t{model.hidden_size} * sizeof(float) + sizeof(TokenId) + sizeof(LogitRow);
  const std::uint64_t per_logit_row =
      std::uint64_t{model.vocab_size} * sizeof(float) + sizeof(std::uint32_t);
  return limits.rows_max * per_row + limits.logit_rows_max * per_logit_row +
         n_threads * sampling::Sampler::bytes(model.vocab_size);
}

Result<StepResult> StepExecutor::execute(StepPlan plan) {
  const auto begin = Clock::now();
  const std::uint32_t n_layers = parts_.model->info().n_layers;
  const bool all_layers = plan.layers == LayerRange{} || plan.layers == LayerRange{0, n_layers};
  if (!all_layers) return Status(Code::kUnimplemented, "this runner computes all layers of a step");

  COXSWAIN_RETURN_IF_ERROR(check_copies(plan.copies));
  timings_ = {};
  for (const SequenceId id : plan.dropped) sequences_.erase(id);
  std::vector<std::pair<SequenceId, Status>> rejected;
  for (SequenceSpec& spec : plan.new_sequences) {
    const SequenceId id = spec.id;
    if (Status status = add_sequence(std::move(spec)); !status.ok())
      rejected.emplace_back(id, std::move(status));
  }
  for (const BlockCopy& copy : plan.copies) parts_.kv->copy_block(copy);

  StepResult out{.step = plan.step, .epoch = plan.epoch};
  out.sequences.resize(plan.rows.size());
  rows_.clear();
  rows_.reserve(plan.rows.size());
  step_first_serial_ = row_serial_ + 1;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    SequenceResult& result = out.sequences[i];
    result.sequence = row.sequence;
    const auto found = sequences_.find(row.sequence);
    if (found == sequences_.end()) {
      const auto why = std::find_if(
          rejected.begin(), rejected.end(), [&](const auto& r) { return r.first == row.sequence; });
      result.status = why != rejected.end()
                          ? why->second
                          : Status(Code::kNotFound, ErrorKind::kInternal, "unknown sequence");
      continue;
    }
    if (found->second.finished()) continue;  // planned ahead, before its end was known
    ReadyRow ready{.row = &row, .state = &found->second, .result = &result};
    if (Status status = prepare(row, found->second); !status.ok()) {
      const auto same = std::find_if(
          rows_.begin(), rows_.end(), [&](const ReadyRow& r) { return r.state == ready.state; });
      if (same != rows_.end()) {  // named twice: neither row can be trusted
        same->result->status = status;
        rows_.erase(same);
      }
      fail(ready, status);
      continue;
    }
    rows_.push_back(ready);
  }
  for (std::size_t next = 0; next < rows_.size();) run_slice(fill_slice(next));
  timings_.total = std::chrono::duration_cast<Nanoseconds>(Clock::now() - begin);
  out.timings = timings_;
  return out;
}

Status StepExecutor::add_sequence(SequenceSpec&& spec) {
  if (sequences_.erase(spec.id) != 0) return broken_plan("a sequence was introduced twice");
  if (sequences_.size() >= limits_.sequences_max) {
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "too many sequences: at most " + std::to_string(limits_.sequences_max)};
  }
  COXSWAIN_RETURN_IF_ERROR(check_spec(spec));
  const SequenceId id = spec.id;
  sequences_.emplace(std::piecewise_construct,
                     std::forward_as_tuple(id),
                     std::forward_as_tuple(std::move(spec),
                                           parts_.codec,
                                           parts_.model->info().eos_token_ids,
                                           parts_.kv->options().n_blocks.size()));
  return {};
}

Status StepExecutor::check_spec(const SequenceSpec& spec) const {
  const std::uint32_t vocab_size = parts_.model->info().vocab_size;
  if (spec.prompt.empty()) return invalid_argument("the prompt has no tokens", "inputs");
  if (!all_ids_below(spec.prompt, vocab_size) || !all_ids_below(spec.produced, vocab_size)) {
    return invalid_argument("token ids must be in [0, " + std::to_string(vocab_size) + ")",
                            "inputs");
  }
  const std::uint64_t max_new_tokens = spec.stopping.max_new_tokens;
  if (max_new_tokens <= spec.produced.size()) {
    return invalid_argument("max_new_tokens must be above the number of tokens produced",
                            "max_new_tokens");
  }
  if (limits_.total_tokens_max != 0 &&
      spec.prompt.size() + max_new_tokens > limits_.total_tokens_max) {
    return invalid_argument(
        "prompt and max_new_tokens exceed " + std::to_string(limits_.total_tokens_max) + " tokens",
        "max_new_tokens");
  }
  if (!spec.adapter.empty()) {
    return {
        Code::kUnimplemented, ErrorKind::kValidation, "adapters are not supported", "adapter_id"};
  }
  if (parts_.codec == nullptr && !spec.stopping.stop_sequences.empty()) {
    return {
        Code::kFailedPrecondition, ErrorKind::kValidation, "stop strings need a tokenizer", "stop"};
  }
  return check_sampling(spec.sampling);
}

Status StepExecutor::check_copies(std::span<const BlockCopy> copies) const {
  for (const BlockCopy& copy : copies) {
    const std::size_t n_blocks =
        copy.kv_group < writers_.size() ? writers_[copy.kv_group].size() : 0;
    if (copy.from >= n_blocks || copy.to >= n_blocks)
      return broken_plan("a copy of a block outside the cache");
  }
  return {};
}

Status StepExecutor::prepare(const Row& row, SequenceState& state) {
  ++row_serial_;
  if (state.last_step_serial >= step_first_serial_) return broken_plan("two rows of one sequence");
  state.last_step_serial = row_serial_;
  COXSWAIN_RETURN_IF_ERROR(check_tokens(row, state));
  COXSWAIN_RETURN_IF_ERROR(change_tables(row, state));
  return check_blocks(row, state);
}

Status StepExecutor::check_tokens(const Row& row, const SequenceState& state) const {
  const std::uint64_t end = std::uint64_t{row.first_position} + row.n_tokens;
  if (row.n_tokens == 0 || end > state.length())
    return broken_plan("positions outside the sequence");
  if (row.emit == Emit::kSample && end != state.length())
    return broken_plan("a sample before the end of the context");
  if (row.from_previous_step) {
    const bool last_token = row.n_tokens == 1 && end == state.length() && !state.output().empty();
    return last_token && row.tokens.empty()
               ? Status()
               : broken_plan("a row without tokens that is no decode row");
  }
  if (row.tokens.size() != row.n_tokens) return broken_plan("tokens and n_tokens disagree");
  for (std::size_t i = 0; i < row.tokens.size(); ++i) {
    if (row.tokens[i] != state.token_at(row.first_position + i))
      return broken_plan("tokens that are not the sequence's");
  }
  return {};
}

Status StepExecutor::change_tables(const Row& row, SequenceState& state) const {
  for (const BlockTableChange& change : row.table_changes) {
    if (change.kv_group >= writers_.size()) return broken_plan("unknown KV group");
    const std::size_t n_blocks = writers_[change.kv_group].size();
    std::vector<BlockId>& table = state.block_tables[change.kv_group];
    if (change.first_index > table.size() || change.first_index + change.blocks.size() > n_blocks) {
      return broken_plan("a block table of the wrong length");
    }
    const bool may_release =
        parts_.model->info().kv_groups[change.kv_group].kind == KvGroup::Kind::kWindow;
    for (const BlockId block : change.blocks) {
      const bool released = block == kReleasedBlock && may_release;
      if (block >= n_blocks && !released) return broken_plan("a block outside the cache");
    }
    table.resize(change.first_index);
    table.insert(table.end(), change.blocks.begin(), change.blocks.end());
  }
  return {};
}

Status StepExecutor::check_blocks(const Row& row, const SequenceState& state) {
  const std::size_t block_tokens = parts_.kv->options().block_tokens;
  const std::size_t end = std::size_t{row.first_position} + row.n_tokens;
  for (std::size_t g = 0; g < writers_.size(); ++g) {
    const KvGroup& group = parts_.model->info().kv_groups[g];
    const std::vector<BlockId>& table = state.block_tables[g];
    const std::size_t end_block = (end + block_tokens - 1) / block_tokens;
    if (table.size() < end_block)
      return broken_plan("a block table that does not cover its positions");
    const std::size_t first_write = row.first_position / block_tokens;
    std::size_t first_read = first_write;
    if (group.kind == KvGroup::Kind::kWindow && group.window != 0 &&
        row.first_position >= group.window) {
      first_read = (row.first_position - group.window + 1) / block_tokens;
    } else if (group.kind == KvGroup::Kind::kWindow) {
      first_read = 0;
    }
    for (std::size_t i = first_read; i < end_block; ++i) {
      if (table[i] == kReleasedBlock) return broken_plan("a released block inside the window");
    }
    for (std::size_t i = first_write; i < end_block; ++i) {
      std::uint64_t& writer = writers_[g][table[i]];
      if (writer >= step_first_serial_) return broken_plan("a block written by two rows");
      writer = row_serial_;
    }
  }
  return {};
}

void StepExecutor::fail(ReadyRow& ready, const Status& status) {
  SequenceResult& result = *ready.result;
  result = SequenceResult{.sequence = result.sequence, .status = status};
  sequences_.erase(result.sequence);
  ready.state = nullptr;
}

std::size_t StepExecutor::fill_slice(std::size_t& next) {
  n_batch_rows_ = 0;
  batch_owner_.clear();
  logit_rows_.clear();
  std::size_t used = 0;
  while (next < rows_.size() && used < limits_.rows_max) {
    ReadyRow& ready = rows_[next];
    const std::size_t left = ready.state == nullptr ? 0 : ready.row->n_tokens - ready.n_done;
    const std::size_t n_rows = std::min(left, limits_.rows_max - used);
    if (n_rows > 0) add_to_slice(ready, used, n_rows);
    used += n_rows;
    if (n_rows == left) ++next;
  }
  return used;
}

void StepExecutor::add_to_slice(ReadyRow& ready, std::size_t first_row, std::size_t n_rows) {
  const Row& row = *ready.row;
  const std::size_t first_position = row.first_position + ready.n_done;
  if (batch_rows_.size() == n_batch_rows_) batch_rows_.emplace_back();
  model::SequenceRows& rows = batch_rows_[n_batch_rows_++];
  rows.first_row = first_row;
  rows.n_rows = n_rows;
  rows.first_position = static_cast<std::int32_t>(first_position);
  rows.rope_length = ready.state->rope_length();
  rows.block_tables.assign(ready.state->block_tables.begin(), ready.state->block_tables.end());
  batch_owner_.push_back(&ready);

  const std::size_t prompt_length = ready.state->prompt_length();
  for (std::size_t i = 0; i < n_rows; ++i) {
    const std::size_t position = first_position + i;
    const TokenId token = ready.state->token_at(position);
    tokens_[first_row + i] = token;
    const bool is_prompt = row.prompt_logprobs && position < prompt_length;
    if (is_prompt) {
      const SequenceState::PromptCarry& carry = ready.state->carry;
      const bool carried = carry.position == position;
      ready.result->prompt.push_back(
          {.id = token,
           .logprob = carried ? carry.logprob : std::numeric_limits<float>::quiet_NaN(),
           .text = parts_.codec != nullptr ? parts_.codec->token_text(token) : std::string(),
           .alternatives = carried ? carry.alternatives : std::vector<TokenAlternative>()});
    }
    const bool sample =
        row.emit == Emit::kSample && position + 1 == std::size_t{row.first_position} + row.n_tokens;
    const bool prompt_logprob = is_prompt && position + 1 < prompt_length;
    if (sample || prompt_logprob) {
      logit_rows_.push_back({.slice_row = static_cast<std::uint32_t>(first_row + i),
                             .position = position,
                             .ready = &ready,
                             .sample = sample,
                             .prompt_logprob = prompt_logprob});
    }
  }
  ready.n_done += n_rows;
}

Status StepExecutor::forward(std::size_t first_row,
                             std::size_t n_rows,
                             std::span<const model::SequenceRows> sequences) {
  const model::ModelInfo& info = parts_.model->info();
  return parts_.model->forward(
      {.tokens = {tokens_.data() + first_row, n_rows}, .sequences = sequences},
      {.begin = 0, .end = info.n_layers},
      {hidden_.data() + first_row * info.hidden_size, n_rows * info.hidden_size},
      *parts_.kv,
      *parts_.pool);
}

void StepExecutor::run_slice(std::size_t n_rows) {
  if (n_rows == 0) return;
  const auto begin = Clock::now();
  const std::span<model::SequenceRows> sequences(batch_rows_.data(), n_batch_rows_);
  if (!forward(0, n_rows, sequences).ok()) {
    // The model refused the batch, a position beyond its table for one. Alone, only the sequence at
    // fault is refused; keys and values that are written again are the same.
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      model::SequenceRows alone = sequences[i];
      alone.first_row = 0;
      const Status status = forward(sequences[i].first_row, alone.n_rows, {&alone, 1});
      if (!status.ok()) fail(*batch_owner_[i], status.with_context("forward pass"));
    }
  }
  timings_.forward += std::chrono::duration_cast<Nanoseconds>(Clock::now() - begin);
  const std::span<LogitRow> wanted = logit_rows_;
  for (std::size_t at = 0; at < wanted.size(); at += limits_.logit_rows_max) {
    run_logits(wanted.subspan(at, std::min(limits_.logit_rows_max, wanted.size() - at)));
  }
}

void StepExecutor::run_logits(std::span<LogitRow> wanted) {
  const auto begin = Clock::now();
  const std::size_t vocab_size = parts_.model->info().vocab_size;
  logit_row_ids_.clear();
  for (const LogitRow& row : wanted) logit_row_ids_.push_back(row.slice_row);
  const Status status = parts_.model->logits(
      hidden_, logit_row_ids_, {logits_.data(), wanted.size() * vocab_size}, *parts_.pool);
  const auto sampling = Clock::now();
  timings_.forward += std::chrono::duration_cast<Nanoseconds>(sampling - begin);
  parts_.pool->run(wanted.size(), [&](std::size_t index, std::size_t worker) {
    if (!status.ok()) {
      wanted[index].status = status.with_context("logits");
      return;
    }
    choose(wanted[index], {logits_.data() + index * vocab_size, vocab_size}, worker);
  });
  for (LogitRow& row : wanted) deliver(row);
  timings_.sample += std::chrono::duration_cast<Nanoseconds>(Clock::now() - sampling);
}

void StepExecutor::choose(LogitRow& wanted, std::span<const float> logits, std::size_t worker) {
  const SequenceState* state = wanted.ready->state;
  if (state == nullptr) return;
  if (wanted.prompt_logprob) judge_prompt(wanted, logits, worker);
  if (!wanted.sample || !wanted.status.ok()) return;
  const auto out = samplers_[worker].sample({.logits = logits,
                                             .params = &state->spec().sampling,
                                             .counts = state->counts(),
                                             .position = wanted.position + 1});
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
    const std::size_t index = wanted.position + 1 - ready.row->first_position;
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
  SequenceState::Accepted accepted = ready.state->accept(wanted.choice);
  result.tokens.push_back(std::move(accepted.token));
  result.finish = std::move(accepted.finish);
}

}  // namespace coxswain::runner
