#include "kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

#include "kernels/attention.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu_features.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/pack.h"
#include "kernels/rows.h"

namespace coxswain::kernels {
namespace {

constexpr std::array kIsas{Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

bool can_run(Isa isa) {
  const CpuFeatures& cpu = cpu_features();
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return cpu.avx2;
    case Isa::kAvx512:
      return cpu.avx512;
    case Isa::kAmx:
      return cpu.amx;
  }
  return false;
}

// Adds what `isa` has to what the set below left in `ops`.
void fill(Isa isa, SetOps& ops) {
  switch (isa) {
    case Isa::kScalar:
      fill_scalar_linear(&ops);
      fill_scalar_linear_groups(&ops);
      fill_scalar_linear_super(&ops);
      fill_scalar_vector(&ops);
      break;
    case Isa::kAvx2:
      fill_avx2_linear(&ops);
      fill_avx2_linear_groups(&ops);
      fill_avx2_linear_super(&ops);
      fill_avx2_encode(&ops);
      fill_avx2_vector(&ops);
      break;
    case Isa::kAvx512:
      fill_avx512_linear_f32(&ops);
      fill_avx512_linear_int8(&ops);
      fill_avx512_linear_groups(&ops);
      fill_avx512_linear_super(&ops);
      fill_avx512_encode(&ops);
      fill_avx512_vector(&ops);
      fill_avx512_attention_codes(&ops);
      if (cpu_features().avx512_bf16) {
        fill_avx512_linear_bf16(&ops);
        fill_avx512_attention_bf16(&ops);
      }
      break;
    case Isa::kAmx:
      fill_amx_linear(&ops);
      fill_amx_linear_groups(&ops);
      fill_amx_linear_super(&ops);
      fill_avx512_vector(&ops);  // the CPUs that have tiles do vdpbf16ps at half the float32 rate
      fill_avx512_attention_codes(&ops);
      fill_amx_attention(&ops);
      fill_amx_attention_codes(&ops);
      break;
  }
}

// The operations of every set that can run here; the others stay empty.
const SetOps& set_ops(Isa isa) {
  static const auto all = [] {
    std::array<SetOps, kIsaCount> sets{};
    SetOps ops{};
    for (const Isa each : kIsas) {
      if (!can_run(each)) break;
      fill(each, ops);
      sets[static_cast<std::size_t>(each)] = ops;
    }
    return sets;
  }();
  return all[static_cast<std::size_t>(isa)];
}

Arithmetic arithmetic_of(const LinearKernel& kernel) {
  switch (kernel.form) {
    case kActivationF32:
      return Arithmetic::kFloat32;
    case kActivationBf16:
      return Arithmetic::kBfloat16;
    case kActivationU8:
    case kActivationS8:
    case kActivationS16:
      return Arithmetic::kInteger;
  }
  return Arithmetic::kFloat32;
}

// By format, as weight_formats() has them; images point at them.
std::span<const LinearOps> linear_ops(Isa isa) {
  using OfSet = std::array<LinearOps, kLinearForms>;
  static const auto all = [] {
    std::array<OfSet, kIsaCount> sets{};
    for (const Isa each : kIsas) {
      for (std::size_t form = 0; form < kLinearForms; ++form) {
        LinearOps& ops = sets[static_cast<std::size_t>(each)][form];
        ops.kernel = &set_ops(each).linear[form];
        ops.format = weight_formats()[form];
        ops.layout_id = ops.kernel->layout_id;
        ops.arithmetic = arithmetic_of(*ops.kernel);
        ops.layout = image_layout;
        ops.pack = pack_rows;
        ops.pack_codes = pack_code_rows;
        ops.unpack_row = unpack_row;
      }
    }
    return sets;
  }();
  return all[static_cast<std::size_t>(isa)];
}

// The entries of a table are plain functions; which set they belong to is part of their type.
template <Isa kIsa, typename Args, void (*kRun)(ExecContext&, const Args&, const VectorOps&)>
void vector_entry(ExecContext& exec, const Args& args) {
  kRun(exec, args, set_ops(kIsa).vector);
}

template <Isa kIsa>
KernelTable make_table(std::string_view id) {
  KernelTable table;
  table.id = id;
  table.isa = kIsa;
  table.formats = linear_ops(kIsa);
  table.linear = vector_entry<kIsa, LinearCall, run_linear>;
  // Each of these is split over threads by run_NAME, which calls one thread's part of the set.
  table.kv_write = vector_entry<kIsa, KvWriteArgs, run_kv_write>;
  table.attention = vector_entry<kIsa, AttentionArgs, run_attention>;
  table.rms_norm = vector_entry<kIsa, NormArgs, run_rms_norm>;
  table.layer_norm = vector_entry<kIsa, NormArgs, run_layer_norm>;
  table.rope = vector_entry<kIsa, RopeArgs, run_rope>;
  table.activation = vector_entry<kIsa, ActivationArgs, run_activation>;
  table.clamped_swiglu = vector_entry<kIsa, ClampedSwigluArgs, run_clamped_swiglu>;
  table.add = vector_entry<kIsa, AddArgs, run_add>;
  table.gated_add = vector_entry<kIsa, GatedAddArgs, run_gated_add>;
  table.clip = vector_entry<kIsa, ClipArgs, run_clip>;
  table.soft_cap = vector_entry<kIsa, SoftCapArgs, run_soft_cap>;
  table.look_up = vector_entry<kIsa, LookUpArgs, run_look_up>;
  table.rope_angles = vector_entry<kIsa, RopeAnglesArgs, run_rope_angles>;
  table.choose_experts = vector_entry<kIsa, ChooseExpertsArgs, run_choose_experts>;
  table.combine = vector_entry<kIsa, CombineArgs, run_combine>;
  table.group_rows = run_group_rows;
  table.gather = run_gather;
  table.look_up_packed = vector_entry<kIsa, LookUpPackedArgs, run_look_up_packed>;
  return table;
}

const KernelTable& table_of(Isa isa) {
  static const std::array<KernelTable, kIsaCount> tables{
      make_table<Isa::kScalar>("scalar-2"),
      make_table<Isa::kAvx2>("avx2-3"),
      make_table<Isa::kAvx512>(cpu_features().avx512_bf16 ? "avx512-vnni-bf16-3" : "avx512-vnni-2"),
      make_table<Isa::kAmx>("amx-3"),
  };
  return tables[static_cast<std::size_t>(isa)];
}

std::string names_of_available() {
  std::string names;
  for (const Isa isa : available_isas()) {
    if (!names.empty()) names += ", ";
    names += name_of(isa);
  }
  return names;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas) {
    if (!can_run(isa)) break;
    isas.push_back(isa);
  }
  return isas;
}

Result<const KernelTable*> kernel_table(Isa isa) {
  const std::vector<Isa> isas = available_isas();
  if (std::find(isas.begin(), isas.end(), isa) == isas.end()) {
    return invalid_argument("instruction set " + std::string(name_of(isa)) +
                                " cannot run here; these can: " + names_of_available(),
                            "isa");
  }
  return &table_of(isa);
}

Result<const KernelTable*> select_kernels(std::string_view forced) {
  if (forced.empty()) return &table_of(available_isas().back());
  for (const Isa isa : available_isas()) {
    if (name_of(isa) == forced) return &table_of(isa);
  }
  return invalid_argument("instruction set " + std::string(forced) +
                              " cannot run here; these can: " + names_of_available(),
                          "isa");
}

const LinearOps& KernelTable::ops(const WeightFormat& format) const {
  const auto at = std::ranges::find(formats, &format, &LinearOps::format);
  assert(at != formats.end());
  return *at;
}

const LinearOps* KernelTable::ops_for(const tensor::QuantScheme& scheme) const {
  const LinearOps* best = nullptr;
  for (const LinearOps& ops : formats) {
    if (!ops.format->takes(scheme)) continue;
    if (ops.format->scheme == scheme) return &ops;
    // Fewest parameters.
    if (best == nullptr || best->format->scheme.group < ops.format->scheme.group) best = &ops;
  }
  return best;
}

}  // namespace coxswain::kernels
