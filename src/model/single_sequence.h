#pragma once
// SingleSequence: one sequence on a model of its own, fed chunk by chunk. For tests, tools and
// measurements; servers use a runner.
//
// Owns the cache and the hidden states. Blocks are dealt out from the highest id down, so that no
// table is in order.
//
// Thread rule: one thread.

#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "kvstore/kv_store.h"
#include "model/model.h"

namespace coxswain::model {

struct SingleSequenceOptions {
  std::uint32_t tokens_max = 512;
  std::uint32_t chunk_tokens_max = 512;  // rows of one feed()
  std::uint32_t logit_rows_max = 512;
  std::uint32_t block_tokens = 16;
  tensor::DType kv_type = tensor::DType::kF32;
};

class SingleSequence {
 public:
  // Reserves the model's workspace. The model and the context must outlive the sequence.
  static Result<SingleSequence> create(Model& model,
                                       kernels::ExecContext& exec,
                                       const SingleSequenceOptions& options);

  // Forgets everything; angles are those of a sequence of `rope_length` tokens.
  void restart(std::uint32_t rope_length);

  // Runs the next tokens through all layers; hidden() then holds their rows.
  Status feed(std::span<const TokenId> tokens);
  // The same through a range of layers only; for ranges that do not begin at 0 put the inputs into
  // hidden(n) first. The position moves on when the last layer has run.
  Status feed_layers(std::span<const TokenId> tokens, LayerRange layers);

  std::span<float> hidden(std::size_t n_rows) {
    return std::span(hidden_).first(n_rows * model_->info().hidden_size);
  }
  // Logits of the last `n_rows` rows fed, [n_rows, vocab].
  Result<std::vector<float>> logits(std::size_t n_rows);
  std::uint32_t position() const { return position_; }

 private:
  explicit SingleSequence(kvstore::KvStore store) : store_(std::move(store)) {}

  Model* model_ = nullptr;
  kernels::ExecContext* exec_ = nullptr;
  kvstore::KvStore store_;
  std::vector<std::vector<BlockId>> tables_;  // per KV group
  std::vector<float> hidden_;
  std::uint32_t position_ = 0;
  std::uint32_t rope_length_ = 0;
  std::size_t last_rows_ = 0;
};

}  // namespace coxswain::model
