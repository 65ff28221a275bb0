#include "rpc/plan_check.h"

#include <string>

namespace coxswain::rpc {

namespace {

Status outside(const std::string& what, std::uint64_t value, std::uint64_t limit) {
  return internal_error("plan: " + what + " " + std::to_string(value) + " is not below " +
                        std::to_string(limit));
}

Status check_tokens(const std::vector<TokenId>& tokens, const RunnerInfo& info, const char* what) {
  for (const TokenId id : tokens) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= info.vocab_size) {
      return internal_error("plan: " + std::string(what) + " has the token id " +
                            std::to_string(id) + " of " + std::to_string(info.vocab_size));
    }
  }
  return {};
}

Status check_spec(const SequenceSpec& spec, const RunnerInfo& info) {
  if (spec.prompt.empty()) return internal_error("plan: a new sequence has no prompt");
  COXSWAIN_RETURN_IF_ERROR(check_tokens(spec.prompt, info, "a prompt"));
  COXSWAIN_RETURN_IF_ERROR(check_tokens(spec.produced, info, "an earlier output"));
  for (const auto& [id, bias] : spec.sampling.logit_bias) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= info.vocab_size) {
      return internal_error("plan: a bias has the token id " + std::to_string(id));
    }
  }
  return {};
}

Status check_row(const Row& row, const RunnerInfo& info) {
  if (row.n_tokens == 0) return internal_error("plan: a row has no tokens");
  if (row.from_previous_step) {
    if (row.n_tokens != 1 || !row.tokens.empty()) {
      return internal_error(
          "plan: a row that takes the token of the step before has tokens of its own");
    }
  } else if (row.tokens.size() != row.n_tokens) {
    return internal_error("plan: a row of " + std::to_string(row.n_tokens) + " positions has " +
                          std::to_string(row.tokens.size()) + " tokens");
  }
  const std::uint64_t end = std::uint64_t{row.first_position} + row.n_tokens;
  if (info.max_position_embeddings != 0 && end > info.max_position_embeddings) {
    return outside("position", end - 1, info.max_position_embeddings);
  }
  COXSWAIN_RETURN_IF_ERROR(check_tokens(row.tokens, info, "a row"));
  for (const BlockTableChange& change : row.table_changes) {
    if (change.kv_group >= info.kv_groups.size())
      return outside("KV group", change.kv_group, info.kv_groups.size());
    const std::uint32_t n_blocks = info.kv_groups[change.kv_group].n_blocks;
    if (change.first_index + std::uint64_t{change.blocks.size()} > n_blocks) {
      return outside("block-table index",
                     change.first_index + std::uint64_t{change.blocks.size()} - 1,
                     n_blocks);
    }
    for (const BlockId block : change.blocks) {
      if (block >= n_blocks && block != kReleasedBlock) return outside("block", block, n_blocks);
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
  for (const BlockCopy& copy : plan.copies) {
    if (copy.kv_group >= info.kv_groups.size())
      return outside("KV group", copy.kv_group, info.kv_groups.size());
    const std::uint32_t n_blocks = info.kv_groups[copy.kv_group].n_blocks;
    if (copy.from >= n_blocks) return outside("block", copy.from, n_blocks);
    if (copy.to >= n_blocks) return outside("block", copy.to, n_blocks);
  }
  for (const Row& row : plan.rows) COXSWAIN_RETURN_IF_ERROR(check_row(row, info));
  return {};
}

}  // namespace coxswain::rpc
