#include "runner/step_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <coxswain/kv_layout.h>

#include "kvstore/block_image.h"
#include "request/draft_room.h"
#include "runner/hidden_states.h"

namespace coxswain::runner {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

}  // namespace

Status StepExecutor::broken_plan(std::string what) {
  return internal_error("the plan is broken: " + std::move(what));
}

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
  logit_groups_.reserve(limits_.logit_rows_max + 1);
  for (std::size_t i = 0; i < parts_.exec->n_threads(); ++i)
    samplers_.emplace_back(info.vocab_size, limits_.top_tokens_max);
  forbidden_.resize(parts_.exec->n_threads());
  allowed_.resize(parts_.exec->n_threads());
  if (parts_.grammars != nullptr) masks_ahead_.emplace();
  repetition_scratch_.resize(parts_.exec->n_threads());
  repetitions_.resize(parts_.exec->n_threads());
}

std::uint64_t StepExecutor::workspace_bytes(const model::ModelInfo& model,
                                            const ExecutorLimits& limits,
                                            std::size_t n_threads) {
  const std::uint64_t per_row =
      std::uint64_t{model.hidden_size} * sizeof(float) + sizeof(TokenId) + sizeof(LogitRow);
  const std::uint64_t per_logit_row =
      std::uint64_t{model.vocab_size} * sizeof(float) + sizeof(std::uint32_t);
  return limits.rows_max * per_row + limits.logit_rows_max * per_logit_row +
         n_threads * (sampling::Sampler::bytes(model.vocab_size) + model.vocab_size / 8 + 8);
}

Result<StepResult> StepExecutor::execute(StepPlan plan) {
  const auto begin = Clock::now();
  COXSWAIN_RETURN_IF_ERROR(lost_);
  COXSWAIN_RETURN_IF_ERROR(check_layers(plan));
  COXSWAIN_RETURN_IF_ERROR(check_moves(plan.moves));
  COXSWAIN_RETURN_IF_ERROR(check_transfers(plan));
  COXSWAIN_RETURN_IF_ERROR(take_attachments(plan));
  const std::uint32_t n_layers = parts_.model->info().n_layers;
  layers_ = plan.layers == LayerRange{} ? LayerRange{.begin = 0, .end = n_layers} : plan.layers;
  timings_ = {};
  for (const SequenceId id : plan.dropped) sequences_.erase(id);
  Rejected rejected;
  for (SequenceSpec& spec : plan.new_sequences) {
    const SequenceId id = spec.id;
    if (Status status = add_sequence(std::move(spec)); !status.ok())
      rejected.emplace_back(id, std::move(status));
  }
  apply_edits(plan.edits, rejected);
  for (const BlockMove& move : plan.moves) parts_.kv->move_block(move);
  for (std::size_t i = 0; i < plan.imports.size(); ++i)
    kvstore::import_blocks(*parts_.layout, images_[i], *parts_.kv, plan.imports[i].blocks);
  images_.clear();
  std::size_t n_positions = 0;
  for (const Row& row : plan.rows) n_positions += row.n_tokens;
  if (plan.hidden_out != 0)
    hidden_out_bytes_.assign(hidden_attachment_bytes(n_positions, parts_.model->info().hidden_size),
                             '\0');

  StepResult out{.step = plan.step, .epoch = plan.epoch};
  waited_ = {};
  prepare_rows(plan, rejected, out);
  add_drafts();
  for (std::size_t next = 0; next < rows_.size();) {
    run_slice(fill_slice(next));
    COXSWAIN_RETURN_IF_ERROR(lost_);
  }
  out.layers_ready = {.begin = 0, .end = layers_ready()};
  for (const BlockTransfer& transfer : plan.exports)
    COXSWAIN_RETURN_IF_ERROR(export_blocks(transfer));
  hidden_in_bytes_ = {};
  if (plan.hidden_out != 0) {
    seal_hidden(hidden_out_bytes_);
    COXSWAIN_RETURN_IF_ERROR(parts_.attachments->put({.id = plan.hidden_out,
                                                      .kind = AttachmentKind::kHidden,
                                                      .bytes = std::move(hidden_out_bytes_)}));
    hidden_out_bytes_ = {};
  }
  if (waited_.count() == 0) observe_cost();
  timings_.total = std::chrono::duration_cast<Nanoseconds>(Clock::now() - begin);
  out.timings = timings_;
  return out;
}

