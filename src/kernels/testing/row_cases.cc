#include "kernels/testing/row_cases.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "kernels/test_util.h"
#include "tensor/dtype.h"

namespace coxswain::kernels::testing {
namespace {

constexpr std::uint32_t kMark = 0x7FC0BEEF;  // a NaN
// 64 rows of it are below kParallelValues, 65 above.
constexpr std::size_t kWidth = 1009;

// In [-range, range), a function of the three numbers.
float value_of(std::uint32_t id, std::uint32_t salt, std::size_t column, float range) {
  std::uint64_t x = (std::uint64_t{id} << 40) ^ (std::uint64_t{salt} << 32) ^ column;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL + 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return (static_cast<float>((x >> 40) & 0xFFFF) / 32768.0F - 1.0F) * range;
}

struct Shape {
  std::uint32_t salt;
  std::size_t width;
  std::size_t gap;
  float range = 1.0F;
};

// Rows of a batch in memory.
class Rows {
 public:
  Rows(const Batch& batch, const Shape& shape)
      : m_(batch.ids.size()),
        width_(shape.width),
        stride_(shape.width + shape.gap),
        data_(1 + m_ * stride_, std::bit_cast<float>(kMark)) {
    for (std::size_t i = 0; i < m_; ++i) {
      for (std::size_t c = 0; c < width_; ++c)
        row(i)[c] = value_of(batch.ids[i], shape.salt, c, shape.range);
    }
    if (batch.broken) row(batch.broken->row)[width_ / 3] = batch.broken->value;
  }

  float* data() { return data_.data() + 1; }
  std::size_t stride() const { return stride_; }

  // The rows side by side.
  std::vector<float> take() {
    std::vector<float> out;
    out.reserve(m_ * width_);
    for (std::size_t i = 0; i < m_; ++i) {
      out.insert(out.end(), row(i), row(i) + width_);
      for (std::size_t c = width_; c < stride_; ++c) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(row(i)[c]), kMark) << "written behind row " << i;
      }
    }
    return out;
  }

 private:
  float* row(std::size_t i) { return data() + i * stride_; }

  std::size_t m_, width_, stride_;
  std::vector<float> data_;
};

// The same for all rows of a case.
std::vector<float> shared(std::size_t n, std::uint32_t salt, float range = 1.0F) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = value_of(0, salt, i, range);
  return out;
}

// `n` rows for each row of the batch.
Batch repeated(const Batch& batch, std::uint32_t n) {
  Batch out;
  for (const std::uint32_t id : batch.ids) {
    for (std::uint32_t j = 0; j < n; ++j) out.ids.push_back(id * n + j);
  }
  if (batch.broken) out.broken = {batch.broken->row * n + n / 2, batch.broken->value};
  return out;
}

Batch every_id() {
  Batch out{.ids = std::vector<std::uint32_t>(kRowIds)};
  std::iota(out.ids.begin(), out.ids.end(), 0U);
  return out;
}

// ---- element-wise entries ----

enum class Norm { kRms, kLayer };

RowCase norm_case(std::string name, Norm norm, std::size_t groups, bool per_group) {
  const std::size_t n = kWidth / groups;
  return {.name = std::move(name),
          .values_per_row = n * groups,
          .run = [=](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            Rows x(batch, {1, n * groups, 3, 3.0F});
            Rows y(batch, {2, n * groups, 5});
            const auto weight = shared(n * groups, 3);
            const auto bias = shared(n * groups, 4);
            (norm == Norm::kLayer ? table.layer_norm : table.rms_norm)(
                exec,
                {.x = x.data(),
                 .x_stride = x.stride(),
                 .y = y.data(),
                 .y_stride = y.stride(),
                 .m = batch.ids.size(),
                 .n = n,
                 .weight = weight.data(),
                 .bias = bias.data(),
                 .groups = groups,
                 .weight_per_group = per_group});
            return y.take();
          }};
}

