#pragma once
// GuessHeads: small nets that guess the tokens behind the next one from the model's last hidden state, after its final
// norm. Guess i is made in round i:
//
//   Medusa          x_i = residual blocks x + silu(W x + b), of each head its own; then a projection of its own (first
//                   version) or the model's (second version, one block)
//   MLP speculator  s = w * proj_i(s) + e * emb_i(token before), s = gelu(norm_i(s)), head_i(s); the state goes on
//
// The folder is one as TGI reads it: config.json says which model the heads are for.
//
// Thread rule: begin() and run() belong to the runner's thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "model/model.h"
#include "model/weight_parts.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::model {

// What a folder's config.json says of how it guesses.
struct GuessConfig {
  enum class Kind : std::uint8_t { kModel, kMedusa, kMlpSpeculator };
  Kind kind = Kind::kModel;
  std::string base;           // of heads: base_model_name_or_path
  std::size_t n_heads = 0;    // of heads
  std::size_t n_layers = 0;   // of Medusa
  std::size_t inner_dim = 0;  // the rest of MLP speculators; 0: emb_dim
  bool tie_weights = false;
  bool scale_input = false;

  bool is_heads() const { return kind != Kind::kModel; }
};

// Errors: kUnimplemented for EAGLE; kInvalidArgument for fields of heads out of range; those of the file.
Result<GuessConfig> read_guess_config(const std::string& folder);

class GuessHeads {
 public:
  // Of batches of up to n_rows rows. Weights are held as stored or as `options.dtype`. `model` outlives the heads.
  // Errors: as Model::load; kUnimplemented if heads need the projection of a model that shares none.
  static Result<std::unique_ptr<GuessHeads>> load(const LoadOptions& options,
                                                  Model& model,
                                                  std::size_t n_rows,
                                                  std::size_t n_threads);
  ~GuessHeads();

  const GuessConfig& config() const { return config_; }
  std::uint64_t bytes() const;  // weights and workspace

  // `hidden` [n, hidden_size], after the final norm; rounds begin anew.
  void begin(std::span<const float> hidden);
  // The next round: logits [n, vocab_size] of guesses behind `tokens`, [n]. REQUIRES: a round is left.
  Status run(std::span<const TokenId> tokens, std::span<float> logits, kernels::ExecContext& exec);

 private:
  struct Head;

  GuessHeads() = default;
  Status load_weights(const LoadOptions& options, std::size_t n_threads);
  Status run_medusa(const Head& head, std::span<float> logits, kernels::ExecContext& exec);
  Status run_mlp(const Head& head,
                 std::span<const TokenId> tokens,
                 std::span<float> logits,
                 kernels::ExecContext& exec);

  GuessConfig config_;
  Model* model_ = nullptr;
  const kernels::KernelTable* kernels_ = nullptr;
  std::vector<Head> heads_;  // tied ones once
  std::size_t inner_ = 0;    // width of the state
  std::size_t n_rows_max_ = 0;
  std::uint64_t weight_bytes_ = 0;

  std::size_t n_rows_ = 0;
  std::size_t round_ = 0;
  std::vector<float> hidden_;
  std::vector<float> state_;
  std::vector<float> beside_;
  tensor::AlignedBuffer scratch_;
};

// What Model::logits() ends with: rows that have passed the final norm, [n, hidden_size], to logits [n, vocab_size].
// Errors: kUnimplemented where the model has no such part of its own.
Status project(Model& model,
               std::span<const float> normed,
               std::span<float> logits,
               kernels::ExecContext& exec);

}  // namespace coxswain::model
