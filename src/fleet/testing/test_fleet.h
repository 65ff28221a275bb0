#pragma once
// TestFleet: a fleet over fake runners that die when they are told to. In the end the rules of every runner were kept
// and the gauge of the queue is zero.
//
// Thread rule: one thread, the test's.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "fleet/fleet.h"

namespace coxswain::fleet::testing {

inline batch::testing::FakeRunnerOptions fake() {
  batch::testing::FakeRunnerOptions out;
  out.n_blocks = {65};
  out.eos_every = 40;
  out.capabilities.moves = true;
  return out;
}

// Says that it is dead from the step `dies_at` on; 0: never. As a process that was killed: nothing comes back.
inline std::shared_ptr<batch::testing::FakeRunner> runner_that_dies(
    const batch::testing::FakeRunnerOptions& options, std::uint64_t dies_at) {
  static std::atomic<std::uint64_t> epoch{100};
  batch::testing::FakeRunnerOptions own = options;
  own.epoch = epoch.fetch_add(1);
  auto out = std::make_shared<batch::testing::FakeRunner>(own);
  if (dies_at != 0) {
    out->step_failure = [dies_at](std::uint64_t step) {
      return step >= dies_at ? Status(Code::kUnavailable, "the shard was lost") : Status();
    };
  }
  return out;
}

class TestFleet {
 public:
  explicit TestFleet(std::vector<std::shared_ptr<batch::testing::FakeRunner>> runners,
                     const FleetOptions& options = {},
                     const batch::EngineOptions& engine = engine_options(),
                     const std::vector<Role>& roles = {},
                     std::size_t n_present = 64)
      : runners_(std::move(runners)) {
    std::vector<FleetMember> members;
    members.reserve(runners_.size());
    for (const auto& runner : runners_) {
      members.push_back({.make_engine =
                             [runner, engine](batch::EngineObserver& observer) {
                               return batch::Engine::create(runner, engine, &observer);
                             },
                         .observer = nobody_,
                         .step_prompt_tokens = engine.prefill_tokens_max,
                         .role = roles.empty() ? Role::kMixed : roles[members.size()],
                         .present = members.size() < n_present});
    }
    const auto note_work = [this] { ++n_rung; };
    fleet_ = std::make_unique<Fleet>(
        members, options, Fleet::Parts{.log = log_, .metrics = &metrics_, .on_work = note_work});
  }
  ~TestFleet() {
    for (const auto& runner : runners_) runner->release();  // of a test that gave up
    fleet_.reset();
    for (const auto& runner : runners_) EXPECT_EQ(runner->violations(), std::vector<std::string>());
    EXPECT_EQ(metrics_.queue_size.value(), 0);
    for (const telemetry::Gauge* gauge : metrics_.queue_size_by_priority.series)
      EXPECT_EQ(gauge->value(), 0);
  }

  static batch::EngineOptions engine_options() {
    batch::EngineOptions out;
    out.policy = CapacityPolicy::kMaxUtilization;
    out.prefill_tokens_max = 16;
    out.check_invariants = true;
    return out;
  }

  std::atomic<std::uint64_t> n_rung{0};  // Parts::on_work

  Fleet& operator*() { return *fleet_; }
  Fleet* operator->() { return fleet_.get(); }
  batch::testing::FakeRunner& runner(std::size_t i) { return *runners_[i]; }

  const telemetry::Metrics& metrics() const { return metrics_; }

  void replace(std::size_t replica, std::shared_ptr<batch::testing::FakeRunner> runner) {
    runners_.push_back(runner);
    fleet_->engine(replica).replace_runner(std::move(runner));
  }
  bool is_up(std::size_t replica) { return fleet_->engine(replica).stats().runner_up; }
  template <typename Condition>
  static void wait_until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // Everything is answered, and nobody holds a block.
  void expect_idle() {
    EXPECT_TRUE(fleet_->drain(std::chrono::seconds(60)));
    // A source gives its blocks back behind the hand-over, and what was cancelled when its last
    // step has come home.
    wait_until([&] {
      return std::ranges::all_of(fleet_->status().replicas, [](const auto& r) {
        return r.stats.blocks_leased + r.stats.blocks_retiring == 0;
      });
    });
    const FleetStatus status = fleet_->status();
    EXPECT_EQ(status.n_requests, 0U);
    EXPECT_EQ(status.n_waiting, 0U);
    for (const ReplicaStatus& replica : status.replicas) {
      EXPECT_EQ(replica.n_stays + replica.n_arriving + replica.n_leaving, 0U);
      EXPECT_EQ(replica.stats.queued + replica.stats.running, 0U);
    }
  }

 private:
  batch::EngineObserver nobody_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2}};
  telemetry::Metrics metrics_{telemetry::MetricsOptions{}};
  std::vector<std::shared_ptr<batch::testing::FakeRunner>> runners_;
  std::unique_ptr<Fleet> fleet_;
};

// Prompts of 3 to 9 tokens; every other one is sampled.
inline batch::GenerationRequest request_of(std::uint64_t id, std::uint32_t n_new = 20) {
  batch::GenerationRequest out;
  out.id = RequestId{id};
  for (std::uint64_t i = 0; i < 3 + id % 7; ++i)
    out.prompt.push_back(static_cast<TokenId>((7 * id + i) % 50));
  out.sampling.do_sample = id % 2 == 0;
  out.sampling.seed = 11 * id + 1;
  out.stopping.max_new_tokens = n_new;
  return out;
}

}  // namespace coxswain::fleet::testing
