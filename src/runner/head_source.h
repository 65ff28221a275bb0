#pragma once
// HeadSource: the heads of model::GuessHeads as a source of guesses. They need the hidden state that the last token of
// a sequence was chosen by, so a row of it is kept of each sequence that may have guesses; a sequence without one (at
// its first step, or edited) has none in that step.
//
// Thread rule: belongs to the compute thread; keep_hidden() may be called by several at once for different sequences.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "kernels/exec_context.h"
#include "model/guess_heads.h"
#include "model/model.h"
#include "runner/guess_source.h"

namespace coxswain::runner {

class HeadSource final : public StepSource {
 public:
  static constexpr std::size_t kRowsMax = 64;  // further sequences have no guesses

  // `model` has reserved its workspace for kRowsMax rows of logits or the `n_rows` that it has; both outlive this.
  HeadSource(model::Model& model,
             std::unique_ptr<model::GuessHeads> heads,
             std::size_t n_rows,
             std::size_t n_max,
             kernels::ExecContext& exec);
  static std::uint64_t bytes(const model::Model& model,
                             const model::GuessHeads& heads,
                             std::size_t n_rows);

  std::string_view name() const override;
  std::size_t n_max() const override { return n_max_; }
  std::unique_ptr<Kept> open() override;
  std::size_t n_first_rows(SequenceState& state) override;
  bool wants_hidden() const override { return true; }
  void keep_hidden(SequenceState& state, std::span<const float> row) override;
  void guess(std::span<Wanted> wanted) override;

  // As DraftModel::measure().
  Status measure();

 private:
  struct LastRow;

  // Of the rows in raw_, which belong to tokens_; calls take(round) after each of n_rounds.
  template <typename Take>
  Status run(std::size_t n_rounds, Take&& take);

  model::Model& model_;
  std::unique_ptr<model::GuessHeads> heads_;
  kernels::ExecContext& exec_;
  std::size_t n_rows_;
  std::size_t n_max_;
  std::vector<TokenId> tokens_;
  std::vector<std::uint32_t> row_ids_;
  std::vector<float> raw_;     // [n_rows, hidden_size]
  std::vector<float> normed_;  // the same
  std::vector<float> logits_;  // [n_rows, vocab_size]
};

}  // namespace coxswain::runner
