#pragma once
// The way out: hidden states to logits.
//
//   h      = norm(h)             where there is a final norm
//   h      = w_projection h      where the embedding is narrower than the model
//   logits = scale * w_head h    then soft_cap * tanh(logits / soft_cap), where set
//
// Thread rule: values; weights are immutable after load.

#include <cstddef>
#include <cstdint>
#include <span>

#include <coxswain/status.h>

#include "model/blocks/block.h"
#include "model/blocks/norm.h"
#include "model/tensor_map.h"
#include "model/weight_parts.h"

namespace coxswain::model {

struct HeadSpec {
  bool norm = true;  // a final norm, of ArchSpec::norm
  bool tied = false;
  float scale = 1.0F;
  float soft_cap = 0.0F;  // 0 = off
};

struct HeadMap {
  NormMap norm;
  MatrixMap projection;
  MatrixMap matrix;  // empty = tied to the embedding

  // The head itself stands beside the model, not below its prefix: it is not visited.
  template <typename Visitor>
  void visit(Visitor&& f) const {
    f(norm);
    f(projection);
  }
};

class Head {
 public:
  // `tied`: the embedding's rows, for an empty map.matrix.
  static Result<Head> load(const BlockLoad& how,
                           const HeadSpec& spec,
                           const NormSpec& norm,
                           const HeadMap& map,
                           const MatrixMap& tied);
  // `width` of what the head multiplies: EmbeddingSpec::width; n_rows are rows of logits.
  static BlockNeeds needs(std::size_t width, const BlockSizes& sizes);

  const Linear& matrix() const { return matrix_; }

  // The final norm alone: out [rows.size(), hidden]; step.n_rows is rows.size(), as below.
  void normed(const StepContext& step,
              std::span<const float> hidden,
              std::span<const std::uint32_t> rows,
              float* out) const;

  // What is behind the norm: normed [n, hidden], out [n, vocab].
  void project(const StepContext& step,
               std::span<std::byte> room,
               std::span<const float> normed,
               std::span<float> out) const;
  // Both: out [rows.size(), vocab].
  void run(const StepContext& step,
           std::span<std::byte> room,
           std::span<const float> hidden,
           std::span<const std::uint32_t> rows,
           std::span<float> out) const;

 private:
  HeadSpec spec_;
  NormSpec norm_spec_;
  NormWeights norm_;
  Linear projection_;
  Linear matrix_;  // [vocab, embedding width]
};

}  // namespace coxswain::model
