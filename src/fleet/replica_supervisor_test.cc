#include "fleet/replica_supervisor.h"

#include <atomic>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/scripted_engine.h"

namespace coxswain::fleet {
namespace {

// Of a model with that many tokens.
std::shared_ptr<StepRunner> runner_of(std::uint32_t vocab_size) {
  batch::testing::FakeRunnerOptions options;
  options.vocab_size = vocab_size;
  return std::make_shared<batch::testing::FakeRunner>(options);
}

RunnerInfo expected_info() {
  return runner_of(8)->info();
}

struct States {
  void tell(const Status& status) {
    {
      base::MutexLock lock(mu);
      seen.push_back(status);
    }
    changed.notify_all();
  }
  void wait_for(const std::function<bool(const Status&)>& wanted) {
    base::MutexLock lock(mu);
    changed.wait(lock,
                 [&]() REQUIRES(mu) { return std::any_of(seen.begin(), seen.end(), wanted); });
    seen.clear();
  }
  base::Mutex mu;
  base::CondVar changed;
  std::vector<Status> seen GUARDED_BY(mu);
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
  telemetry::GaugePart up(metrics.replica_up);
  batch::ScriptedEngine engine;
  Bell bell;
  States states;
  std::atomic<int> n_tries{0};
  std::atomic<bool> shard_is_back{false};
  ReplicaSupervisor supervisor({engine,
                                bell,
                                [&]() -> Result<std::shared_ptr<StepRunner>> {
                                  if (++n_tries < 3 || !shard_is_back)
                                    return Status(Code::kUnavailable, "no socket");
                                  return runner_of(8);
                                },
                                [&](const Status& status) { states.tell(status); },
                                &metrics,
                                &up,
                                log},
                               expected_info(),
                               fast());
  states.wait_for([](const Status& s) { return s.ok(); });
  engine.set_state(Status(), false);
  bell.ring();
  states.wait_for([](const Status& s) { return s.message() == "no socket"; });
  shard_is_back = true;
  engine.wait_for_runners(1);
  states.wait_for([](const Status& s) { return s.ok(); });
  supervisor.stop();
  EXPECT_GE(n_tries.load(), 3);
  EXPECT_EQ(metrics.replica_restarts.value(), 1u);
  EXPECT_EQ(metrics.replica_up.value(), 1.0);
}

TEST(ReplicaSupervisor, AShardThatDoesNotComeBackIsReported) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  batch::ScriptedEngine engine;
  Bell bell;
  States states;
  std::atomic<int> n_stuck{0};
  ReplicaSupervisor::Options options = fast();
  options.stuck_patience = std::chrono::milliseconds(5);
  ReplicaSupervisor supervisor({engine,
                                bell,
                                [&]() -> Result<std::shared_ptr<StepRunner>> {
                                  if (n_stuck < 2) return Status(Code::kUnavailable, "no answer");
                                  return runner_of(8);
                                },
                                [&](const Status& status) { states.tell(status); },
                                nullptr,
                                nullptr,
                                log,
                                {},
                                [&] { ++n_stuck; }},
                               expected_info(),
                               options);
  states.wait_for([](const Status& s) { return s.ok(); });
  EXPECT_EQ(n_stuck.load(), 0) << "nothing is lost yet";
  engine.set_state(Status(), false);
  bell.ring();
  engine.wait_for_runners(1);
  supervisor.stop();
  EXPECT_EQ(n_stuck.load(), 2);
}

// A long prompt on a slow machine: another connection would take the shard away from that step.
TEST(ReplicaSupervisor, ALateStepIsNoLoss) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  batch::ScriptedEngine engine;
  Bell bell;
  engine.set_state(Status(Code::kDeadlineExceeded, "no step has finished for 5001 ms"), true);
  States states;
  std::atomic<int> n_tries{0};
  ReplicaSupervisor supervisor({engine,
                                bell,
                                [&]() -> Result<std::shared_ptr<StepRunner>> {
                                  ++n_tries;
                                  return runner_of(8);
                                },
                                [&](const Status& status) { states.tell(status); },
                                nullptr,
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

// The fake clock of this test is the number of looks: with an interval of a millisecond one that looks by itself would
// be far ahead of the rings.
TEST(ReplicaSupervisor, NobodyLooksUntilTheBellRings) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  batch::ScriptedEngine engine;
  Bell bell;
  States states;
  std::atomic<int> n_looks{0};
  std::atomic<bool> asked{false};
  ReplicaSupervisor supervisor(
      {engine,
       bell,
       [&]() -> Result<std::shared_ptr<StepRunner>> { return runner_of(8); },
       [&](const Status& status) {
         ++n_looks;
         states.tell(status);
       },
       nullptr,
       nullptr,
       log,
       [&] { return asked.load(); }},
      expected_info(),
      fast());
  const auto any = [](const Status& s) { return s.ok(); };
  states.wait_for(any);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(n_looks.load(), i + 1);
    bell.ring();
    states.wait_for(any);
  }
  asked = true;  // it goes on without a ring
  bell.ring();
  for (int i = 0; i < 5; ++i) states.wait_for(any);
  supervisor.stop();
}

// It sleeps, and what it connects to later is no restart.
TEST(ReplicaSupervisor, AReplicaThatIsNotWantedIsNotLookedFor) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  telemetry::Metrics metrics{telemetry::MetricsOptions{}};
  batch::ScriptedEngine engine;
  Bell bell;
  engine.set_state(Status(Code::kUnavailable, "absent"), false);
  States states;
  std::atomic<int> n_tries{0};
  std::atomic<bool> wanted{false};
  ReplicaSupervisor supervisor({.engine = engine,
                                .bell = bell,
                                .connect = [&]() -> Result<std::shared_ptr<StepRunner>> {
                                  ++n_tries;
                                  return runner_of(8);
                                },
                                .on_state = [&](const Status& s) { states.tell(s); },
                                .metrics = &metrics,
                                .log = log,
                                .wanted = [&] { return wanted.load(); }},
                               expected_info(),
                               fast());
  const auto away = [](const Status& s) { return s.message() == "the shard is not there"; };
  states.wait_for(away);
  bell.ring();
  states.wait_for(away);
  EXPECT_EQ(n_tries.load(), 0);
  wanted = true;
  bell.ring();
  engine.wait_for_runners(1);
  supervisor.stop();
  EXPECT_EQ(metrics.replica_restarts.value(), 0);
}

