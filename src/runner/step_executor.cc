#include "runner/step_executor.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <coxswain/kv_layout.h>

#include "kvstore/block_image.h"
#include "request/sampling_rules.h"

namespace coxswain::runner {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

Status broken_plan(std::string what) {
  return internal_error("the plan is broken: " + std::move(what));
}

std::vector<std::uint32_t> block_counts(const BlockTransfer& transfer) {
  std::vector<std::uint32_t> out;
  out.reserve(transfer.blocks.size());
  for (const auto& list : transfer.blocks) out.push_back(static_cast<std::uint32_t>(list.size()));
  return out;
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
  for (std::size_t i = 0; i < parts_.exec->n_threads(); ++i)
    samplers_.emplace_back(info.vocab_size, limits_.top_tokens_max);
  forbidden_.resize(parts_.exec->n_threads());
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
  const std::size_t hidden_bytes = n_positions * parts_.model->info().hidden_size * sizeof(float);
  if (plan.hidden_out != 0) hidden_out_bytes_.assign(hidden_bytes, '\0');

  StepResult out{.step = plan.step, .epoch = plan.epoch};
  out.layers_ready = {.begin = 0, .end = n_layers};
  prepare_rows(plan, rejected, out);
  for (std::size_t next = 0; next < rows_.size();) run_slice(fill_slice(next));
  for (const BlockTransfer& transfer : plan.exports)
    COXSWAIN_RETURN_IF_ERROR(export_blocks(transfer));
  hidden_in_bytes_ = {};
  if (plan.hidden_out != 0) {
    COXSWAIN_RETURN_IF_ERROR(parts_.attachments->put({.id = plan.hidden_out,
                                                      .kind = AttachmentKind::kHidden,
                                                      .bytes = std::move(hidden_out_bytes_)}));
    hidden_out_bytes_ = {};
  }
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

Status StepExecutor::check_layers(const StepPlan& plan) const {
  const model::ModelInfo& info = parts_.model->info();
  const bool whole =
      plan.layers == LayerRange{} || plan.layers == LayerRange{.begin = 0, .end = info.n_layers};
  if (whole) {
    if (plan.hidden_in == 0 && plan.hidden_out == 0) return {};
    return broken_plan("hidden states beside all layers");
  }
  if (parts_.attachments == nullptr)
    return {Code::kUnimplemented, "this runner computes all layers of a step"};
  if (plan.layers.begin >= plan.layers.end || plan.layers.end > info.n_layers)
    return broken_plan("a range of layers that are not there");
  if ((plan.hidden_in != 0) != (plan.layers.begin > 0) ||
      (plan.hidden_out != 0) != (plan.layers.end < info.n_layers)) {
    return broken_plan("a range of layers without hidden states at its ends");
  }
  std::uint64_t n_positions = 0;
  for (const Row& row : plan.rows) {
    if (row.continues && row.n_draft_max > 0) return broken_plan("drafts in a range of layers");
    n_positions += row.n_tokens;
  }
  if (plan.hidden_in == 0) return {};
  COXSWAIN_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                            parts_.attachments->size_of(plan.hidden_in, AttachmentKind::kHidden));
  if (bytes == n_positions * info.hidden_size * sizeof(float)) return {};
  return broken_plan("hidden states of " + std::to_string(bytes) + " bytes for " +
                     std::to_string(n_positions) + " positions of " +
                     std::to_string(info.hidden_size) + " values");
}

// Exports and hidden states must find their room before anything is applied.
Status StepExecutor::check_transfers(const StepPlan& plan) const {
  if (parts_.attachments == nullptr) {
    if (plan.imports.empty() && plan.exports.empty()) return {};
    return {Code::kUnimplemented, "this runner takes no attachments: it moves no blocks in or out"};
  }
  std::uint64_t wanted = 0;
  if (plan.hidden_out != 0) {
    wanted = AttachmentStore::kEntryBytes;
    for (const Row& row : plan.rows)
      wanted += std::uint64_t{row.n_tokens} * parts_.model->info().hidden_size * sizeof(float);
  }
  const auto check = [&](const BlockTransfer& transfer) -> Status {
    if (transfer.blocks.size() != writers_.size())
      return broken_plan("blocks of " + std::to_string(transfer.blocks.size()) + " KV groups");
    for (std::size_t g = 0; g < writers_.size(); ++g) {
      if (std::any_of(transfer.blocks[g].begin(), transfer.blocks[g].end(), [&](BlockId block) {
            return block >= writers_[g].size();
          })) {
        return broken_plan("a block outside the cache");
      }
    }
    return {};
  };
  for (const BlockTransfer& transfer : plan.imports) {
    COXSWAIN_RETURN_IF_ERROR(check(transfer));
    COXSWAIN_ASSIGN_OR_RETURN(
        const std::uint64_t bytes,
        parts_.attachments->size_of(transfer.attachment, AttachmentKind::kBlocks));
    const std::vector<std::uint32_t> n_blocks = block_counts(transfer);
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> held,
                              parts_.attachments->blocks_of(transfer.attachment, *parts_.layout));
    if (held != n_blocks || bytes != blocks_attachment_bytes(*parts_.layout, n_blocks))
      return broken_plan("an import of another number of blocks than the attachment holds");
  }
  for (const BlockTransfer& transfer : plan.exports) {
    COXSWAIN_RETURN_IF_ERROR(check(transfer));
    const std::vector<std::uint32_t> n_blocks = block_counts(transfer);
    wanted += blocks_attachment_bytes(*parts_.layout, n_blocks) + AttachmentStore::kEntryBytes;
  }
  if (wanted == 0 || wanted <= parts_.attachments->room()) return {};
  return {Code::kResourceExhausted,
          ErrorKind::kOverloaded,
          "the step makes attachments of " + std::to_string(wanted) + " bytes, there is room for " +
              std::to_string(parts_.attachments->room())};
}

