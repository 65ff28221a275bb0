// A fleet with a replica whose weights arrive: it computes first layers of prompts that wait for the other one, and no
// answer shows it. Weights come, and steps of the other one end, when the test says so.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/testing/temp_folder.h"
#include "batch/testing/recorder.h"
#include "fleet/fleet.h"
#include "model/test_models.h"
#include "runner/local_runner.h"
#include "runner/testing/held_source.h"
#include "telemetry/log.h"

namespace coxswain::runner {
namespace {

using batch::GenerationRequest;
using batch::testing::Recorder;
using fleet::LivePhase;
using fleet::Role;
using testing::HeldSource;
using weights::ImageStore;

constexpr std::uint32_t kLayers = 5;

// Its steps end while it is open.
class Gate final : public StepRunner {
 public:
  explicit Gate(std::shared_ptr<StepRunner> to) : to_(std::move(to)) {}

  void set_open(bool open) {
    {
      const base::MutexLock lock(mu_);
      open_ = open;
    }
    changed_.notify_all();
  }
  // The first plan of which it is true fails, its row or all of it.
  void break_plan(std::function<bool(const StepPlan&)> breaks, bool row) {
    const base::MutexLock lock(mu_);
    breaks_ = std::move(breaks);
    breaks_row_ = row;
  }
  bool has_broken() const {
    const base::MutexLock lock(mu_);
    return broken_.has_value();
  }
  RunnerInfo info() const override { return to_->info(); }
  Result<StepTicket> submit(StepPlan plan) override {
    const base::MutexLock lock(mu_);
    if (!broken_ && breaks_ && breaks_(plan)) broken_ = plan.step;
    return to_->submit(std::move(plan));
  }
  Result<StepResult> wait(StepTicket ticket, TimePoint until) override {
    {
      base::MutexLock lock(mu_);
      const auto opened = [&]() REQUIRES(mu_) { return open_; };
      if (until == TimePoint::max()) {
        changed_.wait(lock, opened);
      } else if (!changed_.wait_until(lock, until, opened)) {
        return Status(Code::kDeadlineExceeded, "the gate is closed");
      }
    }
    Result<StepResult> result = to_->wait(ticket, until);
    const base::MutexLock lock(mu_);
    if (!result.ok() || broken_ != ticket.step) return result;
    const Status status = internal_error("broken");
    if (!breaks_row_) return status;
    result->sequences.front().status = status;
    return result;
  }
  Status healthy() override { return to_->healthy(); }
  Status attach(Attachment attachment) override { return to_->attach(std::move(attachment)); }
  Status detach(std::uint64_t id) override { return to_->detach(id); }
  Status export_blocks(const BlockTransfer& transfer, TimePoint until) override {
    return to_->export_blocks(transfer, until);
  }
  Result<Attachment> take(std::uint64_t id) override { return to_->take(id); }

 private:
  const std::shared_ptr<StepRunner> to_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool open_ GUARDED_BY(mu_) = true;
  std::function<bool(const StepPlan&)> breaks_ GUARDED_BY(mu_);
  bool breaks_row_ GUARDED_BY(mu_) = false;
  std::optional<std::uint64_t> broken_ GUARDED_BY(mu_);  // the step
};

bool brings_layers(const StepPlan& plan) {
  return !plan.imports.empty() && plan.imports.front().layers.end < kLayers;
}
bool computes_rest(const StepPlan& plan) {
  return plan.hidden_in != 0;
}

class LiveFleet : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto config = model::small_config(R"({"model_type":"llama","num_hidden_layers":5})");
    const Status status =
        model::write_random_checkpoint(config, {.dir = folder_.path(), .progress = {}});
    ASSERT_TRUE(status.ok()) << status.message();
    RunnerOptions from = options();
    from.weights_store = store_ = std::make_shared<ImageStore>();
    donor_ = std::make_shared<Gate>(start(from));
    from = options();
    source_ = std::make_shared<HeldSource>(store_);
    from.weights_source = source_;
    target_ = start(from);
    alone_ = batch::Engine::create(start(options()), engine_options());
  }
  void TearDown() override {
    donor_->set_open(true);
    source_->give_all();
  }

