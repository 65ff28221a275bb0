#pragma once
// Decoder: the one core that runs every ArchSpec.
//
// A step is a ragged batch: the rows of all sequences go through each block together; a mixer works per sequence over
// its blocks of the cache. The order of every sum is fixed by the kernels (law 1), and nothing is computed outside of
// them. Layers [0, k) then [k, n) are the same calls on the same values as [0, n) (law 7).
//
// Thread rule: as Model.

#include <memory>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "model/arch_spec.h"
#include "model/layer.h"
#include "model/model.h"
#include "model/rope_tables.h"
#include "model/workspace.h"

namespace coxswain::model {

// The weights of one model, packed for one kernel set.
struct DecoderWeights {
  Embedding embedding;
  std::vector<Layer> layers;
  Head head;
  LinearLimits linear;
};

class Decoder final : public Model {
 public:
  Decoder(ArchSpec arch, DecoderWeights weights, ModelInfo info, const kernels::KernelTable& table);

  const ModelInfo& info() const override { return info_; }
  Status reserve(std::size_t n_rows, std::size_t n_logit_rows, kernels::ExecContext& exec) override;
  std::uint64_t workspace_bytes(std::size_t n_rows,
                                std::size_t n_logit_rows,
                                std::size_t n_threads) const override;
  Status forward(const Batch& batch,
                 LayerRange layers,
                 std::span<float> hidden,
                 kvstore::KvStore& kv,
                 kernels::ExecContext& exec) override;
  Status logits(std::span<const float> hidden,
                std::span<const std::uint32_t> rows,
                std::span<float> out,
                kernels::ExecContext& exec) override;
  Status final_hidden(std::span<const float> hidden,
                      std::span<const std::uint32_t> rows,
                      std::span<float> out,
                      kernels::ExecContext& exec) override;
  // project() of guess_heads.h.
  Status project(std::span<const float> normed, std::span<float> out, kernels::ExecContext& exec);

 private:
  Status check_batch(const Batch& batch,
                     LayerRange layers,
                     std::span<const float> hidden,
                     const kvstore::KvStore& kv,
                     const kernels::ExecContext& exec) const;
  Status check_blocks(const SequenceRows& rows, const kvstore::KvStore& kv) const;
  Status check_rows(std::span<const float> hidden,
                    std::span<const std::uint32_t> rows,
                    const kernels::ExecContext& exec) const;
  StepContext step_of(std::size_t n_rows, kernels::ExecContext& exec);
  void place_sequences(const Batch& batch, std::size_t group);

  ArchSpec arch_;
  DecoderWeights weights_;
  ModelInfo info_;
  const kernels::KernelTable& kernels_;
  RopeTables ropes_;
  Workspace work_;
};

}  // namespace coxswain::model
