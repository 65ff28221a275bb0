#include "kernels/probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace coxswain::kernels {
namespace {

// Odd sizes: whole vectors and a tail on every set, two panels, more than one group of codes.
constexpr std::size_t kRows = 3;
constexpr std::size_t kWidth = 77;
constexpr std::size_t kInputs = 150;
constexpr std::size_t kOutputs = 70;

class Probe {
 public:
  Probe(const KernelTable& table, ExecContext& exec) : table_(table), exec_(exec) {}

  Status linear();
  Status attention();
  void norms();
  void ropes();
  void activations();
  void sums();
  void rows();
  void experts();

  std::uint64_t hash() const { return hash_; }

 private:
  // [n] values within +-range, of every size down to subnormal ones.
  std::vector<float> values(std::size_t n, float range = 2.0F) {
    std::vector<float> out(n);
    for (float& value : out) {
      random_ = random_ * 6364136223846793005U + 1442695040888963407U;
      const auto signed_bits = static_cast<std::int32_t>(random_ >> 32);
      value = static_cast<float>(signed_bits) * 0x1p-31F * range;
      if ((random_ >> 24) % 64 == 0) value *= 0x1p-60F;
      if ((random_ >> 24) % 64 == 1) value *= 0x1p-127F;
    }
    return out;
  }

  // Each step is a bijection of what was there before: no difference is lost before the end.
  template <typename T>
  void add(std::span<const T> data) {
    static_assert(sizeof(T) == 4);
    for (const T& item : data) {
      hash_ = (hash_ ^ std::bit_cast<std::uint32_t>(item)) * 0x9E3779B97F4A7C15U;
      hash_ ^= hash_ >> 32;
    }
  }
  void add(const std::vector<float>& data) { add(std::span<const float>(data)); }

  Status linear_of(const LinearOps& ops);
  Status attention_of(DType type);