TEST(ReplicaSupervisor, OneThatComesLaterIsNoRestart) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  telemetry::Metrics metrics{telemetry::MetricsOptions{}};
  batch::ScriptedEngine engine;
  Bell bell;
  engine.set_state(Status(Code::kUnavailable, "absent"), true);
  States states;
  std::atomic<int> n_tries{0};
  std::atomic<int> n_connected{0};
  ReplicaSupervisor supervisor({.engine = engine,
                                .bell = bell,
                                .connect = [&]() -> Result<std::shared_ptr<StepRunner>> {
                                  if (++n_tries < 3) return Status(Code::kUnavailable, "no socket");
                                  return runner_of(8);
                                },
                                .on_state = [&](const Status& s) { states.tell(s); },
                                .metrics = &metrics,
                                .log = log,
                                .on_connected = [&] { ++n_connected; },
                                .is_there = false},
                               expected_info(),
                               fast());
  engine.wait_for_runners(1);
  states.wait_for([](const Status& s) { return s.ok(); });
  supervisor.stop();
  EXPECT_EQ(n_connected.load(), 1);
  EXPECT_EQ(metrics.replica_restarts.value(), 0);
}

// The runner is well, and of a shard that is to be left.
TEST(ReplicaSupervisor, AnOutdatedRunnerIsReplaced) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  batch::ScriptedEngine engine;
  Bell bell;
  States states;
  std::atomic<bool> outdated{false};
  std::atomic<bool> is_there{false};
  ReplicaSupervisor supervisor({.engine = engine,
                                .bell = bell,
                                .connect = [&]() -> Result<std::shared_ptr<StepRunner>> {
                                  if (!is_there) return Status(Code::kUnavailable, "no socket");
                                  return runner_of(8);
                                },
                                .on_state = [&](const Status& s) { states.tell(s); },
                                .log = log,
                                .outdated = [&] { return outdated.load(); },
                                .on_connected = [&] { outdated = false; }},
                               expected_info(),
                               fast());
  states.wait_for([](const Status& s) { return s.ok(); });
  outdated = true;
  bell.ring();
  states.wait_for([](const Status& s) { return s.message() == "no socket"; });
  is_there = true;
  engine.wait_for_runners(1);
  states.wait_for([](const Status& s) { return s.ok(); });
  supervisor.stop();
}

TEST(ReplicaSupervisor, AShardWithAnotherModelIsNotTaken) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  batch::ScriptedEngine engine;
  Bell bell;
  engine.set_state(Status(Code::kUnavailable, "gone"), false);
  States states;
  ReplicaSupervisor supervisor(
      {engine,
       bell,
       []() -> Result<std::shared_ptr<StepRunner>> { return runner_of(9); },
       [&](const Status& status) { states.tell(status); },
       nullptr,
       nullptr,
       log},
      expected_info(),
      fast());
  states.wait_for([](const Status& s) {
    return s.message() == "the new shard serves another model than the first";
  });
  supervisor.stop();
}

}  // namespace
}  // namespace coxswain::fleet