// Fills rows_ with the rows that passed their checks, and the results of the others.
void StepExecutor::prepare_rows(const StepPlan& plan, const Rejected& rejected, StepResult& out) {
  out.sequences.resize(plan.rows.size());
  rows_.clear();
  rows_.reserve(plan.rows.size());
  step_first_serial_ = row_serial_ + 1;
  std::size_t first_hidden = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    SequenceResult& result = out.sequences[i];
    result.sequence = row.sequence;
    const std::size_t hidden_of_row = first_hidden;
    first_hidden += row.n_tokens;
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
    ReadyRow ready{
        .row = &row, .state = &found->second, .result = &result, .first_hidden = hidden_of_row};
    if (Status status = prepare(ready); !status.ok()) {
      const auto same = std::find_if(
          rows_.begin(), rows_.end(), [&](const ReadyRow& r) { return r.state == ready.state; });
      if (same != rows_.end()) {  // named twice: neither row can be trusted
        same->result->status = status;
        rows_.erase(same);
      }
      fail(ready, status);
      continue;
    }
    result.next_position = static_cast<std::uint32_t>(ready.state->computed);
    rows_.push_back(ready);
  }
}

Status StepExecutor::prepare(ReadyRow& ready) {
  SequenceState& state = *ready.state;
  ++row_serial_;
  if (state.last_step_serial >= step_first_serial_) return broken_plan("two rows of one sequence");
  state.last_step_serial = row_serial_;
  COXSWAIN_RETURN_IF_ERROR(resolve(ready));
  ready.n_drafts_max = drafts_allowed(ready);
  COXSWAIN_RETURN_IF_ERROR(change_tables(*ready.row, state));
  COXSWAIN_RETURN_IF_ERROR(check_blocks(ready));
  state.computed = ready.first_position + ready.n_tokens;
  return {};
}

// Which positions a row stands for, and whether it may.
Status StepExecutor::resolve(ReadyRow& ready) const {
  const Row& row = *ready.row;
  const SequenceState& state = *ready.state;
  const bool has_grammar = state.grammar() != nullptr;
  if (row.n_draft_max > request::draft_room(limits_.draft_tokens_max, has_grammar)) {
    return {Code::kUnimplemented,
            "this runner has draft_tokens_max " + std::to_string(limits_.draft_tokens_max) +
                ": `n_draft_max` is " + std::to_string(row.n_draft_max)};
  }
  if (row.n_draft_max > 0 && row.emit != Emit::kSample)
    return broken_plan("drafts in a row that samples nothing");
  ready.first_position = row.continues ? state.computed : row.first_position;
  ready.n_tokens = row.n_tokens;
  if (row.continues && state.length() > ready.first_position) {
    ready.n_tokens = std::min(state.length() - ready.first_position,
                              std::size_t{row.n_tokens} + row.n_draft_max);
  }
  const std::uint64_t end = std::uint64_t{ready.first_position} + ready.n_tokens;
  if (row.n_tokens == 0 || end > state.length())
    return broken_plan("positions outside the sequence");
  if (row.continues &&
      (row.n_tokens != 1 || !row.tokens.empty() || row.first_position > ready.first_position)) {
    return broken_plan("a row that continues from elsewhere");
  }
  if (row.emit != Emit::kNone) {
    if (layers_.end != parts_.model->info().n_layers)
      return broken_plan("a row that emits without the last layer");
    ready.emits = end == state.length();
    if (!ready.emits && !row.continues)
      return broken_plan("a sample before the end of the context");
  }
  if ((row.emit == Emit::kCandidates) != (row.n_candidates > 0))
    return broken_plan("`n_candidates` and what the row emits disagree");
  if (row.n_candidates > kTopTokensMax) {
    return broken_plan("more than " + std::to_string(kTopTokensMax) + " candidates");
  }
  if ((row.prompt_logprobs || row.context_outputs) &&
      layers_.end != parts_.model->info().n_layers) {
    return broken_plan("log-probabilities or outputs without the last layer");
  }
  if (row.tokens.empty()) return {};
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
    const KvGroup::Kind kind = parts_.model->info().kv_groups[change.kv_group].kind;
    const bool may_release = kind == KvGroup::Kind::kWindow;
    const std::uint64_t n_entries =
        table_entries_max(kind,
                          n_blocks,
                          parts_.kv->options().block_tokens,
                          limits_.total_tokens_max != 0 ? limits_.total_tokens_max : 0xFFFFFFFFU);
    if (change.first_index > table.size() ||
        change.first_index + change.blocks.size() > n_entries) {
      return broken_plan("a block table of the wrong length");
    }
    for (const BlockId block : change.blocks) {
      const bool released = block == kReleasedBlock && may_release;
      if (block >= n_blocks && !released) return broken_plan("a block outside the cache");
    }
    table.resize(change.first_index);
    table.insert(table.end(), change.blocks.begin(), change.blocks.end());
  }
  return {};
}

