#pragma once
// Workspace: the memory of a forward pass, sized once for the largest batch and carved out of one allocation.
//
// What lives through a whole pass has a place of its own. What a block needs while it runs (projections, inner rows,
// scratch) lies in `room`, which the blocks use one after the other: each says how much it needs, the largest counts,
// and each carves its share anew when it runs.
//
// Thread rule: owned by the runner's thread; tasks of a parallel region write disjoint rows.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "kernels/attention_args.h"
#include "model/arch_spec.h"
#include "model/blocks/block.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::model {

struct WorkspaceSizes {
  std::size_t n_rows = 0;
  std::size_t n_logit_rows = 0;
  std::size_t n_threads = 1;
  LinearLimits linear = {};
};

struct Workspace {
  WorkspaceSizes sizes;

  std::span<float> normed;  // [n_rows, hidden]
  // [n_rows, hidden], for a parallel feed-forward with a norm of its own.
  std::span<float> normed_beside;
  // [n_rows, hidden]: of a block that is not added to the residual stream at once.
  std::span<float> output;
  std::span<std::int32_t> positions;      // [n_rows]
  std::span<float> cos;                   // [ropes, n_rows, angle width]
  std::span<float> sin;                   // the same
  std::span<float> frequencies;           // [n_rows, angle width]: a set for each sequence
  std::span<std::uint32_t> frequency_of;  // [n_rows]: the set of each row
  std::span<std::byte> room;              // of the block that runs
  std::span<std::byte> linear_scratch;
  // One for each sequence, with the blocks of the KV group at hand.
  std::vector<kernels::AttentionSequence> sequences;

  // Errors: kResourceExhausted with the bytes asked for.
  static Result<Workspace> create(const ArchSpec& arch, const WorkspaceSizes& sizes);
  static std::uint64_t bytes(const ArchSpec& arch, const WorkspaceSizes& sizes);

 private:
  std::uint64_t place(const ArchSpec& arch, std::byte* base);

  tensor::AlignedBuffer buffer_;
};

// Half the widest rotary part: row width of the angle tables.
std::size_t angle_width(const ArchSpec& arch);

}  // namespace coxswain::model
