#pragma once
// A mixture of experts: a router chooses n_used of n_experts MLPs for each row.
//
//   scores = w_router x;  e_1 < e_2 < ... the chosen experts, w_j their weights (kernels::ChooseExpertsArgs)
//   y      = sum_j w_j * expert_{e_j}(x), j ascending
//   y      = y + sigmoid(w_gate x) * shared(x)     where there is a shared expert; its gate is optional
//
// Router and gate are always float32: which experts run must not depend on --quantize.
//
// Thread rule: values; weights are immutable after load.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "model/blocks/block.h"
#include "model/blocks/mlp.h"

namespace coxswain::model {

using kernels::Routing;

class Experts;

struct ExpertsSpec {
  using Block = Experts;

  std::uint32_t n_experts = 0;
  std::uint32_t n_used = 0;
  Routing routing = Routing::kSoftmaxThenTop;
  bool normalize = false;  // chosen weights divided by their sum (kSoftmaxThenTop)
  MlpSpec expert;
  std::optional<MlpSpec> shared;
  bool shared_gate = false;  // the shared expert's output times sigmoid(x . w)
};

struct ExpertsMap {
  MatrixMap router;
  std::vector<MlpMap> experts;
  MlpMap shared;
  MatrixMap shared_gate;

  template <typename Visitor>
  void visit(Visitor&& f) const {
    f(router);
    for (const MlpMap& expert : experts) expert.visit(f);
    shared.visit(f);
    f(shared_gate);
  }
};

class Experts {
 public:
  using Spec = ExpertsSpec;
  using Map = ExpertsMap;

  static Result<Experts> load(const BlockLoad& how, const Spec& spec, const Map& map);
  static BlockNeeds needs(const Spec& spec, const BlockSizes& sizes);

  void run(const StepContext& step,
           std::span<std::byte> room,
           const float* x,
           float* y,
           bool accumulate) const;

 private:
  struct Buffers {
    std::span<float> scores;       // [n_rows, n_experts]; later [n_rows]: the shared expert's gate
    std::span<float> rows;         // [n_rows * n_used, hidden], by expert: outputs
    std::span<float> inner;        // [n_rows * n_used, inner_width]
    std::span<std::uint32_t> ids;  // [n_rows, n_used], ascending within a row
    std::span<float> weights;      // [n_rows, n_used]
    std::span<std::uint32_t> slots;              // [n_rows, n_used]: places among `rows`
    std::span<std::uint32_t> row_of;             // [n_rows * n_used]: the row of each place
    std::span<std::uint32_t> begin;              // [n_experts + 1]: first place of each expert
    std::span<kernels::LinearProblem> problems;  // [n_experts]
    std::span<kernels::LinearPiece> pieces;      // [n_experts, kLinearPiecesMax]
  };
  static Buffers place(const Spec& spec, const BlockSizes& sizes, Carver& carver);
  void choose(const StepContext& step, const Buffers& buffers) const;
  // One linear call for the rows of all experts that have any. In the first every row is x's row_of; in the second,
  // rows stand in their places.
  void run_linear(const StepContext& step,
                  const Buffers& buffers,
                  const kernels::LinearInput& input,
                  Linear MlpWeights::*layer,
                  float* y) const;
  void run_experts(const StepContext& step, const Buffers& buffers, const float* x) const;
  void combine(const StepContext& step, const Buffers& buffers, float* y, bool accumulate) const;
  void add_shared(const StepContext& step,
                  std::span<std::byte> room,
                  const Buffers& buffers,
                  const float* x,
                  float* y) const;

  Spec spec_;
  Linear router_;  // [n_experts, hidden]
  std::vector<MlpWeights> experts_;
  bool gates_ = false;  // the first matrices are gates over their halves
  Mlp shared_;
  Linear shared_gate_;  // [1, hidden]
};

}  // namespace coxswain::model