Status StepExecutor::check_edit(const SequenceEdit& edit) const {
  const auto source = sequences_.find(edit.source);
  if (source == sequences_.end()) return broken_plan("an edit from an unknown sequence");
  if (edit.n_output > source->second.output().size()) {
    return broken_plan("an edit keeps " + std::to_string(edit.n_output) + " outputs of " +
                       std::to_string(source->second.output().size()));
  }
  if (request::find_foreign_id(edit.append, parts_.model->info().vocab_size))
    return broken_plan("an edit appends a token outside the vocabulary");
  if (std::uint64_t{edit.n_output} + edit.append.size() >=
      source->second.spec().stopping.max_new_tokens) {
    return invalid_argument("max_new_tokens must be above the number of tokens produced",
                            "max_new_tokens");
  }
  return {};
}

// In two passes: every new state is made from the old ones before any of them takes its place.
void StepExecutor::apply_edits(std::span<const SequenceEdit> edits, Rejected& rejected) {
  struct Made {
    const SequenceEdit* edit = nullptr;
    Status status = {};
    std::optional<SequenceState> state = {};  // empty: tokens are appended in place
  };
  std::vector<Made> made;
  made.reserve(edits.size());
  for (const SequenceEdit& edit : edits) {
    Made& next = made.emplace_back(Made{.edit = &edit, .status = check_edit(edit)});
    if (!next.status.ok()) continue;
    const SequenceState& source = sequences_.find(edit.source)->second;
    const bool rewinds = edit.source == edit.sequence;
    if (rewinds && edit.n_output == source.output().size() && !source.finished()) continue;
    SequenceSpec spec = source.spec_with(edit.n_output, edit.append);
    spec.id = edit.sequence;
    next.state.emplace(std::move(spec),
                       parts_.codec,
                       parts_.model->info().eos_token_ids,
                       parts_.kv->options().n_blocks.size());
    if (!rewinds) continue;
    next.state->block_tables = source.block_tables;
    next.state->computed = std::min(source.computed, source.prompt_length() + edit.n_output);
    next.state->last_step_serial = source.last_step_serial;
  }
  for (Made& next : made) {
    const SequenceId id = next.edit->sequence;
    if (next.status.ok() && !sequences_.contains(id) && sequences_.size() >= limits_.sequences_max)
      next.status = too_many_sequences();
    if (!next.status.ok()) {
      sequences_.erase(id);
      rejected.emplace_back(id, std::move(next.status));
    } else if (next.state) {
      sequences_.insert_or_assign(id, std::move(*next.state));
    } else {
      sequences_.find(id)->second.append(next.edit->append);
    }
  }
}

// What the step reads; it is gone from the store then. Whoever calls detach() meanwhile makes the step fail.
Status StepExecutor::take_attachments(const StepPlan& plan) {
  images_.clear();
  for (const BlockTransfer& transfer : plan.imports) {
    COXSWAIN_ASSIGN_OR_RETURN(Attachment image, parts_.attachments->take(transfer.attachment));
    images_.push_back(std::move(image.bytes));
  }
  if (plan.hidden_in == 0) return {};
  COXSWAIN_ASSIGN_OR_RETURN(Attachment hidden, parts_.attachments->take(plan.hidden_in));
  hidden_in_bytes_ = std::move(hidden.bytes);
  return {};
}

