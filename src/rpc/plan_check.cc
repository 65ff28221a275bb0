#include "rpc/plan_check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include <coxswain/kv_layout.h>

#include "request/draft_room.h"
#include "request/sampling_rules.h"

namespace coxswain::rpc {

namespace {

Status outside(const std::string& what, std::uint64_t value, std::uint64_t limit) {
  return internal_error("plan: " + what + " " + std::to_string(value) + " is not below " +
                        std::to_string(limit));
}

Status check_tokens(const std::vector<TokenId>& tokens, const RunnerInfo& info, const char* what) {
  const std::optional<TokenId> foreign = request::find_foreign_id(tokens, info.vocab_size);
  if (!foreign) return {};
  return internal_error("plan: " + std::string(what) + " has the token id " +
                        std::to_string(*foreign) + " of " + std::to_string(info.vocab_size));
}

// A field whose feature this runner does not have.
Status no_use(const std::string& field, const std::string& why) {
  return internal_error("plan: `" + field + "` " + why);
}

// The ids of a prompt are the runner's to check, as is the rest of the parameters: they fail that sequence alone.
Status check_spec(const SequenceSpec& spec, const RunnerInfo& info) {
  if (spec.prompt.empty()) return internal_error("plan: a new sequence has no prompt");
  if (spec.outputs.any()) return no_use("outputs", "have no place in a result");
  if (!spec.sampling.logits_processor.empty()) {
    return no_use("logits_processor",
                  "names `" + spec.sampling.logits_processor + "`, which is in another process");
  }
  const Status bias = request::check_logit_bias(spec.sampling.logit_bias, info.vocab_size);
  return bias.ok() ? bias : internal_error("plan: " + bias.message());
}

Status check_emit(const Row& row, const RunnerInfo& info) {
  const Capabilities& can = info.capabilities;
  // Whether a grammar binds the sequence is the runner's to know.
  if (row.n_draft_max > request::draft_room(can.draft_tokens_max, true)) {
    return no_use("rows.n_draft_max",
                  "is " + std::to_string(row.n_draft_max) + ", this runner has draft_tokens_max " +
                      std::to_string(can.draft_tokens_max));
  }
  if (row.emit != Emit::kCandidates) {
    return row.n_candidates == 0 ? Status()
                                 : no_use("rows.n_candidates", "is for rows that emit candidates");
  }
  if (row.n_candidates == 0 || row.n_candidates > can.candidates_max) {
    return no_use("rows.n_candidates",
                  "is " + std::to_string(row.n_candidates) + ", this runner has candidates_max " +
                      std::to_string(can.candidates_max));
  }
  return {};
}

// Of one sequence.
std::uint32_t positions_max(const RunnerInfo& info) {
  std::uint32_t n = std::numeric_limits<std::uint32_t>::max();
  if (info.max_position_embeddings != 0) n = std::min(n, info.max_position_embeddings);
  if (info.max_total_tokens != 0) n = std::min(n, info.max_total_tokens);
  return n;
}

Status check_row(const Row& row, const RunnerInfo& info) {
  if (row.n_tokens == 0) return internal_error("plan: a row has no tokens");
  if (row.continues) {
    if (row.n_tokens != 1 || !row.tokens.empty()) {
      return internal_error("plan: a row that continues has tokens of its own");
    }
  } else if (!row.tokens.empty() && row.tokens.size() != row.n_tokens) {
    return internal_error("plan: a row of " + std::to_string(row.n_tokens) + " positions has " +
                          std::to_string(row.tokens.size()) + " tokens");
  }
  const bool plain = row.emit != Emit::kCandidates && row.n_draft_max == 0 && row.n_candidates == 0;
  if (!plain) COXSWAIN_RETURN_IF_ERROR(check_emit(row, info));
  const std::uint64_t end = std::uint64_t{row.first_position} + row.n_tokens;
  if (info.max_position_embeddings != 0 && end > info.max_position_embeddings) {
    return outside("position", end - 1, info.max_position_embeddings);
  }
  COXSWAIN_RETURN_IF_ERROR(check_tokens(row.tokens, info, "a row"));
  for (const BlockTableChange& change : row.table_changes) {
    if (change.kv_group >= info.kv_groups.size())
      return outside("KV group", change.kv_group, info.kv_groups.size());
    const KvGroup& group = info.kv_groups[change.kv_group];
    const std::uint32_t n_blocks = group.n_blocks;
    const std::uint64_t n_entries =
        table_entries_max(group.kind, n_blocks, info.block_tokens, positions_max(info));
    if (change.first_index + std::uint64_t{change.blocks.size()} > n_entries) {
      return outside("block-table index",
                     change.first_index + std::uint64_t{change.blocks.size()} - 1,
                     n_entries);
    }
    for (const BlockId block : change.blocks) {
      if (block >= n_blocks && block != kReleasedBlock) return outside("block", block, n_blocks);
    }
  }
  return {};
}

Status check_layers(const StepPlan& plan, const RunnerInfo& info) {
  const bool whole =
      plan.layers == LayerRange{} || plan.layers == LayerRange{.begin = 0, .end = info.n_layers};
  if (!whole && !info.capabilities.layer_ranges)
    return no_use("layers", "is not all of them, which this runner cannot do");
  if ((plan.hidden_in != 0) != (plan.layers.begin > 0)) {
    return no_use("hidden_in",
                  plan.hidden_in != 0 ? "is for ranges that begin behind layer 0"
                                      : "is missing: the range begins behind layer 0");
  }
  const bool inner_end = !whole && plan.layers.end < info.n_layers;
  if ((plan.hidden_out != 0) != inner_end) {
    return no_use("hidden_out",
                  plan.hidden_out != 0 ? "is for ranges that end before the last layer"
                                       : "is missing: the range ends before the last layer");
  }
  return {};
}

Status check_move(const BlockMove& move, const RunnerInfo& info) {
  if (move.kv_group >= info.kv_groups.size())
    return outside("KV group", move.kv_group, info.kv_groups.size());
  for (const BlockRef& block : {move.from, move.to}) {
    if (block.tier >= info.capabilities.tiers || block.tier != 0) {
      return no_use("moves",
                    "names tier " + std::to_string(block.tier) + ", this runner has tier 0 alone");
    }
    const std::uint32_t n_blocks = info.kv_groups[move.kv_group].n_blocks;
    if (block.id >= n_blocks) return outside("block", block.id, n_blocks);
  }
  return {};
}

Status check_transfer(const BlockTransfer& transfer, const RunnerInfo& info, const char* field) {
  if (!info.capabilities.attachments) return no_use(field, "cannot be done by this runner");
  if (transfer.attachment == 0) return no_use(field, "names no attachment");
  const LayerRange& layers = transfer.layers;
  if (layers != LayerRange{} && (layers.begin >= layers.end || layers.end > info.n_layers)) {
    return no_use(field,
                  "has the layers [" + std::to_string(layers.begin) + ", " +
                      std::to_string(layers.end) + ") of " + std::to_string(info.n_layers));
  }
  if (transfer.blocks.size() != info.kv_groups.size()) {
    return no_use(field,
                  "has blocks of " + std::to_string(transfer.blocks.size()) +
                      " KV groups, not of " + std::to_string(info.kv_groups.size()));
  }
  for (std::size_t g = 0; g < transfer.blocks.size(); ++g) {
    const std::uint32_t n_blocks = info.kv_groups[g].n_blocks;
    for (const BlockId block : transfer.blocks[g]) {
      if (block >= n_blocks) return outside("block", block, n_blocks);
    }
  }
  return {};
}

}  // namespace

Status check_plan(const StepPlan& plan, const RunnerInfo& info) {
  if (plan.layers.begin > plan.layers.end || plan.layers.end > info.n_layers) {
    return internal_error("plan: the layers [" + std::to_string(plan.layers.begin) + ", " +
                          std::to_string(plan.layers.end) + ") are not of " +
                          std::to_string(info.n_layers));
  }
  for (const SequenceSpec& spec : plan.new_sequences)
    COXSWAIN_RETURN_IF_ERROR(check_spec(spec, info));
  COXSWAIN_RETURN_IF_ERROR(check_layers(plan, info));
  if (!plan.edits.empty() && !info.capabilities.edits)
    return no_use("edits", "cannot be done by this runner");
  if (!plan.moves.empty() && !info.capabilities.moves)
    return no_use("moves", "cannot be done by this runner");
  for (const BlockMove& move : plan.moves) COXSWAIN_RETURN_IF_ERROR(check_move(move, info));
  for (const BlockTransfer& transfer : plan.imports)
    COXSWAIN_RETURN_IF_ERROR(check_transfer(transfer, info, "imports"));
  for (const BlockTransfer& transfer : plan.exports)
    COXSWAIN_RETURN_IF_ERROR(check_transfer(transfer, info, "exports"));
  for (const Row& row : plan.rows) COXSWAIN_RETURN_IF_ERROR(check_row(row, info));
  return {};
}

Status check_export(const BlockTransfer& transfer, const RunnerInfo& info) {
  return check_transfer(transfer, info, "blocks");
}

}  // namespace coxswain::rpc