  RunnerOptions options() const {
    RunnerOptions out;
    out.model_dir = folder_.path();
    out.without_text = true;
    out.block_tokens = 4;
    out.kv_blocks = 300;
    out.n_threads = 1;
    out.memory_budget_bytes = std::uint64_t{1} << 30;
    out.max_total_tokens = 100;
    out.max_batch_prefill_tokens = 64;
    out.max_batch_size = 8;
    out.attachment_bytes_max = std::uint64_t{1} << 20;
    return out;
  }
  static std::shared_ptr<LocalRunner> start(const RunnerOptions& options) {
    auto runner = LocalRunner::create(options);
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    return runner.ok() ? std::move(runner).value() : nullptr;
  }
  static batch::EngineOptions engine_options() {
    batch::EngineOptions out;
    out.check_invariants = true;
    out.batch_size_max = 8;
    out.prefill_tokens_max = 24;
    return out;
  }

  // Replica 0 has all layers, replica 1 loads; the others have all layers, too.
  void start_fleet(const std::vector<Role>& roles, bool target_comes_later = false) {
    std::vector<std::shared_ptr<StepRunner>> runners{
        donor_, target_comes_later ? start(options()) : target_};
    while (runners.size() < roles.size()) runners.push_back(start(options()));
    std::vector<fleet::FleetMember> members;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      members.push_back({.make_engine =
                             [runner = runners[i]](batch::EngineObserver& observer) {
                               return batch::Engine::create(runner, engine_options(), &observer);
                             },
                         .observer = nobody_,
                         .step_prompt_tokens = 24,
                         .role = roles[i],
                         .present = i != 1 || !target_comes_later});
    }
    fleet_ = std::make_unique<fleet::Fleet>(
        members, fleet::FleetOptions{.apart_tokens_min = 5}, fleet::Fleet::Parts{.log = log_});
    if (!target_comes_later) wait_until([&] { return live().phase == LivePhase::kLoading; });
  }

  struct Open {
    GenerationRequest request;
    std::shared_ptr<Recorder> sink = std::make_shared<Recorder>();
  };
  static GenerationRequest request_of(std::uint64_t id) {
    GenerationRequest out;
    out.id = RequestId{id};
    for (std::uint64_t p = 0; p < 21 + 5 * (id % 5); ++p)
      out.prompt.push_back(static_cast<TokenId>(3 + (p * 11 + id * 7) % 50));
    out.stopping = {.max_new_tokens = 8, .ignore_eos = true};
    out.sampling.do_sample = id % 2 == 0;
    out.sampling.seed = 40 + id;
    out.sampling.temperature = 1.3F;
    return out;
  }
  // The donor is in the middle of a step, so most of them wait.
  void submit(std::size_t n) {
    donor_->set_open(false);
    for (std::size_t i = 0; i < n; ++i) {
      open_.push_back({.request = request_of(open_.size() + 1)});
      ASSERT_TRUE(fleet_->submit(open_.back().request, open_.back().sink).ok());
    }
  }
  void expect_answers() {
    for (const Open& open : open_) {
      open.sink->wait_final();
      ASSERT_TRUE(open.sink->final_event().status.ok())
          << open.sink->final_event().status.message();
      const auto whole = std::make_shared<Recorder>();
      ASSERT_TRUE(alone_->submit(open.request, whole).ok());
      whole->wait_final();
      EXPECT_EQ(open.sink->tokens(), whole->tokens());
      EXPECT_EQ(open.sink->final_event().cumulative_logprob,
                whole->final_event().cumulative_logprob);
    }
  }
  void expect_idle() {
    EXPECT_TRUE(fleet_->drain(std::chrono::seconds(60)));
    for (std::size_t i = 0; i < fleet_->n_replicas(); ++i)
      wait_until([&] { return fleet_->engine(i).stats().blocks_leased == 0; });
    EXPECT_EQ(live().n_prompts, 0U);
  }

  fleet::LiveTarget::State live() const { return fleet_->status().replicas[1].live; }
  fleet::DividedPrompts divided() const { return fleet_->status().divided; }
  void give_layers(std::uint32_t n) {
    while (target_->layers_ready() < n) source_->give(1);
  }
  static void wait_until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  base::TempFolder folder_;
  std::shared_ptr<ImageStore> store_;
  std::shared_ptr<Gate> donor_;
  std::shared_ptr<HeldSource> source_;
  std::shared_ptr<LocalRunner> target_;
  std::unique_ptr<batch::Engine> alone_;
  batch::EngineObserver nobody_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2}};
  std::vector<Open> open_;
  std::unique_ptr<fleet::Fleet> fleet_;
};

