#pragma once
// LocalRunner: a StepRunner over a model in this process: weights, KV bytes, sampling and text.
//
// Plans are executed one after the other by an own compute thread, so the engine prepares step k+1
// while k runs; "the token of the previous step" is then always there.
//
// Memory is planned before it is taken (memory_plan.h) and nothing grows with load. Start: select
// kernels, load weights, plan, take workspace and cache, one warm-up step. Weights that come from other processes may
// still be on their way then: a thread of their own brings them, and steps go as far as they are.
//
// Thread rule: as StepRunner; memory_plan() and codec() from any thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <coxswain/kv_layout.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "base/mutex.h"
#include "kvstore/kv_store.h"
#include "model/guess_heads.h"
#include "model/model.h"
#include "runner/attachment_store.h"
#include "runner/draft_model.h"
#include "runner/memory_plan.h"
#include "runner/residency.h"
#include "runner/step_executor.h"
#include "runner/step_report.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::runner {

struct RunnerOptions {
  std::string model_dir;
  std::string model_id;                // reported as is; empty = model_dir
  std::optional<tensor::DType> dtype;  // empty = as stored
  std::string quantize;                // model::LoadOptions::quantize
  model::WindowLimits windows = {};
  std::optional<model::RopeOverride> rope = {};  // model::LoadOptions::rope
  // Empty = kF32 for float32 weights, kF16 for float16, else kBf16.
  std::optional<tensor::DType> kv_dtype;
  std::uint32_t block_tokens = 16;
  std::size_t n_threads = 0;  // 0 = one for each physical core that this process may use
  // Binds every thread that computes to a CPU, one of each core first; only for the one busy process of a machine.
  bool pin_threads = false;
  std::string isa;                    // forces a kernel set; empty = the best one
  std::uint64_t task_order_seed = 0;  // tests: base::ThreadPool::shuffle_tasks()
  // The size of the KV cache: `kv_blocks` of each KV group (block 0 included), or `kv_bytes`, or, if both are 0, what
  // the memory budget leaves; the plan divides bytes between the groups.
  std::uint32_t kv_blocks = 0;
  std::uint64_t kv_bytes = 0;
  double kv_fraction = 1.0;  // of what the budget leaves, where neither is given; (0, 1]
  // 0 = what the machine and its control groups have available, less what others will take of it.
  std::uint64_t memory_budget_bytes = 0;
  std::uint64_t others_bytes = 0;
  std::uint32_t max_total_tokens = 0;  // of one request; 0 = what model and cache allow
  std::uint32_t max_batch_prefill_tokens = 4096;
  std::uint32_t max_batch_size = 256;
  // Of attachments held at once; 0: none are taken, and no layer ranges, imports or exports are possible.
  std::uint64_t attachment_bytes_max = 0;
  // For callers in this process, as no message has room for them. Of what OutputParams ask for, of all requests at
  // once; 0: nothing. The caller keeps to it, the memory plan leaves room for it.
  std::uint64_t output_bytes_max = 0;
  // SamplingParams::n_top_tokens; at most kLocalTopTokensMax.
  std::uint32_t top_tokens_max = kTopTokensMax;
  // What requests may name as SamplingParams::logits_processor; none is null. One under the empty name is for requests
  // that name none.
  LogitsProcessors logits_processors;
  // Tokens that are guessed ahead for a sequence in a step, at most; 0: none. Same tokens in fewer steps.
  std::uint32_t draft_tokens_max = 0;
  DraftPolicy draft_policy = DraftPolicy::kByGain;
  // Folder of a model of the same vocabulary, or of heads for this model, that guesses them; empty = none does. A model
  // needs draft_tokens_max, which for heads is their number if it is 0.
  std::string speculative_model_dir;
  std::string tokenizer_config_path;
  bool without_text = false;  // no tokenizer: tokens have ids only
  // Where packed weights are kept for later starts, and the most that all of the folder may take; empty = nowhere, 0 =
  // no limit. Whoever can write there decides what is computed.
  std::string weights_cache_dir;
  std::uint64_t weights_cache_bytes_max = 0;
  // Of a file in which processes of this machine share packed weights, not owned; -1: none. Each of the `sharers`
  // counts its part of what is shared.
  int shared_weights_fd = -1;
  std::uint32_t sharers = 1;
  // Where packed weights are asked for first; null: nowhere. If it has them create() returns before they are there, and
  // steps wait for the layers that they need; not so with a speculative model.
  std::shared_ptr<weights::ImageSource> weights_source = nullptr;
  // What others may copy of the weights, for as long as the runner lives; null: nothing.
  std::shared_ptr<weights::ImageStore> weights_store = nullptr;
  // Told when weights are there for which create() did not wait, or why they will not be: then steps fail with
  // kUnavailable. By a thread of the runner.
  std::function<void(const Result<model::LoadReport>& report)> on_weights;
  // The model's, where it has been loaded already; null = it is read from the model's files.
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  // Bytes of weights read so far, and in all.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  // Told after so many steps what their time went to, by the thread that computes; without steps of the start. 0:
  // nothing is timed. With a model that create() loads.
  std::uint64_t profile_steps = 0;
  std::function<void(const StepReport&)> on_profile;
};

// A look at a running runner, for logs.
struct RunnerState {
  std::uint64_t steps = 0;          // executed, the warm-up's included
  std::size_t sequences = 0;        // remembered after the last step
  std::size_t plans_in_flight = 0;  // submitted and not waited for
  DraftCounts drafts = {};
};

