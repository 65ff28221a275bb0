#pragma once
// StepExecutor: one step after the other: plan in, result out.
//
// A plan's rows become one ragged batch: forward pass, logits of the rows that want them, sampling,
// text. A plan may hold more rows than the workspace: it is then run in slices, which by law 1
// gives the same bits.
//
// Plans are not trusted. A row that names an unknown sequence, foreign tokens, blocks outside the
// cache or a block that another row of the step writes fails that sequence, which is then
// forgotten; all others go on. What the scheduler promises beside (no block written by two
// sequences in different steps, cached prefixes computed) is not checked: breaking it gives wrong
// tokens for the sequences concerned, never a bad access.
//
// Thread rule: one thread (the compute thread). Memory that depends on rows is taken by the constructor.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/logits_processor.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "kvstore/kv_store.h"
#include "model/model.h"
#include "runner/attachment_store.h"
#include "runner/drafts.h"
#include "runner/grammars.h"
#include "runner/guess_source.h"
#include "runner/masks_ahead.h"
#include "runner/residency.h"
#include "runner/sequence_state.h"
#include "sampling/sampler.h"
#include "tensor/paged_vector.h"

namespace coxswain::runner {

// Borrowed; all outlive the executor.
struct ExecutorParts {
  model::Model* model = nullptr;  // reserve(rows_max, logit_rows_max) has been called
  kvstore::KvStore* kv = nullptr;
  kernels::ExecContext* exec = nullptr;
  const TextCodec* codec = nullptr;  // may be null: tokens without text
  // May be null: then plans with layer ranges, imports and exports are refused.
  AttachmentStore* attachments = nullptr;
  const KvLayout* layout = nullptr;  // of `kv`
  Grammars* grammars = nullptr;      // may be null: then sequences with a grammar are refused
  StepSource* guesser = nullptr;     // may be null: then drafts are what is known of each sequence
  Residency* residency = nullptr;    // may be null: then all weights are there
};

// By the name that requests give.
using LogitsProcessors = std::map<std::string, std::shared_ptr<LogitsProcessor>>;

struct ExecutorLimits {
  std::size_t rows_max = 4096;         // rows of one forward pass
  std::size_t logit_rows_max = 64;     // rows of logits at once
  std::size_t sequences_max = 8192;    // remembered at once, paused ones included
  std::uint32_t total_tokens_max = 0;  // of one sequence
  std::size_t top_tokens_max = kTopTokensMax;
  // 0: what OutputParams ask for is refused. How much is asked for at once is the caller's to bound.
  std::uint64_t output_bytes_max = 0;
  LogitsProcessors logits_processors = {};
  std::uint32_t draft_tokens_max = 0;  // Row::n_draft_max, but for what a grammar forces
  DraftPolicy draft_policy = DraftPolicy::kByGain;
};

// Since the start.
struct DraftCounts {
  std::uint64_t computed = 0;  // guessed tokens that were rows of a step
  std::uint64_t accepted = 0;
};

class StepExecutor {
 public:
  StepExecutor(const ExecutorParts& parts, const ExecutorLimits& limits);

  // Takes the plan, so that prompts of any length change owner instead of being copied.
  // Waits for layers that are not there yet.
  // Errors (nothing is then applied): kUnimplemented for what this runner cannot do, kInternal for blocks outside the
  // cache and attachments that are not there or do not fit, kResourceExhausted for attachments that have no room, those
  // of Residency::fail(). Everything else fails single sequences.
  Result<StepResult> execute(StepPlan plan);

  // Into an attachment, beside the steps, by any thread. REQUIRES: that of StepRunner::export_blocks(); there are
  // attachments. Errors: kInternal for blocks outside of the cache; kResourceExhausted.
  Status export_blocks(const BlockTransfer& transfer) const;

  std::size_t n_sequences() const { return sequences_.size(); }
  const DraftCounts& draft_counts() const { return draft_counts_; }
  static std::uint64_t workspace_bytes(const model::ModelInfo& model,
                                       const ExecutorLimits& limits,
                                       std::size_t n_threads);

 private:
  // A row of the plan that passed its checks.
  struct ReadyRow {
    const Row* row = nullptr;
    SequenceState* state = nullptr;
    SequenceResult* result = nullptr;
    // What the row stands for: differs from the plan's where it continues.
    std::size_t first_position = 0;
    std::size_t n_tokens = 0;
    std::size_t n_drafts_max = 0;
    std::size_t n_drafts = 0;  // of n_tokens, the last ones: drafts_[first_draft, + n_drafts)
    std::size_t first_draft = 0;
    Guess guess = {};              // for nothing, as far as it pays; then the one that is computed
    bool by_guesser = false;       // ExecutorParts::guesser has made it
    bool guesses_end = false;      // behind those: the guesser says that the sequence ends
    std::size_t first_hidden = 0;  // row of hidden_in_ and hidden_out_
    bool emits = false;            // its end is the end of the context
    std::size_t n_done = 0;        // rows already run
    bool settled = false;          // no draft behind the last token chosen is of use
  };
  using Rejected = std::vector<std::pair<SequenceId, Status>>;
  // A row of a slice whose logits are wanted, and what for.
  struct LogitRow {
    std::uint32_t slice_row = 0;
    std::size_t position = 0;
    ReadyRow* ready = nullptr;
    bool sample = false;          // choose the token after `position`, or list candidates for it
    bool prompt_logprob = false;  // of the prompt token after `position`
    Status status = {};
    Choice choice = {};
    float prompt_value = 0.0F;
    std::vector<sampling::ScoredToken> prompt_top = {};
    bool delivered = false;
  };

