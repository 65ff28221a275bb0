#pragma once
// DraftModel: a small model of the same vocabulary that guesses what a larger one will say.
//
// It has a KV store of its own, of a fixed number of blocks, and follows the known tokens of the sequences that it is
// asked about: what is behind is computed first, up to kRowsMax rows a step, so a prompt costs nothing unless guesses
// of its sequence are wanted. Where a sequence finds no block, the one that was asked about least lately loses all of
// its own. All KV groups have the same blocks at the same places.
//
// Thread rule: belongs to the compute thread, which outlives no state of a sequence.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "kernels/exec_context.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "runner/guess_source.h"

namespace coxswain::runner {

struct DraftModelOptions {
  std::size_t n_max = 0;  // guesses of a sequence in a step
  tensor::DType kv_type = tensor::DType::kBf16;
  std::uint32_t kv_tokens = 0;   // of all sequences
  std::uint32_t vocab_size = 0;  // ids below it are guessed
};

class DraftModel final : public StepSource {
 public:
  static constexpr std::size_t kRowsMax = 256;

  // `exec` outlives it. Errors: kResourceExhausted.
  static Result<std::unique_ptr<DraftModel>> create(std::unique_ptr<model::Model> model,
                                                    const DraftModelOptions& options,
                                                    kernels::ExecContext& exec);
  // Weights, workspace and KV store.
  static std::uint64_t bytes(const model::Model& model,
                             const DraftModelOptions& options,
                             std::size_t n_threads);

  static std::uint64_t kv_bytes_per_token(const model::Model& model,
                                          const DraftModelOptions& options);

  std::string_view name() const override { return "draft model"; }
  std::size_t n_max() const override { return options_.n_max; }
  std::unique_ptr<Kept> open() override;
  std::size_t n_first_rows(SequenceState& state) override;
  void guess(std::span<Wanted> wanted) override;

  // Runs batches of several sizes, so that costs() are known before the first request.
  Status measure();
  std::size_t n_blocks_free() const { return free_.size(); }

 private:
  struct Followed;
  // A sequence in the batch that is being made.
  struct Asked {
    Wanted* wanted = nullptr;
    Followed* followed = nullptr;
    std::size_t n_rows = 0;
  };

  DraftModel(std::unique_ptr<model::Model> model,
             const DraftModelOptions& options,
             kernels::ExecContext& exec)
      : options_(options), exec_(exec), model_(std::move(model)) {}
  static kvstore::KvStoreOptions store_options(const model::Model& model,
                                               const DraftModelOptions& options);

  void follow(Followed& followed, const SequenceState& state) const;
  bool lend(Followed& followed, std::size_t n_tokens);
  void release(Followed& followed);
  void add_rows(const Asked& asked, std::size_t first_position);
  void ask(Wanted& wanted);
  void clear_batch();
  static Followed& followed_in(const SequenceState& state);
  // Of batch_, then what those in last_rows_ choose: chosen_.
  Status run();
  Status run_timed();
  Status choose(std::vector<TokenId>& ids);

  DraftModelOptions options_;
  kernels::ExecContext& exec_;
  std::unique_ptr<model::Model> model_;
  std::optional<kvstore::KvStore> kv_;
  std::vector<BlockId> free_;
  std::vector<Followed*> followed_;  // all that have blocks
  std::uint64_t serial_ = 0;         // of guess()

  std::vector<TokenId> tokens_;
  std::vector<model::SequenceRows> batch_;
  std::vector<std::uint32_t> last_rows_;
  std::vector<float> hidden_;  // [kRowsMax, hidden_size]
  std::vector<float> logits_;  // [kLogitRowsMax, vocab_size]
  std::vector<Asked> asked_;
  std::vector<TokenId> chosen_;
};

}  // namespace coxswain::runner