RowCase rope_case(std::string name, RopeStyle style) {
  constexpr std::size_t kHeads = 8;
  constexpr std::size_t kDim = 160;
  constexpr std::size_t kRotary = 128;
  return {.name = std::move(name),
          .values_per_row = kHeads * kRotary,
          .run = [=](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            Rows x(batch, {1, kHeads * kDim, 3});
            Rows cosine(batch, {2, kRotary / 2, 0});
            Rows sine(batch, {3, kRotary / 2, 0});
            table.rope(exec,
                       {.x = x.data(),
                        .x_stride = x.stride(),
                        .m = batch.ids.size(),
                        .n_heads = kHeads,
                        .head_dim = kDim,
                        .rotary_dim = kRotary,
                        .cos = cosine.data(),
                        .sin = sine.data(),
                        .style = style});
            return x.take();
          }};
}

RowCase activation_case(std::string name, Activation kind, bool gated) {
  return {.name = std::move(name),
          .values_per_row = kWidth,
          .run = [=](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            Rows gate(batch, {1, kWidth, 3, 6.0F});
            Rows up(batch, {2, kWidth, 2});
            Rows y(batch, {3, kWidth, 5});
            table.activation(exec,
                             {.gate = gate.data(),
                              .gate_stride = gate.stride(),
                              .up = gated ? up.data() : nullptr,
                              .up_stride = up.stride(),
                              .y = y.data(),
                              .y_stride = y.stride(),
                              .m = batch.ids.size(),
                              .n = kWidth,
                              .activation = kind});
            return y.take();
          }};
}

std::vector<float> run_swiglu(const KernelTable& table, ExecContext& exec, const Batch& batch) {
  Rows gate(batch, {1, kWidth, 3, 12.0F});
  Rows up(batch, {2, kWidth, 2, 12.0F});
  Rows y(batch, {3, kWidth, 5});
  table.clamped_swiglu(exec,
                       {.gate = gate.data(),
                        .gate_stride = gate.stride(),
                        .up = up.data(),
                        .up_stride = up.stride(),
                        .y = y.data(),
                        .y_stride = y.stride(),
                        .m = batch.ids.size(),
                        .n = kWidth,
                        .limit = 7.0F,
                        .alpha = 1.702F});
  return y.take();
}

std::vector<float> run_add(const KernelTable& table, ExecContext& exec, const Batch& batch) {
  Rows a(batch, {1, kWidth, 3});
  Rows y(batch, {2, kWidth, 5});
  table.add(exec,
            {a.data(), a.stride(), y.data(), y.stride(), batch.ids.size(), kWidth, 0.7F, 1.3F});
  return y.take();
}

std::vector<float> run_gated_add(const KernelTable& table, ExecContext& exec, const Batch& batch) {
  Rows a(batch, {1, kWidth, 3});
  Rows gate(batch, {2, 1, 0, 4.0F});
  Rows y(batch, {3, kWidth, 5});
  table.gated_add(
      exec, {a.data(), a.stride(), gate.data(), y.data(), y.stride(), batch.ids.size(), kWidth});
  return y.take();
}

std::vector<float> run_clip(const KernelTable& table, ExecContext& exec, const Batch& batch) {
  Rows x(batch, {1, kWidth, 3});
  table.clip(exec, {x.data(), x.stride(), batch.ids.size(), kWidth, 0.6F});
  return x.take();
}

RowCase soft_cap_case(std::string name, std::size_t n, std::size_t rows_max, float cap) {
  return {.name = std::move(name),
          .values_per_row = n,
          .rows_max = rows_max,
          .run = [=](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            Rows x(batch, {1, n, 3, 60.0F});
            table.soft_cap(exec, {x.data(), x.stride(), batch.ids.size(), n, 0.5F, cap});
            return x.take();
          }};
}

// ---- whole rows ----

