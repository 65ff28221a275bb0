#pragma once
// Workspace: every buffer of a forward pass, sized once for the largest batch and carved out of one
// allocation.
//
// Thread rule: owned by the runner's thread; tasks of a parallel region write disjoint rows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "kernels/kernel_table.h"
#include "model/arch_spec.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::model {

struct WorkspaceSizes {
  std::size_t n_rows = 0;
  std::size_t n_logit_rows = 0;
  std::size_t n_threads = 1;
};

// A row and one expert that was chosen for it.
struct Assignment {
  std::uint32_t row = 0;
  std::uint32_t slot = 0;  // place among the gathered rows
  float weight = 0.0F;
};

struct Workspace {
  WorkspaceSizes sizes;

  std::span<float> normed;     // [n_rows, hidden]
  std::span<float> qkv;        // [n_rows, qkv_width]
  std::span<float> attention;  // [n_rows, q_width]
  std::span<float> block;      // [n_rows, hidden]: output of a block that is not added at once
  std::span<float> inner;      // [n_rows, 2 * intermediate]
  std::span<float> embedded;   // [n_rows, embedding width], where it is projected
  std::span<float> cos;        // [ropes, n_rows, rotary_dim / 2]
  std::span<float> sin;
  std::span<float> frequencies;           // [n_threads, rotary_dim / 2]
  std::span<float> router;                // [n_rows, n_experts]
  std::span<float> expert_rows;           // [n_rows * n_used, hidden]: inputs, then outputs
  std::span<float> expert_inner;          // [n_rows * n_used, 2 * intermediate]
  std::span<Assignment> assignments;      // [n_rows, n_used], by expert id within a row
  std::span<std::uint32_t> expert_begin;  // [n_experts + 1]: first slot of each expert
  std::span<std::uint32_t> expert_ids;    // [n_rows, n_used]
  std::span<float> logit_rows;            // [n_logit_rows, hidden]
  std::span<float> logit_projected;       // [n_logit_rows, embedding width], where it is projected
  std::span<std::byte> linear_scratch;
  std::span<std::byte> attention_scratch;
  std::vector<kernels::AttentionSequence>
      sequences;  // one for each sequence; blocks of the group at hand

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