  const KernelTable& table_;
  ExecContext& exec_;
  std::uint64_t random_ = 1;
  std::uint64_t hash_ = 0;
};

// Few rows, some and many: sets multiply them in different ways.
Status Probe::linear_of(const LinearOps& ops) {
  const auto weights = values(kOutputs * kInputs);
  const DenseRows dense{.data = reinterpret_cast<const std::byte*>(weights.data()),
                        .type = DType::kF32,
                        .n_rows = kOutputs};
  COXSWAIN_ASSIGN_OR_RETURN(const MatrixImage image, pack_matrix(ops, kInputs, {&dense, 1}));
  const auto bias = values(kOutputs);
  for (const std::size_t m : {1U, 7U, 18U}) {
    const auto x = values(m * kInputs);
    auto y = values(m * kOutputs);
    COXSWAIN_ASSIGN_OR_RETURN(auto scratch,
                              tensor::AlignedBuffer::allocate(linear_scratch_bytes(
                                  {.rows = m, .k = kInputs, .n_threads = exec_.n_threads()})));
    const LinearInput input{.x = x.data(), .stride = kInputs, .m = m, .k = kInputs};
    const LinearPiece piece{.w = &image, .y = y.data(), .y_stride = kOutputs, .bias = bias.data()};
    const LinearProblem problem{.m = m, .pieces = {&piece, 1}};
    table_.linear(exec_,
                  {.inputs = {&input, 1},
                   .problems = {&problem, 1},
                   .accumulate = m == 7,
                   .scratch = scratch.bytes()});
    add(y);
  }
  constexpr std::array<std::int32_t, kRows> kIds{0, 69, 33};
  std::vector<float> looked_up(kRows * kInputs);
  table_.look_up_packed(exec_,
                        {.pieces = {&image, 1},
                         .ids = kIds,
                         .y = looked_up.data(),
                         .y_stride = kInputs,
                         .scale = 1.7F});
  add(looked_up);
  return {};
}

Status Probe::linear() {
  for (const LinearOps& ops : table_.formats) COXSWAIN_RETURN_IF_ERROR(linear_of(ops));
  return {};
}

// Rows on both sides of the border of a partition, over a cache as the table writes it.
Status Probe::attention_of(DType type) {
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kKvHeads = 1;
  constexpr std::size_t kHeadDim = 40;
  constexpr std::size_t kLength = kAttentionPartition + 5;
  constexpr std::size_t kQueries = 7;
  constexpr std::array<BlockId, 2> kBlocks{1, 0};
  const std::size_t stride = kKvHeads * kv_head_bytes(type, kAttentionPartition, kHeadDim);
  std::vector<std::byte> keys(2 * stride);
  std::vector<std::byte> cached(2 * stride);
  const KvLayerView view{.k = keys.data(),
                         .v = cached.data(),
                         .k_block_stride_bytes = stride,
                         .v_block_stride_bytes = stride,
                         .type = type,
                         .n_kv_heads = kKvHeads,
                         .block_tokens = kAttentionPartition,
                         .k_head_dim = kHeadDim,
                         .v_head_dim = kHeadDim};
  const auto k = values(kLength * kKvHeads * kHeadDim);
  const auto v = values(kLength * kKvHeads * kHeadDim);
  const AttentionSequence all{.n_rows = kLength, .blocks = kBlocks};
  table_.kv_write(exec_,
                  {.cache = view,
                   .k = k.data(),
                   .k_stride = kKvHeads * kHeadDim,
                   .v = v.data(),
                   .v_stride = kKvHeads * kHeadDim,
                   .sequences = {&all, 1}});
  add(std::span(reinterpret_cast<const std::uint32_t*>(keys.data()), keys.size() / 4));
  add(std::span(reinterpret_cast<const std::uint32_t*>(cached.data()), cached.size() / 4));
  const auto q = values(kQueries * kHeads * kHeadDim);
  const auto sinks = values(kHeads);
  const auto slopes = values(kHeads, 0.05F);
  COXSWAIN_ASSIGN_OR_RETURN(auto scratch,
                            tensor::AlignedBuffer::allocate(
                                attention_scratch_bytes(exec_.n_threads(), kHeads, kHeadDim)));
  const AttentionSequence last{.n_rows = kQueries,
                               .first_position = static_cast<std::int32_t>(kLength - kQueries),
                               .blocks = kBlocks};
  // All positions, a window with the special cases of models, and sink tokens before a window.
  enum class View { kAll, kWindow, kSinkTokens };
  for (const View seen : {View::kAll, View::kWindow, View::kSinkTokens}) {
    const bool special = seen == View::kWindow;
    std::vector<float> out(kQueries * kHeads * kHeadDim);
    table_.attention(exec_,
                     {.cache = view,
                      .q = q.data(),
                      .q_stride = kHeads * kHeadDim,
                      .out = out.data(),
                      .out_stride = kHeads * kHeadDim,
                      .n_heads = kHeads,
                      .scale = 0.2F,
                      .soft_cap = special ? 5.0F : 0.0F,
                      .window = seen == View::kAll ? 0 : 100,
                      .sink_tokens = seen == View::kSinkTokens ? 9 : 0,
                      .sinks = special ? sinks.data() : nullptr,
                      .alibi_slopes = special ? slopes.data() : nullptr,
                      .sequences = {&last, 1},
                      .scratch = scratch.bytes()});
    add(out);
  }
  return {};
}

Status Probe::attention() {
  for (const DType type : tensor::kCacheTypes) COXSWAIN_RETURN_IF_ERROR(attention_of(type));
  return {};
}

void Probe::norms() {
  const auto x = values(kRows * kWidth);
  const auto weight = values(kWidth);
  const auto bias = values(kWidth);
  std::vector<float> y(x.size());
  const NormArgs args{.x = x.data(),
                      .x_stride = kWidth,
                      .y = y.data(),
                      .y_stride = kWidth,
                      .m = kRows,
                      .n = kWidth,
                      .weight = weight.data(),
                      .bias = bias.data(),
                      .weight_offset = 1.0F};
  table_.rms_norm(exec_, args);
  add(y);
  table_.layer_norm(exec_, args);
  add(y);
}

void Probe::ropes() {
  constexpr std::size_t kAngles = 19;
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kHeadDim = 44;
  constexpr std::array<std::int32_t, kRows> kPositions{0, 77, 131'071};
  auto frequencies = values(kAngles, 1.0F);
  std::vector<float> cos(kRows * kAngles);
  std::vector<float> sin(kRows * kAngles);
  table_.rope_angles(exec_,
                     {.positions = kPositions,
                      .frequencies = frequencies.data(),
                      .factor = 1.1F,
                      .cos = cos.data(),
                      .sin = sin.data(),
                      .n = kAngles});
  add(cos);
  add(sin);
  for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
    auto x = values(kRows * kHeads * kHeadDim);
    table_.rope(exec_,
                {.x = x.data(),
                 .x_stride = kHeads * kHeadDim,
                 .m = kRows,
                 .n_heads = kHeads,
                 .head_dim = kHeadDim,
                 .rotary_dim = 2 * kAngles,
                 .cos = cos.data(),
                 .sin = sin.data(),
                 .style = style});
    add(x);
  }
}

void Probe::activations() {
  const auto gate = values(kRows * kWidth, 9.0F);
  const auto up = values(kRows * kWidth);
  std::vector<float> y(gate.size());
  for (const Activation activation : {Activation::kSilu,
                                      Activation::kGeluErf,
                                      Activation::kGeluTanh,
                                      Activation::kRelu,
                                      Activation::kReluSquared,
                                      Activation::kGeluQuick}) {
    table_.activation(exec_,
                      {.gate = gate.data(),
                       .gate_stride = kWidth,
                       .up = up.data(),
                       .up_stride = kWidth,
                       .y = y.data(),
                       .y_stride = kWidth,
                       .m = kRows,
                       .n = kWidth,
                       .activation = activation});
    add(y);
  }
  table_.clamped_swiglu(exec_,
                        {.gate = gate.data(),
                         .gate_stride = kWidth,
                         .up = up.data(),
                         .up_stride = kWidth,
                         .y = y.data(),
                         .y_stride = kWidth,
                         .m = kRows,
                         .n = kWidth,
                         .limit = 7.0F,
                         .alpha = 1.702F});
  add(y);
}

void Probe::sums() {
  const auto a = values(kRows * kWidth);
  auto y = values(kRows * kWidth);
  table_.add(exec_,
             {.a = a.data(),
              .a_stride = kWidth,
              .y = y.data(),
              .y_stride = kWidth,
              .m = kRows,
              .n = kWidth,
              .alpha = 0.3F,
              .beta = 0.7F});
  add(y);
  const auto gate = values(kRows, 6.0F);
  table_.gated_add(exec_,
                   {.a = a.data(),
                    .a_stride = kWidth,
                    .gate = gate.data(),
                    .y = y.data(),
                    .y_stride = kWidth,
                    .m = kRows,
                    .n = kWidth});
  add(y);
  table_.clip(exec_, {.x = y.data(), .x_stride = kWidth, .m = kRows, .n = kWidth, .limit = 1.5F});
  add(y);
  table_.soft_cap(
      exec_,
      {.x = y.data(), .x_stride = kWidth, .m = kRows, .n = kWidth, .scale = 9.0F, .cap = 5.0F});
  add(y);
}

void Probe::rows() {
  constexpr std::array<std::int32_t, kRows> kIds{4, 0, 2};
  constexpr std::array<std::uint32_t, kRows> kPlaces{2, 0, 1};
  const auto table = values(5 * kWidth);
  std::vector<std::uint16_t> halves(table.size());
  std::vector<float> y(kRows * kWidth);
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    const auto* data = reinterpret_cast<const std::byte*>(table.data());
    if (type != DType::kF32) {
      std::ranges::transform(table,
                             halves.begin(),
                             type == DType::kBf16 ? tensor::float_to_bf16 : tensor::float_to_f16);
      data = reinterpret_cast<const std::byte*>(halves.data());
    }
    table_.look_up(exec_,
                   {.table = data,
                    .type = type,
                    .ids = kIds,
                    .y = y.data(),
                    .y_stride = kWidth,
                    .n = kWidth,
                    .scale = 1.3F,
                    .accumulate = type != DType::kF32});
    add(y);
  }
  std::vector<float> gathered(y.size());
  table_.gather(exec_,
                {.x = y.data(),
                 .x_stride = kWidth,
                 .rows = kPlaces.data(),
                 .y = gathered.data(),
                 .y_stride = kWidth,
                 .m = kRows,
                 .n = kWidth});
  add(gathered);
}

