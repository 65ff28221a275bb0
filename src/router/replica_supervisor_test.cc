#include "router/replica_supervisor.h"

#include <atomic>

#include <gtest/gtest.h>

#include "router/test_engine.h"

namespace coxswain::router {
namespace {

class FakeRunner final : public StepRunner {
 public:
  explicit FakeRunner(std::uint32_t vocab_size) { info_.vocab_size = vocab_size; }
  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan) override { return internal_error("not used"); }
  Result<StepResult> wait(StepTicket) override { return internal_error("not used"); }
  Status healthy() override { return {}; }

 private:
  RunnerInfo info_;
};

RunnerInfo expected_info() {
  RunnerInfo out;
  out.vocab_size = 8;
  return out;
}

struct States {
  void tell(const Status& status) {
    {
      std::lock_guard lock(mu);
      seen.push_back(status);
    }
    changed.notify_all();
  }
  void wait_for(const std::function<bool(const Status&)>& wanted) {
    std::unique_lock lock(mu);
    changed.wait(lock, [&] { return std::any_of(seen.begin(), seen.end(), wanted); });
    seen.clear();
  }
  std::mutex mu;
  std::condition_variable changed;
  std::vector<Status> seen;
};

ReplicaSupervisor::Options fast() {
  ReplicaSupervisor::Options out;
  out.poll_interval = out.backoff_first = out.backoff_max = std::chrono::milliseconds(1);
  return out;
}

TEST(ReplicaSupervisor, ReconnectsAfterALossAndTellsTheState) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  telemetry::Metrics metrics{telemetry::MetricsOptions{}};
  ScriptedEngine engine;
  States states;
  std::atomic<int> n_tries{0};
  std::atomic<bool> shard_is_back{false};
  ReplicaSupervisor supervisor(
      {engine,
       [&]() -> Result<std::shared_ptr<StepRunner>> {
         if (++n_tries < 3 || !shard_is_back) return Status(Code::kUnavailable, "no socket");
         return std::shared_ptr<StepRunner>(std::make_shared<FakeRunner>(8));
       },
       [&](const Status& status) { states.tell(status); },
       &metrics,
       log},
      expected_info(),
      fast());
  states.wait_for([](const Status& s) { return s.ok(); });
  engine.set_state(Status(), false);
  states.wait_for([](const Status& s) { return s.message() == "no socket"; });
  shard_is_back = true;
  engine.wait_for_runners(1);
  states.wait_for([](const Status& s) { return s.ok(); });
  supervisor.stop();
  EXPECT_GE(n_tries.load(), 3);
  EXPECT_EQ(metrics.replica_restarts().value(), 1u);
  EXPECT_EQ(metrics.replica_up().value(), 1.0);
}

TEST(ReplicaSupervisor, AShardThatDoesNotComeBackIsReported) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  ScriptedEngine engine;
  States states;
  std::atomic<int> n_stuck{0};
  ReplicaSupervisor::Options options = fast();
  options.stuck_patience = std::chrono::milliseconds(5);
  ReplicaSupervisor supervisor(
      {engine,
       [&]() -> Result<std::shared_ptr<StepRunner>> {
         if (n_stuck < 2) return Status(Code::kUnavailable, "no answer");
         return std::shared_ptr<StepRunner>(std::make_shared<FakeRunner>(8));
       },
       [&](const Status& status) { states.tell(status); },
       nullptr,
       log,
       {},
       [&] { ++n_stuck; }},
      expected_info(),
      options);
  states.wait_for([](const Status& s) { return s.ok(); });
  EXPECT_EQ(n_stuck.load(), 0) << "nothing is lost yet";
  engine.set_state(Status(), false);
  engine.wait_for_runners(1);
  supervisor.stop();
  EXPECT_EQ(n_stuck.load(), 2);
}

// A long prompt on a slow machine: another connection would take the shard away from that step.
TEST(ReplicaSupervisor, ALateStepIsNoLoss) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  ScriptedEngine engine;
  engine.set_state(Status(Code::kDeadlineExceeded, "no step has finished for 5001 ms"), true);
  States states;
  std::atomic<int> n_tries{0};
  ReplicaSupervisor supervisor(
      {engine,
       [&]() -> Result<std::shared_ptr<StepRunner>> {
         ++n_tries;
         return std::shared_ptr<StepRunner>(std::make_shared<FakeRunner>(8));
       },
       [&](const Status& status) { states.tell(status); },
       nullptr,
       log},
      expected_info(),
      fast());
  for (int look = 0; look < 3; ++look) {
    states.wait_for([](const Status& s) { return s.code() == Code::kDeadlineExceeded; });
  }
  engine.set_state(Status(), true);
  states.wait_for([](const Status& s) { return s.ok(); });
  supervisor.stop();
  EXPECT_EQ(n_tries.load(), 0);
}

TEST(ReplicaSupervisor, AShardWithAnotherModelIsNotTaken) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  ScriptedEngine engine;
  engine.set_state(Status(Code::kUnavailable, "gone"), false);
  States states;
  ReplicaSupervisor supervisor(
      {engine,
       []() -> Result<std::shared_ptr<StepRunner>> {
         return std::shared_ptr<StepRunner>(std::make_shared<FakeRunner>(9));
       },
       [&](const Status& status) { states.tell(status); },
       nullptr,
       log},
      expected_info(),
      fast());
  states.wait_for(
      [](const Status& s) { return s.message() == "the new shard serves another model"; });
  supervisor.stop();
}

}  // namespace
}  // namespace coxswain::router
