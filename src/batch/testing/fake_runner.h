#pragma once
// FakeRunner: a StepRunner without a model that notices every mistake of the accounting above it.
//
// It keeps, for each block slot, which (position, token, identity) was written there, as a real runner keeps keys and
// values. The next token is a hash over what the block table yields for all positions so far (those inside the
// window, for window groups); so a wrong block, a stale prefix, a missing row or a block given to two sequences
// changes the tokens. expected_output() computes the same from the request alone, without blocks: what the request
// must produce, whatever else runs.
//
// A plan that breaks a rule of step_runner.h is noted in violations(). The rules of our own scheduler
// (blocks are leased, none is written that a step in flight names for another sequence, chunks end at
// blocks) are checked by option: plans of a stock router and plans written by hand break them and are right.
//
// Where capabilities.attachments says so blocks go to attachments and come from them, as what was written to their
// slots behind a checksum. Layer ranges it does not do: a plan that asks for them is a violation. Edits it does where
// the capabilities say so, of sequences that have no row in flight; candidates, where there are some, are those of
// candidates_behind(), whatever the request's sampling.
//
// A step that fails as a whole has dropped nobody, one that submit() refuses has done nothing.
//
// With draft tokens a row yields as many as a hash says: the same tokens, in fewer steps.
//
// With a codec the fake has text: its tokens carry it, and stop strings end a sequence.
//
// With a clock, steps take simulated time: nothing sleeps, and a seed replays a run.
//
// Thread rule: any thread; the functions are set while no step runs. With a clock: one thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/early_results.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::batch::testing {

struct FakeRunnerOptions {
  // What info() says beyond what follows here.
  RunnerInfo about{.engine_version = "fake", .kernel_set_id = "fake"};
  std::uint64_t epoch = 1;
  std::uint32_t block_tokens = 4;
  std::vector<std::uint32_t> n_blocks{65};  // per group, block 0 counted
  std::vector<std::uint32_t> windows{0};    // per group, 0 = all positions
  std::uint32_t sink_tokens = 0;            // of the groups with a window
  Capabilities capabilities{true, true, true, true, true};
  std::uint32_t vocab_size = 50;
  // The tokens that are sampled: n_sampled ids from first_sampled on; 0 = the whole vocabulary.
  TokenId first_sampled = 0;
  std::uint32_t n_sampled = 0;
  std::shared_ptr<const TextCodec> codec;  // null: no text
  std::uint32_t eos_every = 0;             // about one token in eos_every ends a sequence; 0 = none
  std::uint32_t rope_switch_length = 0;
  bool rope_length_is_exact = false;
  bool checks_scheduling = true;  // the rules of our own scheduler
  bool divides_blocks = false;    // as it may under a latency target
  // Where capabilities.draft_tokens_max > 0: of the tokens that a row yields beyond one, some come without their
  // keys, as those do that a grammar forces.
  bool forces_tokens = false;
  bool drafts_in_vain = false;  // no draft is ever right: one token a row
  // Lists of candidates have one to three, as where nearly all tokens are forbidden.
  bool few_candidates = false;
  // Every other step tells rows ahead, all that have tokens; half of these results come with the wait behind that.
  bool tells_early = false;
};

// Adapter `n` of this runner takes 3 n pages; 0 = none.
inline std::uint32_t adapter_pages(std::string_view digest) {
  return digest.empty() ? 0 : 3 * static_cast<std::uint32_t>(digest.size());
}
inline void give_adapter(GenerationRequest& r, std::uint32_t n) {
  r.adapter_digest = std::string(n, 'a');
  r.adapter_pages = adapter_pages(r.adapter_digest);
}

struct ExpectedOutput {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<float> prompt_logprobs;  // [n_prompt], the first is NaN
  std::string text;                    // empty without a codec
  FinishReason reason = FinishReason::kLength;
};

ExpectedOutput expected_output(const FakeRunnerOptions& options, const GenerationRequest& request);

