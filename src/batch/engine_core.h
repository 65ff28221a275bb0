#pragma once
// EngineCore: everything the engine thread does, without the thread. It owns the sequences, the KV
// cache and the plans in flight; time is an argument, so a test drives it step by step and a seed
// replays a run.
//
// One pass of the caller: add() and cancel() what has arrived, advance(now), submit_next(now) while
// it returns true, then wait_oldest() and, unless the step still runs, apply_oldest(). Events leave through the sinks.
//
// Thread rule: one thread.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/early_results.h>
#include <coxswain/stats.h>
#include <coxswain/step_runner.h>

#include "base/keyed_hash.h"
#include "batch/attachment_book.h"
#include "batch/block_transfers.h"
#include "batch/dynamic_batch.h"
#include "batch/engine.h"
#include "batch/engine_observer.h"
#include "batch/layer_steps.h"
#include "batch/length_forecast.h"
#include "batch/scheduler.h"
#include "batch/sequence.h"
#include "batch/step_cost.h"
#include "batch/tier_driver.h"
#include "batch/waiting_queue.h"
#include "kvcache/kv_cache.h"

namespace coxswain::batch {

// How a request ends whose step or row the runner has failed: the cause, with kind kGeneration.
Status generation_error(const Status& cause);

// Of the engine's maps.
constexpr std::uint64_t key_of(SequenceId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint64_t key_of(RequestId id) {
  return static_cast<std::uint64_t>(id);
}

class EngineCore final : private EarlyResults {
 public:
  // How often clients of paused sequences are asked whether they read again.
  static constexpr std::chrono::milliseconds kStallPoll{10};

  struct Hooks {
    // The id may be used again from here on.
    std::function<void(RequestId)> before_final_event = [](RequestId) {};
    // New requests are refused from here on. Not called where another runner has come already.
    std::function<void()> runner_lost = [] {};
    EngineObserver* observer = nullptr;                               // not owned
    std::function<void(EngineWork)> post = [](const EngineWork&) {};  // Engine::post()
  };

  EngineCore(std::shared_ptr<StepRunner> runner,
             const EngineOptions& options,
             const base::HashKey& key,
             Hooks hooks);
  ~EngineCore() override;
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Why a request is refused at once, naming its field: it breaks a rule of the runner, which would fail it later, or
  // can never fit. `prompt` stands for request.prompt.
  static Status admissible(const RunnerInfo& info,
                           const EngineOptions& options,
                           const GenerationRequest& request,
                           std::span<const TokenId> prompt);

  // REQUIRES: admissible; the id is not in use.
  void add(GenerationRequest request, const std::shared_ptr<TokenSink>& sink, TimePoint queued_at);
  void cancel(RequestId id);
  void cancel_all(const Status& why);
  // Deadlines and clients that read too slowly.
  void advance(TimePoint now);

  // Plans and submits one step if the runner can take one and there is something to compute.
  bool submit_next(TimePoint now);
  // Blocks for the result of the oldest step in flight, or until `until`. REQUIRES: n_in_flight() > 0.
  Result<StepResult> wait_oldest(TimePoint until = TimePoint::max());
  // Whether wait_oldest() came back at `until`: there is nothing to apply, the step is waited for again.
  bool still_runs(const Result<StepResult>& result) const;
  void apply_oldest(Result<StepResult> result, TimePoint now);
  void replace_runner(std::shared_ptr<StepRunner> runner);
  // Bytes that plans will name (AttachmentBook): sent once, and again to the runner that replaces this one.
  Status attach(const Attachment& attachment) { return attachments_.add(*runner_, attachment); }
  void detach(std::uint64_t id) { attachments_.remove(*runner_, id); }

  // Blocks of cached prefixes, in and out. Another one for each runner.
  BlockTransfers& transfers() { return *transfers_; }
  // Steps of some layers, between the others.
  LayerSteps& layer_steps() { return layer_steps_; }
  std::uint32_t layers_ready() const { return stats_.layers_ready; }  // 0: no step has told
  std::uint32_t prefill_tokens_max() const { return options_.prefill_tokens_max; }
  void post(EngineWork work) const { hooks_.post(std::move(work)); }
  // What others wait for in these two is done with `why`.
  void fail_transfers(const Status& why) {
    layer_steps_.fail(why);
    transfers_->fail(why);
  }
  const std::shared_ptr<StepRunner>& runner() const { return runner_; }
  const RunnerInfo& runner_info() const { return info_; }
  TierDriver* tier() { return tier_.get(); }  // null without EngineOptions::tier
  // A sequence waits for blocks of the tier, and nothing else goes on: post() brings them.
  bool waits_for_tier() const { return tier_ != nullptr && tier_->is_onboarding(); }
  bool owes_offloads() const { return tier_ != nullptr && runner_up_ && !tier_->empty(); }
  // What else but its tokens decides what a request's cached blocks hold (docs/scheduling.md).
  std::string prefix_identity(const GenerationRequest& request) const;

  std::size_t n_in_flight() const { return steps_.size(); }
  // What is taken for computed may not be yet: it is for later plans, and for nobody beside them.
  bool counts_on_steps() const { return std::ranges::any_of(steps_, &Step::counted_on); }
  std::size_t n_sequences() const { return sequences_.size() - n_retiring_; }  // not yet answered
  std::size_t n_never_scheduled() const { return n_never_scheduled_; }
  bool any_stalled() const { return any_running_stalled_ || any_paused_stalled_; }
  bool runner_up() const { return runner_up_; }
  // The runner keeps sequences that it has not been told to forget.
  bool owes_drops() const { return tells_drops_ && runner_up_; }
  // TimePoint::max() if there is none.
  TimePoint next_deadline() const {
    const TimePoint of_holds = transfers_->next_deadline();
    return deadlines_.empty() ? of_holds : std::min(deadlines_.begin()->first, of_holds);
  }
  EngineStats stats() const;
  void observe_state();  // tells the observer
  // Empty, or which invariant is broken.
  std::string check() const;
  // Ends the process if one is broken, after it has told the observer.
  void require_invariants();

 private:
  struct StepRow {
    Sequence* sequence = nullptr;
    SequenceId id{};
    // Of beams; the row of slot 0 comes last and stands for all in the sequence's counters.
    std::uint32_t slot = 0;
    std::uint32_t first_position = 0;
    std::uint32_t n_tokens = 0;
    std::uint32_t n_draft_max = 0;
    bool sample = false;
    bool prefill = false;
    bool applied = false;
    bool early = false;  // its token has been told ahead of the result
  };
  struct Step {
    StepTicket ticket;
    Status refused;  // why the runner did not take the plan
    std::vector<StepRow> rows;
    std::optional<SequenceId> layer_row;  // of a LayerStep, in the place of `rows`
    bool counted_on = false;              // by later plans, which read what it writes
    std::vector<SequenceId> dropped;      // told with the plan
    std::size_t new_bytes = 0;            // of the sequences that the plan introduces
    std::size_t rows_bytes = 0;
    TimePoint submitted_at{};
    bool prefill = false;
    // Of a prompt that goes on: a transfer may be due behind it. Or they come in, and who waits for them begins there.
    bool blocks_pass = false;
    StepShape shape;              // where costs are learned
    double expected_seconds = 0;  // of that shape, when it was planned
    double floor_seconds = 0;     // StepFinished::floor
    IterationStats stats;         // of its plan; the rest when the result is there
    std::uint32_t n_early_tokens = 0;
  };
  // engine_core.cc: the life of sequences
  void hear_early(EarlyResults* whom);
  void start_cache();
  void start_tier();
  Sequence& add_sequence(GenerationRequest request,
                         std::shared_ptr<TokenSink> sink,
                         TimePoint queued_at);
  void insert_waiting(Sequence& s);
  void insert_running(Sequence& s);
  void leave_lists(Sequence& s);
  void pause(Sequence& s, TimePoint now);
  void end(Sequence& s, Outcome outcome, TokenEvent event);
  void cancel_request(Sequence& s, const Status& why);
  static void stamp(TokenEvent& event, const Sequence& s);
  void leave_request(Sequence& s);
  void fail(Sequence& s, Status status);
  void send_final(Sequence& s);
  void retire(Sequence& s);
  void bury(Sequence& s);
  void lose_runner(const Status& status);
  void end_late(Sequence& s, TimePoint now);
  void note_stalls(TimePoint now);
  bool note_stall(Sequence& s, TimePoint now, std::vector<Sequence*>& silent);
  // Ends a call from outside: events leave, and what was answered is freed.
  void finish_call();
  void tell_events();
  void tell_kv_events();

  // step_submit.cc: Decision -> StepPlan
  enum class Filled : std::uint8_t { kDone, kPlanAgain };
  bool can_submit() const;
  Filled fill(StepPlan& plan, Step& step, TimePoint now);
  std::uint32_t batch_size_max() const;  // that a step may have now
  const Decision& decide();
  std::uint32_t prompt_tokens_in_time(std::uint32_t n_max) const;
  void note_shape(Step& step) const;
  void commit_pauses(const Decision& decision, TimePoint now);
  void count_waiting_tokens(const Decision& decision, const Step& step);
  void commit_admissions(const Decision& decision, Step& step, TimePoint now);
  void admit(const PlannedRow& row, Step& step, TimePoint now);
  bool grow(Sequence& s, kvcache::KvLease& lease, std::uint32_t n_blocks);
  void build_row(const PlannedRow& planned, StepPlan& plan, Step& step);
  static SequenceSpec make_spec(const Sequence& s);
  void note_prefix(const Sequence& s, std::uint32_t n_copied);
  std::vector<BlockTableChange> table_changes(kvcache::KvLease& lease,
                                              std::vector<std::uint32_t>& sent,
                                              std::uint32_t first_position,
                                              std::uint32_t computed);
  void take_copies(kvcache::KvLease& lease, StepPlan& plan);
  void take_dropped(StepPlan& plan, Step& step);
  void send(StepPlan plan, Step step);
  bool submit_transfer(TimePoint now);
  bool submit_layers(TimePoint now);
  void ask_tier();
  bool ask_tier_for(const Decision& decision);
  std::span<const std::uint32_t> blocks_on_loan();
  // Whether somebody asks step_cost_.
  bool learns_costs() const { return options_.target_itl.count() > 0 || tier_ != nullptr; }

  // step_apply.cc: StepResult -> events
  Status outcome(const Step& step, const Result<StepResult>& result) const;
  Status result_matches(const Step& step, const StepResult& result) const;
  void retire_layers(const Step& step, const Result<StepResult>& result, const Status& status);
  static const char* wrong_with(const Sequence& s,
                                const StepRow& row,
                                const SequenceResult& result);
  void apply_rows(Step& step, StepResult& result, TimePoint now);
  static bool gives_first_token(const StepRow& row);
  void on_early(StepTicket ticket,
                std::vector<SequenceResult> first_tokens,
                TimePoint now) override;
  static bool may_be_early(const StepRow& row, const SequenceResult& result);
  void apply_row(const StepRow& row, SequenceResult& result, TimePoint now);
  void note_drafts(Sequence& s, const SequenceResult& result);
  void apply_failed_step(const Step& step, const Status& status);
  static void collect_prompt(Sequence& s, const StepRow& row, std::vector<PromptToken>& prompt);
  void collect_context(Sequence& s, const StepRow& row, SequenceOutputs& from);
  bool outputs_complete(const Sequence& s, const SequenceResult& result) const;
  static void add_outputs(Sequence& s, SequenceResult& result, TokenEvent& event);
  void emit_tokens(Sequence& s, SequenceResult& result, TimePoint now);
  void note_tokens(Sequence& s, std::uint32_t n_new, TimePoint now);
  std::shared_ptr<ParkedContext> park(const Sequence& s, std::uint32_t n_tokens, TimePoint now);
  void tell_blocks_ahead(Sequence& s, TimePoint now);
  void settle(const StepRow& row);
  static void settle_tokens(const StepRow& row);
  void take_tokens(Sequence& s, const StepRow& row, SequenceResult& result, TimePoint now);
  void append_tokens(Sequence& s, const StepRow& row, const SequenceResult& result);
  void advance(Sequence& s, const StepRow& row, std::uint32_t next_position, TimePoint now);
  // step_beams.cc
  static Status beams_admissible(const RunnerInfo& info,
                                 const EngineOptions& options,
                                 const GenerationRequest& request);
  std::unique_ptr<BeamGroup> begin_beams(const GenerationRequest& request) const;
  void drop_beams(Sequence& s);
  void drop_spent(BeamGroup& beams);
  void restart_beams(Sequence& s);
  bool grow_beams(Sequence& s, std::uint32_t n_blocks);
  void build_beam_rows(const PlannedRow& planned, StepPlan& plan, Step& step);
  void add_beam_row(Sequence& s,
                    kvcache::KvLease& lease,
                    std::vector<std::uint32_t>& table_sent,
                    StepPlan& plan);
  void keep_candidates(const StepRow& row, SequenceResult& result);
  void apply_beam_row(const StepRow& row, SequenceResult& result, TimePoint now);
  static std::vector<std::uint32_t> slots_for(const BeamGroup& beams,
                                              std::span<const BeamSearch::Child> children);
  void place_beams(Sequence& s, std::span<const BeamSearch::Child> children);
  static void settle_slots(Sequence& s,
                           std::vector<BeamSlot> next,
                           const std::vector<bool>& used,
                           const std::vector<std::uint32_t>& slots);
  static std::vector<TokenEvent> beam_events(Sequence& s);
  void tell_beams(Sequence& s);
  void finish_beams(Sequence& s);
  static std::vector<TokenEvent> final_beam_events(Sequence& s);
  // step_stats.cc: what the observer is told
  void count_plan(const Decision& decision, Step& step);
  void observe_iteration(Step& step, TimePoint now);
  void collect_requests(const Step& step);
  void observe_step(const Step& step, const StepTimings& timings, TimePoint now);
  static StepKind kind_of(const Step& step);

  std::shared_ptr<StepRunner> runner_;
  const EngineOptions options_;
  const base::HashKey hash_key_;
  const Hooks hooks_;
  EngineObserver silent_;  // where there is no other
  EngineObserver& observer_;
  const StatsWanted stats_wanted_;
  RunnerInfo info_;
  bool runner_up_ = true;
  AttachmentBook attachments_;
  Scheduler scheduler_;
  std::unique_ptr<kvcache::KvCache> cache_;
  std::unique_ptr<BlockTransfers> transfers_;
  LayerSteps layer_steps_;
  std::unique_ptr<TierDriver> tier_;
  enum class Turn : std::uint8_t { kTransfer, kLayers, kRows };
  Turn turn_ = Turn::kTransfer;     // whose it is; one that has no work is passed over
  bool has_windows_ = false;        // some group of the cache
  std::uint64_t cache_tokens_ = 0;  // of the groups without a window; 0 = there are none
  DynamicBatch dynamic_batch_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Sequence>> sequences_;  // by SequenceId
  std::unordered_map<std::uint64_t, Sequence*> by_request_;  // not yet answered; one of them
  std::vector<Sequence*> running_;                           // in order: priority, arrival
  WaitingQueue waiting_;                                     // waiting and paused
  std::vector<std::unique_ptr<Sequence>> gone_;  // answered in this call; freed at its end
  std::vector<SinkEvent> events_;                // of this call
  std::vector<SequenceId> dropped_;              // the runner shall forget
  bool tells_drops_ = false;                     // some of them it has never been told
  std::deque<Step> steps_;                       // in flight, oldest first: at most two
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_arrival_ = 1;
  std::uint64_t last_step_ = 0;
  std::uint32_t waiting_tokens_ = 0;  // TGI's counter
  bool decode_is_due_ = false;
  std::uint64_t last_kv_event_ = 0;
  std::size_t n_never_scheduled_ = 0;
  std::size_t n_retiring_ = 0;  // answered, and still named by a step in flight
  bool any_running_stalled_ = false;
  bool any_paused_stalled_ = false;
  TimePoint next_look_at_paused_{};
  // Of all that are not answered; queue deadlines of those that were never scheduled.
  std::set<std::pair<TimePoint, SequenceId>> deadlines_;
  std::vector<StepRow> spare_rows_;           // keeps its capacity from step to step
  std::vector<std::uint32_t> first_changed_;  // scratch of table_changes()
  std::vector<std::uint32_t> on_loan_;        // of blocks_on_loan()
  StepCost step_cost_;
  LengthForecast forecast_;
  EngineStats stats_;
  BlockUse block_use_;
  std::uint64_t applied_step_ = 0;           // whose rows are applied, or were last
  std::uint32_t n_ended_ = 0;                // since the last iteration that was told
  std::uint32_t n_paused_ = 0;               // since the last step was planned
  std::vector<RequestStats> request_stats_;  // keeps its capacity from step to step
};

}  // namespace coxswain::batch
