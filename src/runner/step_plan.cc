// StepExecutor: what a plan asks for as a whole, beside its rows: sequences that come and are edited, blocks that move,
// attachments, a range of layers.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <coxswain/kv_layout.h>

#include "kvstore/block_image.h"
#include "request/sampling_rules.h"
#include "runner/hidden_states.h"
#include "runner/step_executor.h"

namespace coxswain::runner {
namespace {

std::vector<std::uint32_t> block_counts(const BlockTransfer& transfer) {
  std::vector<std::uint32_t> out;
  out.reserve(transfer.blocks.size());
  for (const auto& list : transfer.blocks) out.push_back(static_cast<std::uint32_t>(list.size()));
  return out;
}

}  // namespace

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
  if (bytes == hidden_attachment_bytes(n_positions, info.hidden_size)) return {};
  return broken_plan("hidden states of " + std::to_string(bytes) + " bytes for " +
                     std::to_string(n_positions) + " positions of " +
                     std::to_string(info.hidden_size) + " values");
}

Status StepExecutor::check_transfer(const BlockTransfer& transfer) const {
  if (transfer.blocks.size() != writers_.size())
    return broken_plan("blocks of " + std::to_string(transfer.blocks.size()) + " KV groups");
  if (transfer.layers != LayerRange{} && (transfer.layers.begin >= transfer.layers.end ||
                                          transfer.layers.end > parts_.model->info().n_layers))
    return broken_plan("blocks of layers that are not there");
  for (std::size_t g = 0; g < writers_.size(); ++g) {
    if (std::any_of(transfer.blocks[g].begin(), transfer.blocks[g].end(), [&](BlockId block) {
          return block >= writers_[g].size();
        })) {
      return broken_plan("a block outside the cache");
    }
  }
  return {};
}

// Exports and hidden states must find their room before anything is applied.
Status StepExecutor::check_transfers(const StepPlan& plan) const {
  if (parts_.attachments == nullptr) {
    if (plan.imports.empty() && plan.exports.empty()) return {};
    return {Code::kUnimplemented, "this runner takes no attachments: it moves no blocks in or out"};
  }
  std::uint64_t wanted = 0;
  if (plan.hidden_out != 0) {
    std::uint64_t n_positions = 0;
    for (const Row& row : plan.rows) n_positions += row.n_tokens;
    wanted = AttachmentStore::kEntryBytes +
             hidden_attachment_bytes(n_positions, parts_.model->info().hidden_size);
  }
  for (const BlockTransfer& transfer : plan.imports) {
    COXSWAIN_RETURN_IF_ERROR(check_transfer(transfer));
    COXSWAIN_ASSIGN_OR_RETURN(
        const std::uint64_t bytes,
        parts_.attachments->size_of(transfer.attachment, AttachmentKind::kBlocks));
    const std::vector<std::uint32_t> n_blocks = block_counts(transfer);
    COXSWAIN_ASSIGN_OR_RETURN(const kvstore::ImageContents held,
                              parts_.attachments->blocks_of(transfer.attachment, *parts_.layout));
    if (held.layers != transfer.layers)
      return broken_plan("an import of other layers than the attachment holds");
    if (held.n_blocks != n_blocks ||
        bytes != blocks_attachment_bytes(*parts_.layout, n_blocks, transfer.layers))
      return broken_plan("an import of another number of blocks than the attachment holds");
  }
  for (const BlockTransfer& transfer : plan.exports) {
    COXSWAIN_RETURN_IF_ERROR(check_transfer(transfer));
    const std::vector<std::uint32_t> n_blocks = block_counts(transfer);
    wanted += blocks_attachment_bytes(*parts_.layout, n_blocks, transfer.layers) +
              AttachmentStore::kEntryBytes;
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
                       parts_.kv->options().n_blocks.size(),
                       source.grammar());
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

Status StepExecutor::export_blocks(const BlockTransfer& transfer) const {
  COXSWAIN_RETURN_IF_ERROR(check_transfer(transfer));
  return parts_.attachments->put(
      {.id = transfer.attachment,
       .kind = AttachmentKind::kBlocks,
       .bytes =
           kvstore::export_blocks(*parts_.layout, *parts_.kv, transfer.blocks, transfer.layers)});
}

Status StepExecutor::add_sequence(SequenceSpec&& spec) {
  if (sequences_.erase(spec.id) != 0) return broken_plan("a sequence was introduced twice");
  if (sequences_.size() >= limits_.sequences_max) return too_many_sequences();
  COXSWAIN_RETURN_IF_ERROR(check_spec(spec));
  std::shared_ptr<const grammar::TokenMasks> grammar;
  if (spec.sampling.grammar) {
    COXSWAIN_ASSIGN_OR_RETURN(grammar, parts_.grammars->open(spec.sampling.grammar));
  }
  const SequenceId id = spec.id;
  sequences_.emplace(std::piecewise_construct,
                     std::forward_as_tuple(id),
                     std::forward_as_tuple(std::move(spec),
                                           parts_.codec,
                                           parts_.model->info().eos_token_ids,
                                           parts_.kv->options().n_blocks.size(),
                                           std::move(grammar)));
  return {};
}

Status StepExecutor::check_spec(const SequenceSpec& spec) const {
  const std::uint32_t vocab_size = parts_.model->info().vocab_size;
  if (spec.prompt.empty()) return invalid_argument("the prompt has no tokens", "inputs");
  if (request::find_foreign_id(spec.prompt, vocab_size) ||
      request::find_foreign_id(spec.produced, vocab_size) ||
      request::find_foreign_id(spec.draft, vocab_size)) {
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
  if (parts_.codec == nullptr && !spec.sampling.dry_sequence_breakers.empty()) {
    return {Code::kFailedPrecondition,
            ErrorKind::kValidation,
            "sequence breakers need a tokenizer",
            "dry_sequence_breakers"};
  }
  if (parts_.grammars == nullptr && spec.sampling.grammar) {
    return {
        Code::kFailedPrecondition, ErrorKind::kValidation, "grammars need a tokenizer", "grammar"};
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

}  // namespace coxswain::runner
