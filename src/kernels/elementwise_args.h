#pragma once
// Arguments of the element-wise entries of KernelTable: what each computes for one row. Rows are the ragged rows of all
// sequences of a step; strides are in elements.
//
// Thread rule: values; the memory behind the pointers belongs to the caller until the entry returns.

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace coxswain::kernels {

struct MatrixImage;  // weight_format.h

// RMS norm:   y = x / sqrt(mean(x^2) + epsilon) * (weight + weight_offset) (+ bias)
// Layer norm: y = (x - mean(x)) / sqrt(variance(x) + epsilon) * (weight + weight_offset) (+ bias)
struct NormArgs {
  const float* x = nullptr;  // [m, n]
  std::size_t x_stride = 0;
  float* y = nullptr;  // [m, n]; may be x
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  const float* weight = nullptr;  // [n] or null (no scaling)
  const float* bias = nullptr;    // [n] or null
  float epsilon = 1e-5F;
  float weight_offset = 0.0F;  // 1 for families that store weight - 1
  // Rows hold `groups` vectors of n side by side (norms of single heads). They share the weight unless
  // weight_per_group, where it is [groups, n].
  std::size_t groups = 1;
  bool weight_per_group = false;
};

// Which values of a head turn together: (i, i + rotary_dim / 2), or (2 i, 2 i + 1).
enum class RopeStyle : std::uint8_t { kHalves, kInterleaved };

// Turns the first rotary_dim values of every head. The tables hold the angles of the positions of each
// row (attention factor included).
struct RopeArgs {
  float* x = nullptr;  // [m, n_heads, head_dim], in place
  std::size_t x_stride = 0;
  std::size_t m = 0;
  std::size_t n_heads = 0;
  std::size_t head_dim = 0;
  std::size_t rotary_dim = 0;
  const float* cos = nullptr;  // [m, rotary_dim / 2]
  const float* sin = nullptr;  // [m, rotary_dim / 2]
  RopeStyle style = RopeStyle::kHalves;
};

enum class Activation : std::uint8_t {
  kSilu,
  kGeluErf,
  kGeluTanh,
  kRelu,
  kReluSquared,
  kGeluQuick
};

// y = act(gate) * up, or y = act(gate) when up is null.
struct ActivationArgs {
  const float* gate = nullptr;  // [m, n]
  std::size_t gate_stride = 0;
  const float* up = nullptr;  // [m, n] or null
  std::size_t up_stride = 0;
  float* y = nullptr;  // [m, n]; may be gate
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  Activation activation = Activation::kSilu;
};

// y = a * alpha + y * beta, element by element over [m, n].
struct AddArgs {
  const float* a = nullptr;
  std::size_t a_stride = 0;
  float* y = nullptr;
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  float alpha = 1.0F;
  float beta = 1.0F;
};

// y[i] = table[ids[i]] * scale (+ y[i], if accumulate): rows of a table that lies as it was stored. The caller has
// checked the ids.
struct LookUpArgs {
  const std::byte* table = nullptr;          // [rows, n] of `type`
  tensor::DType type = tensor::DType::kF32;  // kF32, kBf16 or kF16
  std::span<const std::int32_t> ids;
  float* y = nullptr;  // [ids.size(), n]
  std::size_t y_stride = 0;
  std::size_t n = 0;
  float scale = 1.0F;
  bool accumulate = false;
};

// The same from a matrix that is packed for linear layers: a tied embedding needs no copy of its own.
struct LookUpPackedArgs {
  std::span<const MatrixImage> pieces;  // stacked: ids of the second one follow those of the first
  std::span<const std::int32_t> ids;
  float* y = nullptr;  // [ids.size(), k]
  std::size_t y_stride = 0;
  float scale = 1.0F;
};

// Angles for RopeArgs: cos[r][j] = factor * cos(positions[r] * f[j]), sin likewise. The product is rounded to
// float32, as the reference implementation has it; cosine and sine of it are exact to half a unit in the last place
// or nearly so, and every set gives the same bits.
struct RopeAnglesArgs {
  std::span<const std::int32_t> positions;    // one for each row
  const float* frequencies = nullptr;         // [sets, n]
  const std::uint32_t* set_of_row = nullptr;  // which of the sets; null: the first for all
  float factor = 1.0F;
  float* cos = nullptr;  // [positions.size(), n]
  float* sin = nullptr;
  std::size_t n = 0;  // rotary_dim / 2
};

// x = min(max(x, -limit), limit), in place.
struct ClipArgs {
  float* x = nullptr;  // [m, n]
  std::size_t x_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  float limit = 0.0F;
};

// x = x * scale, then cap * tanh(x / cap) where cap is not 0, in place.
struct SoftCapArgs {
  float* x = nullptr;  // [m, n]
  std::size_t x_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  float scale = 1.0F;
  float cap = 0.0F;
};

// y = (u + 1) * g * sigmoid(alpha * g), g = min(gate, limit), u = up within [-limit, limit].
struct ClampedSwigluArgs {
  const float* gate = nullptr;  // [m, n]
  std::size_t gate_stride = 0;
  const float* up = nullptr;  // [m, n]
  std::size_t up_stride = 0;
  float* y = nullptr;  // [m, n]; may be gate
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  float limit = 0.0F;
  float alpha = 0.0F;
};

// y = y + a * sigmoid(gate[row])
struct GatedAddArgs {
  const float* a = nullptr;  // [m, n]
  std::size_t a_stride = 0;
  const float* gate = nullptr;  // [m]
  float* y = nullptr;           // [m, n]
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
};

// y[i] = x[rows[i]], or x[i] where rows is null.
struct GatherArgs {
  const float* x = nullptr;  // [.., n]
  std::size_t x_stride = 0;
  const std::uint32_t* rows = nullptr;  // [m] or null
  float* y = nullptr;                   // [m, n]
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
};

// y[r] = sum_j weights[r][j] * x[slots[r][j]] (+ y[r], if accumulate), j ascending.
struct CombineArgs {
  const float* x = nullptr;  // [.., n]
  std::size_t x_stride = 0;
  const std::uint32_t* slots = nullptr;  // [m, n_used]
  const float* weights = nullptr;        // [m, n_used]
  std::size_t n_used = 0;
  float* y = nullptr;  // [m, n]
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  bool accumulate = false;
};

enum class Routing : std::uint8_t {
  kSoftmaxThenTop,  // softmax over all experts, then the best of them
  kTopThenSoftmax,  // the best, then softmax over these
};

// The n_used experts with the highest scores of each row, by ascending id; of equal scores the lower id wins.
struct ChooseExpertsArgs {
  float* scores = nullptr;  // [m, n_experts]; spent
  std::size_t m = 0;
  std::size_t n_experts = 0;
  std::size_t n_used = 0;  // <= n_experts
  Routing routing = Routing::kSoftmaxThenTop;
  bool normalize = false;        // chosen weights are divided by their sum (kSoftmaxThenTop)
  std::uint32_t* ids = nullptr;  // [m, n_used]
  float* weights = nullptr;      // [m, n_used]
};

// Places the rows of every expert side by side: assignment a = r * n_used + j gets slot slots[a]; those of expert e are
// slots [begin[e], begin[e + 1]), ascending by row. rows[slot] is the assignment's row.
struct GroupRowsArgs {
  const std::uint32_t* ids = nullptr;  // [m, n_used], each below n_experts
  std::size_t m = 0;
  std::size_t n_used = 0;
  std::size_t n_experts = 0;
  std::uint32_t* begin = nullptr;  // [n_experts + 1]
  std::uint32_t* slots = nullptr;  // [m * n_used]
  std::uint32_t* rows = nullptr;   // [m * n_used]
};

}  // namespace coxswain::kernels
