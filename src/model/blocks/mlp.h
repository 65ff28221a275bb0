#pragma once
// The MLP of a layer: y = w_down act(w_up x), plain or gated.
//
// Thread rule: values; weights are immutable after load.

#include <cstddef>
#include <cstdint>
#include <span>

#include <coxswain/status.h>

#include "kernels/elementwise_args.h"
#include "model/blocks/block.h"
#include "model/tensor_map.h"
#include "model/weight_parts.h"

namespace coxswain::model {

enum class GateKind : std::uint8_t {
  kNone,           // act(up)
  kGated,          // act(gate) * up
  kClampedSwiglu,  // gate * sigmoid(alpha * gate) * (up + 1), both clamped
};

class Mlp;

struct MlpSpec {
  using Block = Mlp;

  GateKind gate = GateKind::kGated;
  kernels::Activation activation = kernels::Activation::kSilu;
  float swiglu_limit = 0.0F;
  float swiglu_alpha = 0.0F;
  std::uint32_t intermediate = 0;

  // Columns of the first projection: gate, then up, or up alone.
  std::size_t inner_width() const {
    return gate == GateKind::kNone ? intermediate : std::size_t{2} * intermediate;
  }
};

struct MlpMap {
  MatrixMap up;  // gate and up stacked, if gated
  MatrixMap down;

  template <typename Visitor>
  void visit(Visitor&& f) const {
    f(up);
    f(down);
  }
};

struct MlpWeights {
  Linear up;    // [inner_width, hidden]: gate rows, then up rows
  Linear down;  // [hidden, intermediate]
};
Result<MlpWeights> load_mlp(const BlockLoad& how, const MlpMap& map);

// The activation of m rows of inner_width; the result lies in the first `intermediate` columns.
void run_activation(const StepContext& step, const MlpSpec& spec, float* inner, std::size_t m);

class Mlp {
 public:
  using Spec = MlpSpec;
  using Map = MlpMap;

  static Result<Mlp> load(const BlockLoad& how, const Spec& spec, const Map& map);
  static BlockNeeds needs(const Spec& spec, const BlockSizes& sizes);

  void run(const StepContext& step,
           std::span<std::byte> room,
           const float* x,
           float* y,
           bool accumulate) const;

 private:
  Spec spec_;
  MlpWeights weights_;
};

}  // namespace coxswain::model