class LocalRunner final : public StepRunner {
 public:
  // Errors: those of model and tokenizer files (kNotFound, kInvalidArgument, kDataLoss,
  // kUnimplemented); kInvalidArgument for options; kResourceExhausted says which option to lower.
  static Result<std::unique_ptr<LocalRunner>> create(const RunnerOptions& options);
  // Where memory will go, for the log before create(), which may take long: what is there, the least that the weights
  // need, what the KV cache gets at most. Errors: those of the model's files.
  static Result<std::string> outlook(const RunnerOptions& options);
  // create() fails with this before it reads weights. Errors: kResourceExhausted.
  static Status check_fits(const RunnerOptions& options);
  // Whether weights of one's own are better where they could be shared: these alone would get pages of 2 MiB, which
  // are read faster, and there is room for them.
  static bool prefers_own_weights(const RunnerOptions& options);
  // The same with a model that is already there. `codec` may be null: tokens without text.
  static Result<std::unique_ptr<LocalRunner>> create_with(const RunnerOptions& options,
                                                          std::unique_ptr<model::Model> model,
                                                          std::shared_ptr<const TextCodec> codec,
                                                          std::string kernel_set_id);
  ~LocalRunner() override;

  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket, TimePoint until = TimePoint::max()) override;
  Status healthy() override;
  Status attach(Attachment attachment) override;
  Status detach(std::uint64_t id) override;
  Status export_blocks(const BlockTransfer& transfer, TimePoint until = TimePoint::max()) override;
  Result<Attachment> take(std::uint64_t id) override;

  RunnerState state() const;  // from any thread
  const MemoryPlan& memory_plan() const { return plan_; }
  std::size_t n_threads() const { return exec_->n_threads(); }
  // Layers that are there, of RunnerInfo::n_layers; and whether more is to come.
  std::uint32_t layers_ready() const;
  bool is_loading() const;
  // Whether create() has not waited for the weights.
  bool arrives() const { return residency_ != nullptr; }
  // What is odd about the model's files but does not keep it from being served.
  const std::vector<std::string>& warnings() const { return model_->info().warnings; }
  const model::WeightCacheUse& weight_cache() const { return model_->info().weight_cache; }
  const model::SharedWeights& shared_weights() const { return model_->info().shared; }
  // What the weights are held in: model::ModelInfo::weight_shares.
  const std::vector<model::WeightShare>& weight_shares() const {
    return model_->info().weight_shares;
  }
  std::shared_ptr<const TextCodec> codec() const { return codec_; }  // null without text
  // What guesses tokens, as TGI names it; empty if nothing does.
  std::string speculation() const;

 private:
  LocalRunner() = default;
  void make_threads(const RunnerOptions& options);
  Status load_model(const RunnerOptions& options, model::LoadOptions load);
  // Reads what guesses tokens, `load` being how the model was read. draft_ is made when memory is planned.
  Status load_draft(const RunnerOptions& options,
                    model::LoadOptions load,
                    const tokenizer::Tokenizer* tokenizer);
  DraftModelOptions draft_options(const RunnerOptions& options, std::uint64_t available) const;
  static Result<std::unique_ptr<LocalRunner>> finish(std::unique_ptr<LocalRunner> runner,
                                                     const RunnerOptions& options,
                                                     std::string kernel_set_id);
  Status set_up(const RunnerOptions& options, std::string kernel_set_id);
  // From draft_model_ or heads_, if one is there.
  Status make_guesser(const DraftModelOptions& draft,
                      std::size_t n_head_rows,
                      std::uint32_t draft_tokens_max);
  void fill_info(const RunnerOptions& options, std::string kernel_set_id);
  Status warm_up();
  void compute_loop();
  void load_arriving(const RunnerOptions& options);
  // Of the compute thread.
  void account(std::size_t n_positions,
               const StepTimings& timings,
               std::vector<kernels::OperationTime> operations);

  std::unique_ptr<kernels::StepProfile> profile_;  // null: nothing is timed
  std::unique_ptr<model::Model> model_;
  std::shared_ptr<const TextCodec> codec_;
  std::vector<int> cpus_;  // that workers are bound to, in order; empty: to none
  std::unique_ptr<kernels::ExecContext> exec_;
  std::optional<kvstore::KvStore> kv_;
  std::optional<AttachmentStore> attachments_;  // empty if attachment_bytes_max is 0
  std::optional<Grammars> grammars_;            // empty without a tokenizer
  KvLayout layout_;
  std::unique_ptr<model::Model> draft_model_;  // until draft_ owns it
  std::unique_ptr<model::GuessHeads> heads_;   // the same
  std::unique_ptr<StepSource> draft_;          // may be null
  std::unique_ptr<Residency> residency_;       // null: all weights are there from the start
  std::optional<StepExecutor> executor_;       // used by the compute thread only
  RunnerInfo info_;
  MemoryPlan plan_;
  // Of the compute thread, where profile_ is there.
  StepReport report_;
  std::uint64_t profile_steps_ = 0;
  std::function<void(const StepReport&)> on_profile_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  // At most plans_in_flight_max in plans_, running_ and results_ together.
  std::deque<StepPlan> plans_ GUARDED_BY(mu_);
  bool running_ GUARDED_BY(mu_) = false;  // a plan is with the executor
  bool warm_ GUARDED_BY(mu_) = false;     // the steps of the start are over
  std::deque<Result<StepResult>> results_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  RunnerState state_ GUARDED_BY(mu_);  // without plans_in_flight
  std::thread compute_;
  std::unique_ptr<model::ArrivingWeights> arriving_;  // of loader_
  std::shared_ptr<weights::ImageSource> source_;
  std::size_t n_loading_threads_ = 0;
  std::thread loader_;
};

}  // namespace coxswain::runner