void Probe::experts() {
  constexpr std::size_t kExperts = 9;
  constexpr std::size_t kUsed = 3;
  const auto all_scores = values(kRows * kExperts, 4.0F);
  std::vector<std::uint32_t> ids(kRows * kUsed);
  std::vector<float> weights(kRows * kUsed);
  for (const Routing routing : {Routing::kSoftmaxThenTop, Routing::kTopThenSoftmax}) {
    auto scores = all_scores;
    table_.choose_experts(exec_,
                          {.scores = scores.data(),
                           .m = kRows,
                           .n_experts = kExperts,
                           .n_used = kUsed,
                           .routing = routing,
                           .normalize = true,
                           .ids = ids.data(),
                           .weights = weights.data()});
    add(std::span<const std::uint32_t>(ids));
    add(weights);
  }
  std::vector<std::uint32_t> begin(kExperts + 1);
  std::vector<std::uint32_t> slots(ids.size());
  std::vector<std::uint32_t> rows(ids.size());
  table_.group_rows(exec_,
                    {.ids = ids.data(),
                     .m = kRows,
                     .n_used = kUsed,
                     .n_experts = kExperts,
                     .begin = begin.data(),
                     .slots = slots.data(),
                     .rows = rows.data()});
  add(std::span<const std::uint32_t>(begin));
  add(std::span<const std::uint32_t>(slots));
  add(std::span<const std::uint32_t>(rows));
  const auto x = values(slots.size() * kWidth);
  std::vector<float> y(kRows * kWidth);
  table_.combine(exec_,
                 {.x = x.data(),
                  .x_stride = kWidth,
                  .slots = slots.data(),
                  .weights = weights.data(),
                  .n_used = kUsed,
                  .y = y.data(),
                  .y_stride = kWidth,
                  .m = kRows,
                  .n = kWidth});
  add(y);
}

}  // namespace

Result<std::string> numeric_id(const KernelTable& table, ExecContext& exec) {
  Probe probe(table, exec);
  COXSWAIN_RETURN_IF_ERROR(probe.linear());
  COXSWAIN_RETURN_IF_ERROR(probe.attention());
  probe.norms();
  probe.ropes();
  probe.activations();
  probe.sums();
  probe.rows();
  probe.experts();
  std::string out(8, '0');
  std::uint64_t left = probe.hash() ^ (probe.hash() >> 32);
  for (char& digit : out) {
    digit = "0123456789abcdef"[left % 16];
    left /= 16;
  }
  return out;
}

Result<std::string> kernel_set_id(const KernelTable& table) {
  ExecContext exec(1);
  COXSWAIN_ASSIGN_OR_RETURN(const std::string bits, numeric_id(table, exec));
  return std::string(table.id) + "." + bits;
}

}  // namespace coxswain::kernels
