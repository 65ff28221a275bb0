#pragma once
// KernelTable: every computing function of one instruction set, chosen once at start.
//
// Law 1, as kernels see it: the order in which an output element is summed depends on K (or head_dim, or the absolute
// positions of keys) alone; never on the number of rows, on how rows are blocked, on chunking or on threads. Splitting
// work over threads splits outputs, never a sum. Every entry is therefore a pure function of one row's inputs.
//
// A set's table starts as a copy of the next lower one and overrides entries, so no entry is null. Weights are packed
// once at load into the layout of the set; layout_id names it (part of cache keys on disk).
//
// Shapes are row-major, outermost first; strides are in elements unless the name says bytes. Rows are the ragged rows
// of all sequences of a step together. Activations are float32 between kernels.
//
// Thread rule: one step at a time (an ExecContext belongs to one runner); packed weights are immutable.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "kernels/attention_args.h"
#include "kernels/elementwise_args.h"
#include "kernels/exec_context.h"
#include "kernels/linear_args.h"
#include "kernels/weight_format.h"

namespace coxswain::kernels {

using tensor::DType;

enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512, kAmx };
inline constexpr std::size_t kIsaCount = 4;
std::string_view name_of(Isa isa);  // "scalar", "avx2", "avx512", "amx"

struct KernelTable {
  // The set and its revision, e.g. "avx512-vnni-bf16-2"; kernel_set_id (probe.h) begins with it.
  std::string_view id;
  Isa isa = Isa::kScalar;

  // How this set holds and multiplies each weight format, in the order of weight_formats(). A linear call's images
  // were made with these.
  std::span<const LinearOps> formats;
  void (*linear)(ExecContext&, const LinearCall&) = nullptr;

  void (*kv_write)(ExecContext&, const KvWriteArgs&) = nullptr;
  void (*attention)(ExecContext&, const AttentionArgs&) = nullptr;
  void (*rms_norm)(ExecContext&, const NormArgs&) = nullptr;
  void (*layer_norm)(ExecContext&, const NormArgs&) = nullptr;
  void (*rope)(ExecContext&, const RopeArgs&) = nullptr;
  void (*activation)(ExecContext&, const ActivationArgs&) = nullptr;
  void (*clamped_swiglu)(ExecContext&, const ClampedSwigluArgs&) = nullptr;
  void (*add)(ExecContext&, const AddArgs&) = nullptr;
  void (*gated_add)(ExecContext&, const GatedAddArgs&) = nullptr;
  void (*clip)(ExecContext&, const ClipArgs&) = nullptr;
  void (*soft_cap)(ExecContext&, const SoftCapArgs&) = nullptr;
  void (*look_up)(ExecContext&, const LookUpArgs&) = nullptr;
  void (*look_up_packed)(ExecContext&, const LookUpPackedArgs&) = nullptr;
  void (*rope_angles)(ExecContext&, const RopeAnglesArgs&) = nullptr;
  void (*choose_experts)(ExecContext&, const ChooseExpertsArgs&) = nullptr;
  void (*group_rows)(ExecContext&, const GroupRowsArgs&) = nullptr;
  void (*gather)(ExecContext&, const GatherArgs&) = nullptr;
  void (*combine)(ExecContext&, const CombineArgs&) = nullptr;

  const LinearOps& ops(const WeightFormat& format) const;
  // The format that holds rows of this scheme code by code. Null: none does; they can be decoded and held as floats.
  const LinearOps* ops_for(const tensor::QuantScheme& scheme) const;
};

// Sets this CPU (and its kernel, for AMX) can run, lowest first; always contains kScalar.
std::vector<Isa> available_isas();

// Errors: kInvalidArgument if `isa` cannot run here. The table lives as long as the process.
Result<const KernelTable*> kernel_table(Isa isa);

// `forced` empty: the highest available set. Errors: kInvalidArgument naming the sets that can run.
Result<const KernelTable*> select_kernels(std::string_view forced);

}  // namespace coxswain::kernels