TEST_F(LiveFleet, ThePromptsThatWaitAreDivided) {
  start_fleet({Role::kMixed, Role::kMixed});
  std::uint64_t n_run = 0;
  for (std::uint32_t k = 1; k < kLayers; ++k) {
    SCOPED_TRACE(k);
    give_layers(k);
    submit(6);
    wait_until([&] { return live().n_layers_run >= n_run + std::uint64_t{2} * k; });
    donor_->set_open(true);
    expect_answers();
    n_run = live().n_layers_run;
    EXPECT_EQ(live().phase, LivePhase::kLoading);
  }
  const fleet::DividedPrompts seen = divided();
  EXPECT_GE(seen.n_moved, kLayers - 1);
  EXPECT_GE(seen.n_layers, 1U + 2 + 3 + 4);
  EXPECT_EQ(seen.n_recomputed, 0U);
  EXPECT_EQ(fleet_->engine(1).stats().generated_tokens, 0U);
  source_->give_all();
  wait_until([&] { return live().phase == LivePhase::kWhole; });
  expect_idle();
}

TEST_F(LiveFleet, OneThatComesAmidABacklogIsGivenNoWholeRequest) {
  start_fleet({Role::kMixed, Role::kMixed}, true);
  submit(8);
  fleet_->engine(1).replace_runner(target_);
  ASSERT_TRUE(fleet_->admit(1, Role::kMixed).ok());
  give_layers(2);
  wait_until([&] { return live().n_layers_run >= 4; });
  donor_->set_open(true);
  expect_answers();
  EXPECT_EQ(fleet_->engine(1).stats().generated_tokens, 0U);
  source_->give_all();
  expect_idle();
}

TEST_F(LiveFleet, WhatNobodyTakesIsFinishedWhereItWasBegun) {
  start_fleet({Role::kMixed, Role::kMixed});
  give_layers(2);
  submit(8);
  wait_until([&] { return live().n_layers_run >= 4; });
  source_->give_all();
  // The donor is still in its step.
  wait_until([&] { return live().phase == LivePhase::kWhole && live().n_prompts == 0; });
  wait_until([&] { return divided().n_finished >= 2; });
  donor_->set_open(true);
  expect_answers();
  EXPECT_GT(fleet_->engine(1).stats().generated_tokens, 0U);
  expect_idle();
}

TEST_F(LiveFleet, BothHalvesComeToTheOneThatGenerates) {
  start_fleet({Role::kPrefill, Role::kPrefill, Role::kDecode});
  give_layers(3);
  submit(6);
  wait_until([&] { return live().n_layers_run >= 6; });
  donor_->set_open(true);
  expect_answers();
  source_->give_all();
  expect_idle();
  EXPECT_GE(divided().n_moved, 2U);
  EXPECT_EQ(fleet_->engine(0).stats().generated_tokens, 6U) << "the first token of each";
  EXPECT_EQ(fleet_->engine(1).stats().generated_tokens, 0U);
  EXPECT_EQ(fleet_->engine(2).stats().generated_tokens, 6U * 7);
  EXPECT_EQ(fleet_->status().handovers.n_recomputed, 0U);
}