Status StepExecutor::export_blocks(const BlockTransfer& transfer) {
  return parts_.attachments->put(
      {.id = transfer.attachment,
       .kind = AttachmentKind::kBlocks,
       .bytes = kvstore::export_blocks(*parts_.layout, *parts_.kv, transfer.blocks)});
}

Status StepExecutor::add_sequence(SequenceSpec&& spec) {
  if (sequences_.erase(spec.id) != 0) return broken_plan("a sequence was introduced twice");
  if (sequences_.size() >= limits_.sequences_max) return too_many_sequences();
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
  if (request::find_foreign_id(spec.prompt, vocab_size) ||
      request::find_foreign_id(spec.produced, vocab_size)) {
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
  if (!spec.adapter_digest.empty()) {
    return {
        Code::kUnimplemented, ErrorKind::kValidation, "adapters are not supported", "adapter_id"};
  }
  if (parts_.codec == nullptr && !spec.stopping.stop_sequences.empty()) {
    return {
        Code::kFailedPrecondition, ErrorKind::kValidation, "stop strings need a tokenizer", "stop"};
  }
  COXSWAIN_RETURN_IF_ERROR(request::check_stopping(spec.stopping, vocab_size));
  COXSWAIN_RETURN_IF_ERROR(check_local(spec));
  return request::check_sampling(spec.sampling, vocab_size, limits_.top_tokens_max);
}

Status StepExecutor::too_many_sequences() const {
  return {Code::kResourceExhausted,
          ErrorKind::kOverloaded,
          "too many sequences: at most " + std::to_string(limits_.sequences_max)};
}

Status StepExecutor::check_moves(std::span<const BlockMove> moves) const {
  for (const BlockMove& move : moves) {
    if (move.from.tier != 0 || move.to.tier != 0)
      return {Code::kUnimplemented, "this runner has one tier of KV blocks: `moves` names another"};
    const std::size_t n_blocks =
        move.kv_group < writers_.size() ? writers_[move.kv_group].size() : 0;
    if (move.from.id >= n_blocks || move.to.id >= n_blocks)
      return broken_plan("a move of a block outside the cache");
  }
  return {};
}

Status StepExecutor::prepare(ReadyRow& ready) {
  SequenceState& state = *ready.state;
  ++row_serial_;
  if (state.last_step_serial >= step_first_serial_) return broken_plan("two rows of one sequence");
  state.last_step_serial = row_serial_;
  COXSWAIN_RETURN_IF_ERROR(resolve(ready));
  COXSWAIN_RETURN_IF_ERROR(change_tables(*ready.row, state));
  COXSWAIN_RETURN_IF_ERROR(check_blocks(ready));
  state.computed = ready.first_position + ready.n_tokens;
  return {};
}

// Which positions a row stands for, and whether it may.
Status StepExecutor::resolve(ReadyRow& ready) const {
  const Row& row = *ready.row;
  const SequenceState& state = *ready.state;
  if (row.n_draft_max > 0)
    return {Code::kUnimplemented, "this runner drafts nothing: `n_draft_max` must be 0"};
  ready.first_position = row.continues ? state.computed : row.first_position;
  ready.n_tokens = row.n_tokens;
  const std::uint64_t end = std::uint64_t{ready.first_position} + row.n_tokens;
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
  const std::size_t end = ready.first_position + ready.n_tokens;
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
    const std::size_t left = ready.state == nullptr ? 0 : ready.n_tokens - ready.n_done;
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
    const bool sample = ready.emits && position + 1 == ready.first_position + ready.n_tokens;
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
      layers_,
      {hidden_.data() + first_row * info.hidden_size, n_rows * info.hidden_size},
      *parts_.kv,
      *parts_.exec);
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

void StepExecutor::run_slice(std::size_t n_rows) {
  if (n_rows == 0) return;
  const auto begin = Clock::now();
  const std::span<model::SequenceRows> sequences(batch_rows_.data(), n_batch_rows_);
  if (layers_.begin > 0) read_hidden();
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
  if (layers_.end != parts_.model->info().n_layers) write_hidden();
  write_outputs();
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
  const auto out = samplers_[worker].sample({.logits = logits,
                                             .params = lists ? &listing : &state->spec().sampling,
                                             .counts = state->counts(),
                                             .position = wanted.position + 1,
                                             .forbidden = forbidden_[worker]});
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
