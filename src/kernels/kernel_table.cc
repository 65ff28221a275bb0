#include "kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/attention.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu_features.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/pack.h"

namespace coxswain::kernels {
namespace {

static_assert(kWeightTypeCount == kWeightForms);

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
      fill_scalar_vector(&ops);
      break;
    case Isa::kAvx2:
      fill_avx2_linear(&ops);
      fill_avx2_vector(&ops);
      break;
    case Isa::kAvx512:
      fill_avx512_linear_f32(&ops);
      fill_avx512_linear_int8(&ops);
      fill_avx512_vector(&ops);
      if (cpu_features().avx512_bf16) {
        fill_avx512_linear_bf16(&ops);
        fill_avx512_attention_bf16(&ops);
      }
      break;
    case Isa::kAmx:
      fill_amx_linear(&ops);
      fill_avx512_vector(&ops);  // the CPUs that have tiles do vdpbf16ps at half the float32 rate
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

// The entries of a table are plain functions; which set they belong to is part of their type.
template <Isa kIsa, std::size_t kType>
struct LinearEntries {
  static const LinearKernel& kernel() { return set_ops(kIsa).linear[kType]; }
  static void linear(ThreadPool& pool, const LinearArgs& args) { run_linear(pool, args, kernel()); }
  static std::size_t bytes(std::size_t n, std::size_t k) {
    return packed_size_bytes(kernel(), n, k);
  }
  static void pack(PackedMatrix& matrix, std::size_t row, const PackSource& source) {
    pack_rows(matrix, row, source, kernel());
  }
  static void unpack(const PackedMatrix& matrix, std::size_t row, float* out) {
    unpack_row(matrix, row, out, kernel());
  }
};

template <Isa kIsa, std::size_t kType>
void add_linear(KernelTable& table) {
  using Entries = LinearEntries<kIsa, kType>;
  table.linear[kType] = Entries::linear;
  table.packed_bytes[kType] = Entries::bytes;
  table.pack[kType] = Entries::pack;
  table.unpack_row[kType] = Entries::unpack;
  table.layout_id[kType] = Entries::kernel().layout_id;
}

template <Isa kIsa>
KernelTable make_table(std::string_view id) {
  KernelTable table;
  table.id = id;
  table.isa = kIsa;
  add_linear<kIsa, 0>(table);
  add_linear<kIsa, 1>(table);
  add_linear<kIsa, 2>(table);
  add_linear<kIsa, 3>(table);
  table.kv_write = [](ThreadPool& pool, const KvWriteArgs& args) {
    run_kv_write(pool, args, set_ops(kIsa).vector);
  };
  table.attention = [](ThreadPool& pool, const AttentionArgs& args) {
    run_attention(pool, args, set_ops(kIsa).vector);
  };
  table.rms_norm = [](ThreadPool& pool, const NormArgs& args) {
    run_rms_norm(pool, args, set_ops(kIsa).vector);
  };
  table.layer_norm = [](ThreadPool& pool, const NormArgs& args) {
    run_layer_norm(pool, args, set_ops(kIsa).vector);
  };
  table.rope = [](ThreadPool& pool, const RopeArgs& args) {
    run_rope(pool, args, set_ops(kIsa).vector);
  };
  table.activation = [](ThreadPool& pool, const ActivationArgs& args) {
    run_activation(pool, args, set_ops(kIsa).vector);
  };
  table.add = [](ThreadPool& pool, const AddArgs& args) {
    run_add(pool, args, set_ops(kIsa).vector);
  };
  return table;
}

const KernelTable& table_of(Isa isa) {
  static const std::array<KernelTable, kIsaCount> tables{
      make_table<Isa::kScalar>("scalar-1"),
      make_table<Isa::kAvx2>("avx2-2"),
      make_table<Isa::kAvx512>(cpu_features().avx512_bf16 ? "avx512-vnni-bf16-2" : "avx512-vnni-1"),
      make_table<Isa::kAmx>("amx-1"),
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

std::string_view name_of(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return "float32";
    case WeightType::kBf16:
      return "bfloat16";
    case WeightType::kF16:
      return "float16";
    case WeightType::kInt8:
      return "int8";
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

Result<PackedMatrix> pack_matrix(const KernelTable& table,
                                 WeightType type,
                                 std::size_t k,
                                 std::span<const PackSource> pieces) {
  const auto index = static_cast<std::size_t>(type);
  PackedMatrix matrix;
  matrix.type = type;
  matrix.layout_id = table.layout_id[index];
  matrix.k = k;
  for (const PackSource& piece : pieces) matrix.n += piece.n_rows;
  COXSWAIN_ASSIGN_OR_RETURN(
      matrix.data, tensor::AlignedBuffer::allocate(table.packed_bytes[index](matrix.n, k)));
  if (type == WeightType::kInt8) {
    matrix.scales.resize(matrix.n);
    matrix.column_sums.resize(matrix.n);
  }
  std::size_t row = 0;
  for (const PackSource& piece : pieces) {
    table.pack[index](matrix, row, piece);
    row += piece.n_rows;
  }
  return matrix;
}

}  // namespace coxswain::kernels