std::vector<std::int32_t> as_signed(const std::vector<std::uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

// The rows of all ids as they could be stored.
std::vector<std::byte> stored(std::size_t width, tensor::DType type) {
  Rows rows(every_id(), {1, width, 0});
  const std::vector<float> values = rows.take();
  std::vector<std::byte> out(values.size() * tensor::size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = type == tensor::DType::kBf16 ? tensor::float_to_bf16(values[i])
                                                            : tensor::float_to_f16(values[i]);
    if (type == tensor::DType::kF32) {
      std::memcpy(&out[i * 4], &values[i], 4);
    } else {
      std::memcpy(&out[i * 2], &half, 2);
    }
  }
  return out;
}

RowCase look_up_case(tensor::DType type) {
  return {.name = "look_up " + std::string(tensor::name_of(type)),
          .values_per_row = kWidth,
          .same_on_every_set = true,
          .run = [type, rows = stored(kWidth, type)](
                     const KernelTable& table, ExecContext& exec, const Batch& batch) {
            const auto ids = as_signed(batch.ids);
            Rows y(batch, {2, kWidth, 5});
            table.look_up(exec, {rows.data(), type, ids, y.data(), y.stride(), kWidth, 1.7F, true});
            return y.take();
          }};
}

// The image of a set and format, made once.
const MatrixImage& image_of(const KernelTable& table,
                            const WeightFormat& format,
                            std::size_t n,
                            std::size_t k) {
  static std::map<std::tuple<const KernelTable*, const WeightFormat*, std::size_t>,
                  std::unique_ptr<MatrixImage>>
      images;
  std::unique_ptr<MatrixImage>& image = images[{&table, &format, n}];
  if (image == nullptr) {
    const std::vector<float> weights = shared(n * k, 9);
    const DenseRows rows{
        reinterpret_cast<const std::byte*>(weights.data()), tensor::DType::kF32, n};
    image = std::make_unique<MatrixImage>(pack_matrix(table.ops(format), k, {&rows, 1}).value());
  }
  return *image;
}

RowCase look_up_packed_case(const WeightFormat& format) {
  return {.name = "look_up_packed " + std::string(format.name),
          .values_per_row = kWidth,
          .same_on_every_set = true,
          .can_break = false,
          .run = [&format](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            const MatrixImage& image = image_of(table, format, kRowIds, kWidth);
            const auto ids = as_signed(batch.ids);
            Rows y(batch, {2, kWidth, 5});
            table.look_up_packed(exec, {{&image, 1}, ids, y.data(), y.stride(), 3.0F});
            return y.take();
          }};
}

std::vector<float> run_rope_angles(const KernelTable& table,
                                   ExecContext& exec,
                                   const Batch& batch) {
  constexpr std::size_t kHalf = 64;
  std::vector<std::int32_t> positions;
  std::vector<std::uint32_t> sets;
  for (const std::uint32_t id : batch.ids) {
    positions.push_back(static_cast<std::int32_t>(id * 97));
    sets.push_back(id % 2);
  }
  const auto frequencies = shared(2 * kHalf, 1);
  Rows cosine(batch, {2, kHalf, 0});
  Rows sine(batch, {3, kHalf, 0});
  table.rope_angles(
      exec, {positions, frequencies.data(), sets.data(), 1.25F, cosine.data(), sine.data(), kHalf});
  std::vector<float> out = cosine.take();
  const std::vector<float> second = sine.take();
  // A row's cosines and sines side by side.
  for (std::size_t i = batch.ids.size(); i-- > 0;) {
    const auto from = second.begin() + static_cast<std::ptrdiff_t>(i * kHalf);
    out.insert(out.begin() + static_cast<std::ptrdiff_t>((i + 1) * kHalf),
               from,
               from + static_cast<std::ptrdiff_t>(kHalf));
  }
  return out;
}

RowCase choose_case(std::string name, Routing routing, bool normalize) {
  constexpr std::size_t kExperts = 64;
  constexpr std::size_t kUsed = 8;
  return {.name = std::move(name),
          .values_per_row = kExperts * (kUsed + 8),
          .nan_shows = routing == Routing::kSoftmaxThenTop,
          .run = [=](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            const std::size_t m = batch.ids.size();
            Rows scores(batch, {1, kExperts, 0, 4.0F});
            std::vector<std::uint32_t> ids(m * kUsed);
            std::vector<float> weights(m * kUsed);
            table.choose_experts(exec,
                                 {.scores = scores.data(),
                                  .m = m,
                                  .n_experts = kExperts,
                                  .n_used = kUsed,
                                  .routing = routing,
                                  .normalize = normalize,
                                  .ids = ids.data(),
                                  .weights = weights.data()});
            std::vector<float> out;
            for (std::size_t i = 0; i < ids.size(); ++i) {
              out.push_back(static_cast<float>(ids[i]));
              out.push_back(weights[i]);
            }
            return out;
          }};
}

std::vector<float> run_gather(const KernelTable& table, ExecContext& exec, const Batch& batch) {
  std::vector<std::uint32_t> from(batch.ids.size());
  std::iota(from.rbegin(), from.rend(), 0U);
  Batch backwards = batch;
  std::reverse(backwards.ids.begin(), backwards.ids.end());
  if (batch.broken) backwards.broken->row = from[batch.broken->row];
  Rows x(backwards, {1, kWidth, 3});
  Rows y({.ids = batch.ids}, {2, kWidth, 5});
  table.gather(exec,
               {x.data(), x.stride(), from.data(), y.data(), y.stride(), from.size(), kWidth});
  return y.take();
}

std::vector<float> run_combine(const KernelTable& table, ExecContext& exec, const Batch& batch) {
  constexpr std::uint32_t kUsed = 3;
  constexpr std::size_t kColumns = kWidth / kUsed;
  Rows x(repeated(batch, kUsed), {1, kColumns, 3});
  Rows weights(batch, {2, kUsed, 0});
  Rows y(batch, {3, kColumns, 5});
  std::vector<std::uint32_t> slots(batch.ids.size() * kUsed);
  std::iota(slots.begin(), slots.end(), 0U);
  table.combine(exec,
                {.x = x.data(),
                 .x_stride = x.stride(),
                 .slots = slots.data(),
                 .weights = weights.data(),
                 .n_used = kUsed,
                 .y = y.data(),
                 .y_stride = y.stride(),
                 .m = batch.ids.size(),
                 .n = kColumns,
                 .accumulate = true});
  return y.take();
}

// ---- linear layers and the cache ----

RowCase linear_case(const WeightFormat& format) {
  constexpr std::size_t kOutputs = 131;
  constexpr std::size_t kInputs = 1100;  // more than a block of k
  return {.name = "linear " + std::string(format.name),
          .values_per_row = kInputs,
          .same_on_every_set = format.is_quantised(),
          .run = [&format](const KernelTable& table, ExecContext& exec, const Batch& batch) {
            const MatrixImage& image = image_of(table, format, kOutputs, kInputs);
            const auto bias = shared(kOutputs, 4);
            Rows x(batch, {1, kInputs, 3});
            Rows y({.ids = batch.ids}, {2, kOutputs, 5});
            run_linear(table,
                       exec,
                       {x.data(), x.stride(), batch.ids.size(), kInputs},
                       {&image, y.data(), y.stride(), bias.data()},
                       true);
            return y.take();
          }};
}

// Keys and values of each row, as they come back: a block for each row, a slot of its own.
RowCase kv_write_case(tensor::DType type) {
  constexpr std::size_t kHeads = 8;
  constexpr std::size_t kDim = 64;
  constexpr std::size_t kSlots = 2;
  return {
      .name = "kv_write " + std::string(tensor::name_of(type)),
      .values_per_row = kHeads * 2 * kDim,
      .same_on_every_set = true,
      .run = [type](const KernelTable& table, ExecContext& exec, const Batch& batch) {
        const std::size_t m = batch.ids.size();
        const std::size_t block_bytes = kHeads * kSlots * kDim * tensor::size_of(type);
        std::vector<std::byte> cache(2 * m * block_bytes);
        std::vector<BlockId> blocks(m);
        std::iota(blocks.rbegin(), blocks.rend(), BlockId{0});
        std::vector<AttentionSequence> sequences;
        for (std::size_t i = 0; i < m; ++i) {
          sequences.push_back({.first_row = i,
                               .n_rows = 1,
                               .first_position = static_cast<std::int32_t>(batch.ids[i] % kSlots),
                               .blocks = std::span(blocks).subspan(i, 1)});
        }
        Rows k(batch, {1, kHeads * kDim, 3});
        Rows v(batch, {2, kHeads * kDim, 5});
        table.kv_write(exec,
                       {.cache = {.k = cache.data(),
                                  .v = cache.data() + m * block_bytes,
                                  .k_block_stride_bytes = block_bytes,
                                  .v_block_stride_bytes = block_bytes,
                                  .type = type,
                                  .n_kv_heads = kHeads,
                                  .block_tokens = kSlots,
                                  .k_head_dim = kDim,
                                  .v_head_dim = kDim},
                        .k = k.data(),
                        .k_stride = k.stride(),
                        .v = v.data(),
                        .v_stride = v.stride(),
                        .sequences = sequences});
        // The bytes of a row's blocks as floats, whatever they mean.
        std::vector<float> out(2 * m * block_bytes / sizeof(float));
        auto* to = reinterpret_cast<std::byte*>(out.data());
        for (std::size_t i = 0; i < m; ++i) {
          for (const std::size_t half : {std::size_t{0}, m * block_bytes}) {
            std::memcpy(to, cache.data() + half + blocks[i] * block_bytes, block_bytes);
            to += block_bytes;
          }
        }
        return out;
      }};
}

}  // namespace

