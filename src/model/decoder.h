#pragma once
// Decoder: the one core that runs every ArchSpec.
//
// A step is a ragged batch: the rows of all sequences go through each linear layer together;
// attention runs per sequence over its blocks. The order of every sum is fixed by the kernels (law
// 1); what is done here, element by element or row by row, depends on a row alone. Layers [0, k)
// then [k, n) are the same calls on the same values as [0, n) (law 7).
//
// Thread rule: as Model.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "model/arch_spec.h"
#include "model/decoder_weights.h"
#include "model/model.h"
#include "model/workspace.h"

namespace coxswain::model {

// Rows of activations. A stride of 0 is the width that the reader expects.
struct ConstRows {
  ConstRows(const float* rows, std::size_t row_stride = 0)
      : data(rows), stride(row_stride) {}  // NOLINT(google-explicit-constructor)
  const float* data;
  std::size_t stride;
};

// What the blocks of one forward pass share.
struct StepContext {
  const ArchSpec& arch;
  const kernels::KernelTable& kernels;
  base::ThreadPool& pool;
  Workspace& work;
  std::size_t n_rows = 0;

  // y[m, n] = w x (+ bias) (+ y).
  void linear(const Linear& w, ConstRows x, float* y, std::size_t m, bool accumulate = false) const;
  void norm(const NormSpec& spec,
            const NormWeights& w,
            const float* x,
            float* y,
            std::size_t m,
            std::size_t width) const;
  // y = a * alpha + y over [n_rows, hidden].
  void add(const float* a, float* y, float alpha) const;
};

// q, k, v of the normed rows, their norms and turns, the cache, attention: leaves the heads'
// outputs in work.attention.
void run_attention(const StepContext& step,
                   const LayerSpec& spec,
                   const LayerWeights& w,
                   const float* x,
                   const kernels::KvLayerView& cache);

// y (+)= MLP(x) over [m, hidden].
void run_mlp(const StepContext& step,
             const MlpWeights& w,
             std::size_t intermediate,
             const float* x,
             float* y,
             bool accumulate);

// y (+)= mixture of experts(x). Each row's experts are added in ascending order of their ids.
void run_moe(
    const StepContext& step, const LayerWeights& w, const float* x, float* y, bool accumulate);

// Activation of [m] rows of `width` columns of gate, beside as many of up if the MLP is gated; the
// result lies in the gate's place.
void run_activation(const StepContext& step, float* inner, std::size_t m, std::size_t width);

class Decoder final : public Model {
 public:
  Decoder(ArchSpec arch, DecoderWeights weights, ModelInfo info, const kernels::KernelTable& table);

  const ModelInfo& info() const override { return info_; }
  Status reserve(std::size_t n_rows, std::size_t n_logit_rows, base::ThreadPool& pool) override;
  std::uint64_t workspace_bytes(std::size_t n_rows,
                                std::size_t n_logit_rows,
                                std::size_t n_threads) const override;
  Status forward(const Batch& batch,
                 LayerRange layers,
                 std::span<float> hidden,
                 kvstore::KvStore& kv,
                 base::ThreadPool& pool) override;
  Status logits(std::span<const float> hidden,
                std::span<const std::uint32_t> rows,
                std::span<float> out,
                base::ThreadPool& pool) override;

 private:
  // Of a rope, for sequences up to the length at which it changes, and above (only where the longer
  // lengths share one).
  struct Frequencies {
    std::vector<float> within;
    std::vector<float> beyond;
  };
  Status check_batch(const Batch& batch,
                     LayerRange layers,
                     std::span<const float> hidden,
                     const kvstore::KvStore& kv,
                     const base::ThreadPool& pool) const;
  Status check_blocks(const SequenceRows& rows, const kvstore::KvStore& kv) const;
  void embed(const StepContext& step, const Batch& batch, float* hidden) const;
  void fill_angles(const StepContext& step, const Batch& batch, std::size_t rope_index) const;
  void run_layer(const StepContext& step,
                 std::uint32_t index,
                 float* hidden,
                 const kernels::KvLayerView& cache) const;
  void add_block(const StepContext& step, const NormWeights& after, float* hidden) const;

  ArchSpec arch_;
  DecoderWeights weights_;
  ModelInfo info_;
  const kernels::KernelTable& kernels_;
  std::vector<Frequencies> frequencies_;  // per rope
  Workspace work_;
};

}  // namespace coxswain::model