// What the runner lists, of all that may be sampled, behind `tokens` of the request: the best `n`, best first.
std::vector<TokenAlternative> candidates_behind(const FakeRunnerOptions& options,
                                                const GenerationRequest& request,
                                                std::span<const TokenId> tokens,
                                                std::size_t n);

class FakeRunner final : public StepRunner, public EarlyResultsSource {
 public:
  explicit FakeRunner(FakeRunnerOptions options);

  RunnerInfo info() const override;
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket, TimePoint until = TimePoint::max()) override;
  void tell_early(EarlyResults* to) override { early_ = to; }
  Status healthy() override;
  Status attach(Attachment attachment) override;
  Status detach(std::uint64_t id) override;
  Status export_blocks(const BlockTransfer& transfer, TimePoint until = TimePoint::max()) override;
  Result<Attachment> take(std::uint64_t id) override;

  // Called at the start of wait(), on the engine's thread, with the step's number.
  std::function<void(std::uint64_t step)> on_step = [](std::uint64_t) {};
  // Not ok: submit() says so, and the plan is not taken.
  std::function<Status(std::uint64_t step)> submit_failure = [](std::uint64_t) { return Status(); };
  // Called by healthy() first.
  std::function<void()> on_health = [] {};
  // Called by attach(), export_blocks() and take() first.
  std::function<void()> on_attachment = [] {};
  // The status of a whole step; not ok replaces its result.
  std::function<Status(std::uint64_t step)> step_failure = [](std::uint64_t) { return Status(); };
  // The status of one row's sequence.
  std::function<Status(std::uint64_t step, const SequenceSpec& spec)> row_failure =
      [](std::uint64_t, const SequenceSpec&) { return Status(); };

  // Steps take simulated time: one after the other, each from when it can begin for step_time(). wait() moves the
  // clock to the end of its step or to `until`, whichever comes first.
  void set_clock(TimePoint* clock) { clock_ = clock; }
  std::function<Clock::duration(const StepPlan& plan)> step_time = [](const StepPlan&) {
    return Clock::duration::zero();
  };

  // While held, wait() does not return.
  void hold();
  void release();
  // As a new process begins: no sequence, nothing in the blocks. REQUIRES: no wait() runs.
  void restart();
  void set_health(Status status);
  void refuse_attachments(Status status);    // what attach() answers
  std::vector<Attachment> attached() const;  // in the order of coming
  // What the next submit() answers.
  void refuse_next(Status status);
  // Fails the next step as a whole, or every row of the prompts that begin with this token.
  void fail_next(Status status);
  // The next one whose plan imports or exports blocks, or export_blocks().
  void fail_next_transfer(Status status);
  void fail_sequences_starting_with(TokenId token);

  std::vector<std::string> violations() const;
  std::set<SequenceId> live() const;
  std::uint64_t n_submitted() const;
  std::uint64_t n_steps() const;  // computed
  // Blocks until submit() has been called `n` times in all.
  void wait_for_submitted(std::uint64_t n) const;
  void wait_for_live(std::size_t n) const;
  std::vector<StepPlan> plans() const;  // empty unless keep_plans()
  std::vector<StepPlan> take_plans();   // those since the last call
  void keep_plans();

 private:
  struct Slot {
    std::uint32_t position = 0xFFFFFFFFU;
    TokenId token = -1;
    std::uint64_t identity = 0;
  };
  using Tables = std::vector<std::vector<BlockId>>;  // per group
  struct State {
    SequenceSpec spec;
    std::uint64_t identity = 0;
    Tables tables;                // as of the last submitted plan
    std::vector<TokenId> tokens;  // prompt and output
    std::uint32_t computed = 0;   // positions that have their slots
    // What the last of these sees, if log-probabilities of the prompt are wanted: the next row begins with one.
    std::uint64_t context = 0;
    bool finished = false;
    std::uint64_t submitted_sample_in_step = 0;
  };
  struct Job {
    StepPlan plan;
    std::vector<std::map<SequenceId, State>::node_type> dropped;
    std::vector<Tables> tables;  // per row; empty: of an unknown sequence
    TimePoint ends_at{};         // with a clock
  };

  void check_fields(const StepPlan& plan) REQUIRES(mu_);
  void take_new_and_dropped(const StepPlan& plan, Job& job) REQUIRES(mu_);
  void change_tables(const Row& row, State& state) REQUIRES(mu_);
  void check_row(const Row& row, const State& state, const StepPlan& plan) REQUIRES(mu_);
  void check_scheduling(const Row& row, const State& state) REQUIRES(mu_);
  void check_writes(const Row& row, const State& state) REQUIRES(mu_);
  void violate(std::string what) REQUIRES(mu_);
  Status failure_of(const StepPlan& plan) REQUIRES(mu_);
  Status failure_of(std::uint64_t step, const SequenceSpec& spec) REQUIRES(mu_);
  void move_block(const BlockMove& move) REQUIRES(mu_);
  void make_attachment(const BlockTransfer& transfer) REQUIRES(mu_);
  Status import_blocks(const BlockTransfer& transfer) REQUIRES(mu_);
  std::span<Slot> slots_of(std::size_t group, BlockId block) REQUIRES(mu_);
  void apply_edits(const StepPlan& plan) REQUIRES(mu_);
  std::optional<State> edited(const SequenceEdit& edit) REQUIRES(mu_);
  void list_candidates(const Row& row,
                       const State& state,
                       const Tables& tables,
                       SequenceResult& out) REQUIRES(mu_);
  SequenceResult run_row(const Job& job, std::size_t index) REQUIRES(mu_);
  void write_position(State& state, const Tables& tables, std::uint32_t position) REQUIRES(mu_);
  void sample_row(std::uint32_t room, State& state, const Tables& tables, SequenceResult& out)
      REQUIRES(mu_);
  OutputToken sample_token(State& state, const Tables& tables, SequenceResult& out) REQUIRES(mu_);
  void forget_keys(const State& state, const Tables& tables) REQUIRES(mu_);
  std::uint64_t read(const Tables& tables, std::uint32_t end) const REQUIRES(mu_);
  std::uint32_t block_of(std::uint32_t position) const { return position / options_.block_tokens; }

  Result<StepResult> compute_oldest() REQUIRES(mu_);
  // Whether its result is to come with the next wait.
  bool tell(const StepResult& result);

  const FakeRunnerOptions options_;
  TimePoint* clock_ = nullptr;
  EarlyResults* early_ = nullptr;
  std::optional<StepResult> late_;  // computed and told early; of the engine's thread
  mutable base::Mutex mu_;
  mutable base::CondVar changed_;
  std::map<SequenceId, State> sequences_ GUARDED_BY(mu_);
  // Forgotten with their row, or introduced by a plan that was refused; who planned ahead may not know yet.
  std::set<SequenceId> failed_ GUARDED_BY(mu_);
  std::vector<std::vector<Slot>> slots_ GUARDED_BY(mu_);  // per group
  std::deque<Job> jobs_ GUARDED_BY(mu_);
  TimePoint last_ends_at_ GUARDED_BY(mu_){};  // with a clock: of the plan submitted last
  std::vector<std::string> violations_ GUARDED_BY(mu_);
  std::vector<StepPlan> plans_ GUARDED_BY(mu_);
  bool keep_plans_ GUARDED_BY(mu_) = false;
  bool held_ GUARDED_BY(mu_) = false;
  Status health_ GUARDED_BY(mu_);
  Status next_refusal_ GUARDED_BY(mu_);
  Status next_failure_ GUARDED_BY(mu_);
  Status next_transfer_failure_ GUARDED_BY(mu_);
  Status attachment_refusal_ GUARDED_BY(mu_);
  std::vector<Attachment> attached_ GUARDED_BY(mu_);
  std::optional<TokenId> failing_start_ GUARDED_BY(mu_);
  std::uint64_t n_submitted_ GUARDED_BY(mu_) = 0;
  std::uint64_t n_steps_ GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::batch::testing