const std::vector<RowCase>& row_cases() {
  static const std::vector<RowCase> cases = [] {
    std::vector<RowCase> out = {
        norm_case("rms_norm", Norm::kRms, 1, false),
        norm_case("rms_norm of groups", Norm::kRms, 3, true),
        norm_case("layer_norm", Norm::kLayer, 1, false),
        norm_case("layer_norm of groups", Norm::kLayer, 3, false),
        rope_case("rope of halves", RopeStyle::kHalves),
        rope_case("rope of neighbours", RopeStyle::kInterleaved),
        activation_case("silu", Activation::kSilu, true),
        activation_case("silu alone", Activation::kSilu, false),
        activation_case("gelu with erf", Activation::kGeluErf, true),
        activation_case("gelu with tanh", Activation::kGeluTanh, true),
        activation_case("relu", Activation::kRelu, true),
        activation_case("relu squared", Activation::kReluSquared, false),
        activation_case("quick gelu", Activation::kGeluQuick, true),
        {.name = "clamped_swiglu", .values_per_row = kWidth, .run = run_swiglu},
        {.name = "add", .values_per_row = kWidth, .run = run_add},
        {.name = "gated_add", .values_per_row = kWidth, .run = run_gated_add},
        {.name = "clip", .values_per_row = kWidth, .same_on_every_set = true, .run = run_clip},
        soft_cap_case("soft_cap", kWidth, 65, 30.0F),
        soft_cap_case("scale", kWidth, 65, 0.0F),
        // One row is many values: cut into pieces where threads outnumber rows.
        soft_cap_case("soft_cap of a long row", 70001, 4, 30.0F),
        look_up_case(tensor::DType::kF32),
        look_up_case(tensor::DType::kBf16),
        look_up_case(tensor::DType::kF16),
        {.name = "rope_angles",
         .values_per_row = 64 * 16,
         .same_on_every_set = true,
         .can_break = false,
         .run = run_rope_angles},
        choose_case("softmax, then top", Routing::kSoftmaxThenTop, true),
        choose_case("top, then softmax", Routing::kTopThenSoftmax, false),
        {.name = "gather", .values_per_row = kWidth, .same_on_every_set = true, .run = run_gather},
        {.name = "combine",
         .values_per_row = kWidth / 3 * 3,
         .same_on_every_set = true,
         .run = run_combine},
        kv_write_case(tensor::DType::kF32),
        kv_write_case(tensor::DType::kBf16),
        kv_write_case(tensor::DType::kF16)};
    for (const WeightFormat* format : weight_formats()) {
      out.push_back(look_up_packed_case(*format));
      out.push_back(linear_case(*format));
    }
    return out;
  }();
  return cases;
}

}  // namespace coxswain::kernels::testing
