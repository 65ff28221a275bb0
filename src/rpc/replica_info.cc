#include "rpc/replica_info.h"

#include <algorithm>
#include <string>

#include <coxswain/kv_layout.h>

namespace coxswain::rpc {

namespace {

// One `name=value` a line, as describe(KvLayout) has them, which follow.
std::string describe_shard(const RunnerInfo& info) {
  return "engine_version=" + info.engine_version + "\ndtype=" + info.dtype +
         "\nvocab_size=" + std::to_string(info.vocab_size) +
         "\nn_layers=" + std::to_string(info.n_layers) + "\n" + describe(kv_layout_of(info));
}

// splitmix64's finaliser: every bit of either epoch moves all bits.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash += value + 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31U);
}

// Of limits where 0 means that the caller decides.
std::uint32_t least_set(std::uint32_t a, std::uint32_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

void narrow(Capabilities& to, const Capabilities& other) {
  to.plans_chunks &= other.plans_chunks;
  to.selects_rows &= other.selects_rows;
  to.grows_blocks &= other.grows_blocks;
  to.takes_ids &= other.takes_ids;
  to.look_ahead &= other.look_ahead;
  to.edits &= other.edits;
  to.layer_ranges &= other.layer_ranges;
  to.attachments &= other.attachments;
  to.moves &= other.moves;
  to.exports_beside &= other.exports_beside;
  to.plans_in_flight_max = std::min(to.plans_in_flight_max, other.plans_in_flight_max);
  to.draft_tokens_max = std::min(to.draft_tokens_max, other.draft_tokens_max);
  to.candidates_max = std::min(to.candidates_max, other.candidates_max);
  to.tiers = std::min(to.tiers, other.tiers);
  to.attachment_bytes_max = std::min(to.attachment_bytes_max, other.attachment_bytes_max);
  to.top_tokens_max = std::min(to.top_tokens_max, other.top_tokens_max);
  to.output_bytes_max = std::min(to.output_bytes_max, other.output_bytes_max);
}

}  // namespace

Result<RunnerInfo> replica_info(std::span<const RunnerInfo> shards) {
  RunnerInfo out = shards.front();
  const std::string rank0 = describe_shard(out);
  for (std::size_t rank = 1; rank < shards.size(); ++rank) {
    const RunnerInfo& other = shards[rank];
    if (const std::string wrong = difference(describe_shard(other), rank0); !wrong.empty()) {
      return Status(Code::kFailedPrecondition,
                    ErrorKind::kUnavailable,
                    "rank " + std::to_string(rank) + " does not match rank 0: " + wrong);
    }
    out.epoch = mix(out.epoch, other.epoch);
    out.max_position_embeddings =
        least_set(out.max_position_embeddings, other.max_position_embeddings);
    out.max_input_tokens = least_set(out.max_input_tokens, other.max_input_tokens);
    out.max_total_tokens = least_set(out.max_total_tokens, other.max_total_tokens);
    for (std::size_t g = 0; g < out.kv_groups.size(); ++g)
      out.kv_groups[g].n_blocks = std::min(out.kv_groups[g].n_blocks, other.kv_groups[g].n_blocks);
    narrow(out.capabilities, other.capabilities);
  }
  return out;
}

}  // namespace coxswain::rpc
