#pragma once
// How large the pieces of a plan are, as upper bounds, so that a plan outgrows neither a message (64 MiB) nor the caps
// on its lists (rpc/convert.h). An id takes at most 5 bytes on the wire; what is counted there as well as weighed
// (sequences, rows, biases, stop sequences, table changes) weighs here so much that its cap cannot be reached first.
//
// Thread rule: pure functions.

#include <cstddef>
#include <string>

#include <coxswain/step_runner.h>

#include "batch/engine.h"

namespace coxswain::batch {

// Sequences that one plan lets the runner forget; the others follow with the next.
inline constexpr std::size_t kPlanDroppedMax = 16'384;

inline constexpr std::size_t kIdBytes = 5;
inline constexpr std::size_t kSpecBytes = 1024;
// A bias, an end id, or a stop sequence or bad word beside its text or ids.
inline constexpr std::size_t kSpecItemBytes = 40;
inline constexpr std::size_t kRowBytes = 256;
inline constexpr std::size_t kTableChangeBytes = 16;  // beside its blocks

// Of the SequenceSpec of `request`, with so many ids of prompt and output.
inline std::size_t spec_bytes_max(const GenerationRequest& request, std::size_t n_tokens) {
  const auto& stops = request.stopping.stop_sequences;
  std::size_t out = kSpecBytes + (n_tokens + request.draft.size()) * kIdBytes +
                    request.adapter_digest.size() + request.cache_salt.size() +
                    (stops.size() + request.sampling.logit_bias.size()) * kSpecItemBytes;
  for (const std::string& stop : stops) out += stop.size();
  out += request.stopping.end_ids.size() * kSpecItemBytes;
  if (const auto& thoughts = request.sampling.thoughts)
    out += kSpecItemBytes + (thoughts->open.size() + thoughts->close.size()) * kIdBytes;
  out += request.sampling.grammar.size() + request.sampling.allowed_tokens.size() * kIdBytes;
  for (const std::string& text : request.sampling.dry_sequence_breakers)
    out += kSpecItemBytes + text.size();
  for (const auto* sequences :
       {&request.sampling.bad_words, &request.stopping.stop_token_sequences})
    for (const std::vector<TokenId>& ids : *sequences)
      out += kSpecItemBytes + ids.size() * kIdBytes;
  return out;
}

inline std::size_t row_bytes_max(const Row& row) {
  std::size_t out = kRowBytes + row.tokens.size() * kIdBytes;
  for (const BlockTableChange& change : row.table_changes)
    out += kTableChangeBytes + change.blocks.size() * kIdBytes;
  return out;
}

}  // namespace coxswain::batch
