#include "runner/testing/law1_runs.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"

namespace coxswain::runner::testing {
namespace {

// Hands everything on and counts the blocks that plans release. While it is held no step begins, so that requests which
// are submitted meanwhile run beside one another, however fast the machine is.
class GatedRunner final : public StepRunner {
 public:
  explicit GatedRunner(std::unique_ptr<StepRunner> runner) : runner_(std::move(runner)) {}

  RunnerInfo info() const override { return runner_->info(); }
  Result<StepTicket> submit(StepPlan plan) override {
    held_.wait(true);
    for (const Row& row : plan.rows) {
      for (const BlockTableChange& change : row.table_changes) {
        n_released_ += static_cast<std::uint64_t>(
            std::count(change.blocks.begin(), change.blocks.end(), kReleasedBlock));
      }
    }
    return runner_->submit(std::move(plan));
  }
  Result<StepResult> wait(StepTicket ticket, TimePoint until) override {
    auto result = runner_->wait(ticket, until);
    if (!result.ok()) return result;
    for (const SequenceResult& sequence : result->sequences)
      if (sequence.tokens.size() > 1) n_drafts_ += sequence.tokens.size() - 1;
    return result;
  }
  Status healthy() override { return runner_->healthy(); }

  void hold() { held_ = true; }
  void release() {
    held_ = false;
    held_.notify_all();
  }
  std::uint64_t n_released() const { return n_released_; }
  std::uint64_t n_drafts() const { return n_drafts_; }