TEST_F(LiveFleet, WhereAllWaitForTheirNextLayerMoreAreBegun) {
  start_fleet({Role::kMixed, Role::kMixed});
  give_layers(1);
  submit(12);
  wait_until([&] { return live().n_prompts_begun >= 8; });
  donor_->set_open(true);
  expect_answers();
  source_->give_all();
  expect_idle();
}

TEST_F(LiveFleet, WhatIsCancelledLeavesNothing) {
  start_fleet({Role::kMixed, Role::kMixed});
  give_layers(2);
  submit(6);
  wait_until([&] { return live().n_layers_run >= 4; });
  for (const Open& open : open_) fleet_->cancel(open.request.id);
  donor_->set_open(true);
  for (const Open& open : open_) EXPECT_EQ(open.sink->wait().code(), Code::kCancelled);
  source_->give_all();
  expect_idle();
}

TEST_F(LiveFleet, TheOneThatLoadsMayBeLost) {
  start_fleet({Role::kMixed, Role::kMixed});
  give_layers(2);
  submit(6);
  wait_until([&] { return live().n_layers_run >= 4; });
  // Its steps fail from here on.
  std::filesystem::resize_file(folder_.file("model.safetensors"), 100);
  source_->fail();
  wait_until([&] { return !target_->is_loading(); });
  donor_->set_open(true);
  expect_answers();
  EXPECT_TRUE(fleet_->drain(std::chrono::seconds(60)));
}

TEST_F(LiveFleet, ItMayEndAtAnyMoment) {
  start_fleet({Role::kMixed, Role::kMixed});
  give_layers(2);
  submit(6);
  wait_until([&] { return live().n_layers_run >= 3; });
  donor_->set_open(true);
  fleet_.reset();
  for (const Open& open : open_) open.sink->wait_final();
}

struct BrokenStep {
  const char* name;
  bool (*is)(const StepPlan&);
  bool row;  // its row alone
};

class CountedOn : public LiveFleet, public ::testing::WithParamInterface<BrokenStep> {};

// Other steps have been submitted behind it, of this prompt and of others.
TEST_P(CountedOn, AStepThatFailsIsARunnerThatIsLost) {
  start_fleet({Role::kMixed, Role::kMixed});
  give_layers(2);
  donor_->break_plan(GetParam().is, GetParam().row);
  submit(6);
  wait_until([&] { return live().n_layers_run >= 4; });
  donor_->set_open(true);
  wait_until([&] { return !fleet_->engine(0).stats().runner_up; });
  EXPECT_TRUE(donor_->has_broken());
  fleet_->engine(0).replace_runner(start(options()));
  // Meanwhile the one that loads was all that there was, and was given whole requests.
  source_->give_all();
  expect_answers();
  expect_idle();
}

INSTANTIATE_TEST_SUITE_P(
    Steps,
    CountedOn,
    ::testing::Values(BrokenStep{.name = "import", .is = brings_layers, .row = false},
                      BrokenStep{.name = "layers", .is = computes_rest, .row = false},
                      BrokenStep{.name = "row_of_layers", .is = computes_rest, .row = true}),
    [](const auto& tested) { return std::string(tested.param.name); });

// Where nobody has all layers, requests wait for the weights, as with one replica.
TEST_F(LiveFleet, AloneItIsGivenEverything) {
  start_fleet({Role::kMixed, Role::kMixed});
  ASSERT_TRUE(fleet_->begin_drain(0, Clock::now()).ok());
  open_.push_back({.request = request_of(1)});
  ASSERT_TRUE(fleet_->submit(open_.back().request, open_.back().sink).ok());
  source_->give_all();
  expect_answers();
  EXPECT_GT(fleet_->engine(1).stats().generated_tokens, 0U);
  ASSERT_TRUE(fleet_->cancel_drain(0).ok());
  expect_idle();
}

}  // namespace
}  // namespace coxswain::runner