  static Status broken_plan(std::string what);
  // step_plan.cc
  Status too_many_sequences() const;
  Status add_sequence(SequenceSpec&& spec);
  Status check_spec(const SequenceSpec& spec) const;
  // Checks of a plan as a whole; nothing is changed.
  Status check_layers(const StepPlan& plan) const;
  Status check_moves(std::span<const BlockMove> moves) const;
  Status check_transfers(const StepPlan& plan) const;
  void apply_edits(std::span<const SequenceEdit> edits, Rejected& rejected);
  Status check_edit(const SequenceEdit& edit) const;
  Status take_attachments(const StepPlan& plan);
  Status check_transfer(const BlockTransfer& transfer) const;

  void prepare_rows(const StepPlan& plan, const Rejected& rejected, StepResult& out);
  Status prepare(ReadyRow& ready);
  Status change_tables(const Row& row, SequenceState& state) const;
  Status resolve(ReadyRow& ready) const;
  Status check_blocks(const ReadyRow& ready);
  void fail(ReadyRow& ready, const Status& status);
  // step_drafts.cc
  std::size_t drafts_allowed(const ReadyRow& ready) const;
  // Of all that costs nothing.
  Guess best_known_guess(const ReadyRow& ready);
  void find_known_guesses(double price);
  void guess_together(double price, std::size_t n_tokens);
  void add_drafts();
  void observe_cost();
  // Whether the draft behind `position`, if there is one, was right to say `token`.
  bool goes_on(const ReadyRow& ready, std::size_t position, TokenId token) const;

  // Fills tokens_ and batch_rows_ from rows_[next...]; returns the number of rows of the slice.
  std::size_t fill_slice(std::size_t& next);
  void add_to_slice(ReadyRow& ready, std::size_t first_row, std::size_t n_rows);
  Status forward(std::size_t first_row,
                 std::size_t n_rows,
                 std::span<const model::SequenceRows> sequences);
  // Until there are the weights of the next layer, or more of them; the head's, with all layers. Notes a failure.
  Status wait_for_layer(std::uint32_t layer);
  std::uint32_t layers_ready() const;
  // Hidden states of the slice: from hidden_in_bytes_, to hidden_out_bytes_.
  void read_hidden();
  void write_hidden();
  void run_slice(std::size_t n_rows);
  void begin_masks();

  // step_logits.cc
  void run_logits(std::span<LogitRow> wanted);
  void run_logits_of(std::span<LogitRow> wanted, std::span<float> logits, std::size_t worker);
  void choose(LogitRow& wanted, std::span<float> logits, std::size_t worker);
  void judge_prompt(LogitRow& wanted, std::span<const float> logits, std::size_t worker);
  void deliver(LogitRow& wanted);

  // step_outputs.cc
  enum class RowValues : std::uint8_t { kLogits, kHidden };
  Status check_local(const SequenceSpec& spec) const;
  Status append_rows(RowValues which,
                     std::size_t first_row,
                     std::size_t n_rows,
                     std::vector<float>& out);
  Status write_outputs_of(ReadyRow& ready, const model::SequenceRows& rows);
  static SequenceOutputs& outputs_of(SequenceResult& result);  // made at the first call
  void write_outputs();
  Status process_logits(const SequenceState& state, std::span<float> logits) const;

  ExecutorParts parts_;
  ExecutorLimits limits_;
  std::unordered_map<SequenceId, SequenceState> sequences_;
  // [group][block]: the serial of the row that wrote it last.
  std::vector<std::vector<std::uint64_t>> writers_;
  LayerRange layers_;  // of the step
  // [rows of the plan, hidden_size], if the range does not begin with layer 0.
  std::string hidden_in_bytes_;
  std::string hidden_out_bytes_;
  std::vector<std::string> images_;  // of the step's imports
  std::uint64_t row_serial_ = 0;
  std::uint64_t step_first_serial_ = 0;

  std::vector<ReadyRow> rows_;
  std::vector<TokenId> drafts_;  // of the step
  RowCosts row_costs_;
  std::size_t n_base_rows_ = 0;  // of the step, without drafts
  bool may_guess_ = false;       // in this step
  double forced_chance_ = 0.5;   // ForcedText's of all sequences, lately
  std::uint32_t steps_without_drafts_ = 0;
  ProbeBudget probes_;                      // of the guesser
  double answer_tokens_ = 32;               // of sequences that ended lately
  std::vector<RoundCandidate> candidates_;  // of guess_together(), as the next
  std::vector<ReadyRow*> candidate_rows_;
  std::vector<StepSource::Wanted> guesses_;
  std::chrono::nanoseconds guess_time_{};  // of the step
  DraftCounts draft_counts_;
  std::vector<TokenId> tokens_;                  // [rows_max]
  std::vector<model::SequenceRows> batch_rows_;  // the first n_batch_rows_ are in use
  std::vector<ReadyRow*> batch_owner_;
  std::size_t n_batch_rows_ = 0;
  std::vector<LogitRow> logit_rows_;  // of the slice
  std::vector<std::uint32_t> logit_row_ids_;
  std::vector<std::size_t> logit_groups_;    // of run_logits(): where each begins, and the end
  tensor::PagedVector<float> hidden_;        // [rows_max, hidden_size]
  tensor::PagedVector<float> logits_;        // [logit_rows_max, vocab_size]
  std::vector<sampling::Sampler> samplers_;  // per worker, as the next
  std::vector<std::vector<TokenId>> forbidden_;
  std::vector<grammar::TokenMask> allowed_;
  std::optional<MasksAhead> masks_ahead_;  // there with Grammars
  std::vector<sampling::RepetitionScratch> repetition_scratch_;
  std::vector<std::vector<sampling::Repetition>> repetitions_;
  StepTimings timings_;
  std::chrono::nanoseconds waited_{};  // for weights, of the step
  Status lost_;                        // why weights that the step needs will not come
};

}  // namespace coxswain::runner