 private:
  std::unique_ptr<StepRunner> runner_;
  std::atomic<bool> held_{false};
  std::atomic<std::uint64_t> n_released_{0};
  std::atomic<std::uint64_t> n_drafts_{0};
};

// Holds a runner as long as it lives.
class Hold {
 public:
  explicit Hold(GatedRunner& runner) : runner_(runner) { runner_.hold(); }
  ~Hold() { runner_.release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  GatedRunner& runner_;
};

DriveOutcome outcome_of(batch::testing::Recorder& sink) {
  sink.wait_final();
  const batch::TokenEvent last = sink.final_event();
  DriveOutcome out;
  out.status = last.status;
  out.tokens = sink.tokens();
  out.prompt = sink.prompt();
  out.outputs = sink.outputs();
  if (last.finish) out.finish = *last.finish;
  out.n_shared_tokens = last.n_cached_prompt_tokens;
  return out;
}

batch::GenerationRequest request_of(const SequenceSpec& spec, std::uint64_t id) {
  batch::GenerationRequest request;
  request.id = RequestId{id};
  request.prompt = spec.prompt;
  request.draft = spec.draft;
  request.sampling = spec.sampling;
  request.stopping = spec.stopping;
  request.prompt_logprobs = spec.prompt_logprobs;
  request.outputs = spec.outputs;
  return request;
}

void expect_idle(batch::Engine& engine, const GatedRunner& runner, Happened& happened) {
  EXPECT_TRUE(engine.drain(std::chrono::milliseconds(10'000)));
  const batch::EngineStats stats = engine.stats();
  EXPECT_EQ(stats.blocks_leased + stats.blocks_retiring, 0u);
  EXPECT_EQ(stats.blocks_free + stats.blocks_cached, stats.blocks_total);
  happened.n_pauses = stats.pauses;
  happened.n_released_blocks = runner.n_released();
  happened.n_drafts = runner.n_drafts();
}

void expect_found(const batch::testing::PlainBeam& beam, const DriveOutcome& seen) {
  ASSERT_TRUE(seen.status.ok()) << seen.status.message();
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  for (const OutputToken& token : seen.tokens) {
    ids.push_back(token.id);
    logprobs.push_back(token.logprob);
  }
  EXPECT_EQ(ids, beam.ids);
  EXPECT_EQ(logprobs, beam.logprobs);
  EXPECT_EQ(seen.finish.reason,
            beam.at_end_token ? FinishReason::kEosToken : FinishReason::kLength);
}

// How many tokens of the prompt were cached.
std::uint64_t expect_as_alone(const Alone& one, batch::testing::RequestRecorder& sink) {
  DriveOutcome first = outcome_of(sink[0]);
  const std::uint64_t n_shared = first.n_shared_tokens;
  if (one.request.beams.width == 1) {
    expect_same_outcomes({one.outcome}, {first}, "beside others");
    return n_shared;
  }
  EXPECT_GE(one.found.size(), sink.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(one.found.size(), sink.size()); ++i)
    expect_found(one.found[i], outcome_of(sink[i]));
  DriveOutcome prompt = one.outcome;
  prompt.tokens = first.tokens;
  prompt.finish = first.finish;
  expect_same_outcomes({prompt}, {first}, "the prompt of a search");
  return n_shared;
}

}  // namespace

Happened& Happened::operator+=(const Happened& other) {
  n_shared_tokens += other.n_shared_tokens;
  n_pauses += other.n_pauses;
  n_released_blocks += other.n_released_blocks;
  n_drafts += other.n_drafts;
  return *this;
}

std::unique_ptr<LocalRunner> start(const std::string& model_dir, const RunnerSetup& setup) {
  RunnerOptions options;
  options.model_dir = model_dir;
  options.without_text = !setup.with_text;
  options.dtype = setup.dtype;
  options.kv_dtype = setup.kv_dtype;
  options.quantize = setup.quantize;
  options.isa = setup.isa;
  options.windows = setup.windows;
  options.block_tokens = setup.block_tokens;
  options.n_threads = setup.n_threads;
  options.kv_blocks = 1 + setup.kv_tokens / setup.block_tokens;
  options.max_total_tokens = setup.request_tokens_max;
  options.max_batch_prefill_tokens = setup.rows_max;
  options.max_batch_size = setup.batch_size_max;
  options.task_order_seed = setup.task_order_seed;
  options.output_bytes_max = setup.output_bytes_max;
  options.logits_processors = setup.logits_processors;
  options.draft_tokens_max = setup.draft_tokens_max;
  options.draft_policy = DraftPolicy::kAlways;
  options.speculative_model_dir = setup.speculative_model_dir;
  auto runner = LocalRunner::create(options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

Happened expect_same_when_driven(const std::string& model_dir,
                                 const RunnerSetup& base,
                                 const Way& way,
                                 const std::vector<SequenceSpec>& specs,
                                 const std::vector<DriveOutcome>& expected) {
  RunnerSetup setup = way.setup;
  setup.dtype = base.dtype;
  setup.kv_dtype = base.kv_dtype;
  setup.quantize = base.quantize;
  setup.isa = base.isa;
  setup.logits_processors = base.logits_processors;
  setup.windows = base.windows;
  Happened happened;
  const auto runner = start(model_dir, setup);
  if (runner == nullptr) return happened;
  const auto seen = drive(*runner, specs, way.drive);
  expect_same_outcomes(expected, seen, way.name);
  for (const DriveOutcome& outcome : seen) {
    happened += {.n_shared_tokens = outcome.n_shared_tokens,
                 .n_pauses = outcome.n_pauses,
                 .n_released_blocks = outcome.n_released_blocks,
                 .n_drafts = outcome.n_drafts};
  }
  return happened;
}

Happened expect_same_through_engine(const std::string& model_dir,
                                    const RunnerSetup& setup,
                                    batch::EngineOptions options,
                                    const std::vector<SequenceSpec>& specs,
                                    const std::vector<DriveOutcome>& expected) {
  Happened happened;
  auto local = start(model_dir, setup);
  if (local == nullptr) return happened;
  const auto runner = std::make_shared<GatedRunner>(std::move(local));
  options.check_invariants = true;
  options.batch_size_max = std::min(options.batch_size_max, setup.batch_size_max);
  const auto engine = batch::Engine::create(runner, options);
  for (std::uint64_t round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<batch::testing::RequestRecorder>> sinks;
    std::optional<Hold> hold(*runner);
    for (const SequenceSpec& spec : specs) {
      const std::uint64_t id = static_cast<std::uint64_t>(spec.id) + 100 * round;
      batch::GenerationRequest request = request_of(spec, id);
      if (round == 1) request.more_seeds = {spec.sampling.seed};
      sinks.push_back(std::make_shared<batch::testing::RequestRecorder>(request.n_sequences()));
      const Status status = engine->submit(std::move(request), sinks.back());
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok()) return happened;
    }
    hold.reset();
    for (std::uint64_t sequence = 0; sequence <= round; ++sequence) {
      std::vector<DriveOutcome> seen;
      for (const auto& sink : sinks) {
        seen.push_back(outcome_of((*sink)[sequence]));
        if (sequence == 0) happened.n_shared_tokens += seen.back().n_shared_tokens;
      }
      expect_same_outcomes(
          expected,
          seen,
          "engine, round " + std::to_string(round) + ", sequence " + std::to_string(sequence));
    }
  }
  expect_idle(*engine, *runner, happened);
  return happened;
}

std::vector<Alone> compute_alone(LocalRunner& reference,
                                 std::vector<batch::GenerationRequest> requests) {
  std::vector<Alone> out;
  for (batch::GenerationRequest& request : requests) {
    SequenceSpec spec{.id = SequenceId{1}};
    spec.prompt = request.prompt;
    spec.sampling = request.sampling;
    spec.stopping = request.stopping;
    spec.prompt_logprobs = request.prompt_logprobs;
    Alone& one = out.emplace_back();
    one.outcome = drive_each_alone(reference, {spec}).front();
    if (request.beams.width > 1) one.found = batch::testing::plain_beam_search(reference, request);
    one.request = std::move(request);
  }
  return out;
}

Happened expect_as_alone(const std::string& model_dir,
                         const RunnerSetup& setup,
                         batch::EngineOptions options,
                         const std::vector<Alone>& requests) {
  Happened happened;
  auto local = start(model_dir, setup);
  if (local == nullptr) return happened;
  const auto runner = std::make_shared<GatedRunner>(std::move(local));
  options.check_invariants = true;
  options.batch_size_max = std::min(options.batch_size_max, setup.batch_size_max);
  const auto engine = batch::Engine::create(runner, options);
  for (std::uint64_t round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<batch::testing::RequestRecorder>> sinks;
    std::optional<Hold> hold(*runner);
    for (const Alone& one : requests) {
      batch::GenerationRequest request = one.request;
      request.id = RequestId{1 + sinks.size() + 100 * round};
      sinks.push_back(std::make_shared<batch::testing::RequestRecorder>(request.n_answers()));
      const Status status = engine->submit(std::move(request), sinks.back());
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok()) return happened;
    }
    hold.reset();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("round " + std::to_string(round) + ", request " + std::to_string(i));
      happened.n_shared_tokens += expect_as_alone(requests[i], *sinks[i]);
    }
  }
  expect_idle(*engine, *runner, happened);
  return happened;
}

void expect_children_as_alone(LocalRunner& reference,
                              const std::string& model_dir,
                              const RunnerSetup& setup,
                              batch::EngineOptions options,
                              const std::vector<SequenceSpec>& specs,
                              const std::vector<std::uint64_t>& seeds) {
  auto runner = start(model_dir, setup);
  if (runner == nullptr) return;
  options.check_invariants = true;
  options.batch_size_max = setup.batch_size_max;
  const auto engine = batch::Engine::create(std::move(runner), options);
  std::vector<std::shared_ptr<batch::testing::RequestRecorder>> sinks;
  for (const SequenceSpec& spec : specs) {
    batch::GenerationRequest request = request_of(spec, static_cast<std::uint64_t>(spec.id));
    request.more_seeds = seeds;
    sinks.push_back(std::make_shared<batch::testing::RequestRecorder>(request.n_sequences()));
    const Status status = engine->submit(std::move(request), sinks.back());
    ASSERT_TRUE(status.ok()) << status.message();
  }
  for (std::size_t sequence = 0; sequence <= seeds.size(); ++sequence) {
    std::vector<SequenceSpec> alone = specs;
    std::vector<DriveOutcome> seen;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (sequence > 0) alone[i].sampling.seed = seeds[sequence - 1];
      seen.push_back(outcome_of((*sinks[i])[sequence]));
    }
    expect_same_outcomes(drive_each_alone(reference, alone),
                         seen,
                         "sequence " + std::to_string(sequence) + " of each request");
  }
}

}  // namespace coxswain::runner::testing