Status StepExecutor::check_blocks(const ReadyRow& ready) {
  const SequenceState& state = *ready.state;
  const std::size_t block_tokens = parts_.kv->options().block_tokens;
  const std::size_t end = ready.first_position + ready.n_tokens + ready.n_drafts_max;
  for (std::size_t g = 0; g < writers_.size(); ++g) {
    const KvGroup& group = parts_.model->info().kv_groups[g];
    const std::vector<BlockId>& table = state.block_tables[g];
    const std::size_t end_block = (end + block_tokens - 1) / block_tokens;
    if (table.size() < end_block)
      return broken_plan("a block table that does not cover its positions");
    const std::size_t first_write = ready.first_position / block_tokens;
    std::size_t first_read = first_write;
    if (group.kind == KvGroup::Kind::kWindow && group.window != 0 &&
        ready.first_position >= group.window) {
      first_read = (ready.first_position - group.window + 1) / block_tokens;
    } else if (group.kind == KvGroup::Kind::kWindow) {
      first_read = 0;
    }
    const std::size_t n_sinks = (group.sink_tokens + block_tokens - 1) / block_tokens;
    for (std::size_t i = 0; i < std::min(n_sinks, first_read); ++i) {
      if (table[i] == kReleasedBlock) return broken_plan("a released block of sink tokens");
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
    const bool is_over = ready.state == nullptr || ready.settled;
    const std::size_t left = is_over ? 0 : ready.n_tokens - ready.n_done;
    const std::size_t n_rows = std::min(left, limits_.rows_max - used);
    if (n_rows > 0) add_to_slice(ready, used, n_rows);
    used += n_rows;
    if (n_rows == left) ++next;
  }
  return used;
}

void StepExecutor::add_to_slice(ReadyRow& ready, std::size_t first_row, std::size_t n_rows) {
  const Row& row = *ready.row;
  const std::size_t first_position = ready.first_position + ready.n_done;
  if (batch_rows_.size() == n_batch_rows_) batch_rows_.emplace_back();
  model::SequenceRows& rows = batch_rows_[n_batch_rows_++];
  rows.first_row = first_row;
  rows.n_rows = n_rows;
  rows.first_position = static_cast<std::int32_t>(first_position);
  rows.rope_length = ready.state->rope_length();
  rows.block_tables.assign(ready.state->block_tables.begin(), ready.state->block_tables.end());
  batch_owner_.push_back(&ready);

  const std::size_t prompt_length = ready.state->prompt_length();
  const std::size_t first_draft = ready.first_position + ready.n_tokens - ready.n_drafts;
  for (std::size_t i = 0; i < n_rows; ++i) {
    const std::size_t position = first_position + i;
    const bool is_draft = position >= first_draft;
    const TokenId token = is_draft ? drafts_[ready.first_draft + position - first_draft]
                                   : ready.state->token_at(position);
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
    const bool sample = ready.emits && position + 1 >= first_draft;
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
  for (LayerRange next = layers_; next.begin < layers_.end; next.begin = next.end) {
    COXSWAIN_RETURN_IF_ERROR(wait_for_layer(next.begin));
    next.end = std::min(layers_.end, layers_ready());
    COXSWAIN_RETURN_IF_ERROR(parts_.model->forward(
        {.tokens = {tokens_.data() + first_row, n_rows}, .sequences = sequences},
        next,
        {hidden_.data() + first_row * info.hidden_size, n_rows * info.hidden_size},
        *parts_.kv,
        *parts_.exec));
  }
  return {};
}

Status StepExecutor::wait_for_layer(std::uint32_t layer) {
  if (parts_.residency == nullptr || parts_.residency->ready() > layer) return {};
  const auto begin = Clock::now();
  lost_ = parts_.residency->wait_for(layer + 1);
  waited_ += Clock::now() - begin;
  return lost_;
}

std::uint32_t StepExecutor::layers_ready() const {
  const std::uint32_t n_layers = parts_.model->info().n_layers;
  return parts_.residency == nullptr ? n_layers : std::min(n_layers, parts_.residency->ready());
}

// The slice holds [n_done - n_rows, n_done) of each of its rows.
void StepExecutor::read_hidden() {
  const std::size_t row_bytes = parts_.model->info().hidden_size * sizeof(float);
  for (std::size_t i = 0; i < n_batch_rows_; ++i) {
    const model::SequenceRows& rows = batch_rows_[i];
    const ReadyRow& ready = *batch_owner_[i];
    const std::size_t from = ready.first_hidden + ready.n_done - rows.n_rows;
    std::memcpy(hidden_.data() + rows.first_row * parts_.model->info().hidden_size,
                hidden_in_bytes_.data() + from * row_bytes,
                rows.n_rows * row_bytes);
  }
}

void StepExecutor::write_hidden() {
  const std::size_t row_bytes = parts_.model->info().hidden_size * sizeof(float);
  for (std::size_t i = 0; i < n_batch_rows_; ++i) {
    const model::SequenceRows& rows = batch_rows_[i];
    const ReadyRow& ready = *batch_owner_[i];
    const std::size_t to = ready.first_hidden + ready.n_done - rows.n_rows;
    std::memcpy(hidden_out_bytes_.data() + to * row_bytes,
                hidden_.data() + rows.first_row * parts_.model->info().hidden_size,
                rows.n_rows * row_bytes);
  }
}

void StepExecutor::begin_masks() {
  if (!masks_ahead_) return;
  std::vector<MasksAhead::Wanted> wanted;
  for (const LogitRow& row : logit_rows_) {
    if (!row.sample) continue;
    if (auto mask = row.ready->state->wanted_mask()) wanted.push_back(*std::move(mask));
  }
  masks_ahead_->begin(std::move(wanted));
}

void StepExecutor::run_slice(std::size_t n_rows) {
  if (n_rows == 0) return;
  const auto begin = Clock::now();
  begin_masks();
  const std::span<model::SequenceRows> sequences(batch_rows_.data(), n_batch_rows_);
  if (layers_.begin > 0) read_hidden();
  if (!forward(0, n_rows, sequences).ok()) {
    if (!lost_.ok()) return;
    // The model refused the batch, a position beyond its table for one. Alone, only the sequence at
    // fault is refused; keys and values that are written again are the same.
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      model::SequenceRows alone = sequences[i];
      alone.first_row = 0;
      const Status status = forward(sequences[i].first_row, alone.n_rows, {&alone, 1});
      if (!status.ok()) fail(*batch_owner_[i], status.with_context("forward pass"));
    }
  }
  const std::uint32_t n_layers = parts_.model->info().n_layers;
  if (layers_.end != n_layers) write_hidden();
  const bool needs_head =
      !logit_rows_.empty() || (limits_.output_bytes_max > 0 && layers_.end == n_layers);
  if (needs_head && !wait_for_layer(n_layers).ok()) return;
  write_outputs();
  timings_.forward += std::chrono::duration_cast<Nanoseconds>(Clock::now() - begin);
  const std::span<LogitRow> wanted = logit_rows_;
  for (std::size_t at = 0; at < wanted.size(); at += limits_.logit_rows_max) {
    run_logits(wanted.subspan(at, std::min(limits_.logit_rows_max, wanted.size() - at)));
  }
}

}  // namespace coxswain::runner
