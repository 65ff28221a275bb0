#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::alone;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::RequestRecorder;
using namespace std::chrono_literals;

FakeRunnerOptions movable() {
  FakeRunnerOptions out;
  out.n_blocks = {129};
  out.eos_every = 90;
  out.capabilities.moves = true;
  out.capabilities.attachments = true;
  out.capabilities.attachment_bytes_max = 22 << 10;
  out.about.max_total_tokens = 240;
  return out;
}

FleetOptions options() {
  return {.resumes_max = 1000, .apart_tokens_min = 8, .migrate_grace = 20ms};
}

class FleetControlTest : public ::testing::Test {
 protected:
  struct Open {
    GenerationRequest request;
    std::shared_ptr<RequestRecorder> sinks;
  };

  void begin(const std::vector<Role>& roles, const FleetOptions& fleet_options = options()) {
    std::vector<std::shared_ptr<FakeRunner>> runners;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      runners.push_back(testing::runner_that_dies(movable(), dies_at_));
      runners.back()->on_step = [time = step_time_](std::uint64_t) {
        std::this_thread::sleep_for(time);
      };
    }
    whole_ = std::make_unique<testing::TestFleet>(
        runners, fleet_options, testing::TestFleet::engine_options(), roles);
    fleet_ = &**whole_;
  }

  static GenerationRequest request_of(std::uint64_t id, std::uint32_t n_new) {
    GenerationRequest out;
    out.id = RequestId{id};
    out.prompt.assign(4 + (5 * id) % 40, static_cast<TokenId>(id % 50));
    out.prompt_logprobs = id % 5 == 0;
    out.sampling.do_sample = id % 2 == 0;
    out.sampling.seed = 11 * id + 1;
    out.stopping.max_new_tokens = n_new;
    return out;
  }
  void submit(const GenerationRequest& request) {
    open_.push_back({request, std::make_shared<RequestRecorder>(request.n_sequences())});
    ASSERT_EQ(fleet_->submit(request, open_.back().sinks), Status());
  }
  bool all_done() const {
    return std::ranges::all_of(open_, [](const Open& o) { return o.sinks->done(); });
  }
  // Every stream is that of an undisturbed run.
  void expect_all() {
    for (const Open& o : open_) {
      for (std::size_t i = 0; i < o.sinks->size(); ++i) {
        (*o.sinks)[i].wait_final();
        (*o.sinks)[i].expect_complete(expected_output(movable(), alone(o.request, i)),
                                      o.request.prompt_logprobs);
      }
    }
  }
  // Each of them has tokens, and many are to come.
  void run(std::size_t n) {
    for (std::uint64_t id = 1; id <= n; ++id) submit(long_answer(2 * id));
    for (const Open& o : open_) (*o.sinks)[0].wait_tokens(2);
  }
  static GenerationRequest long_answer(std::uint64_t id) {
    GenerationRequest out = request_of(id, 80);
    out.prompt.assign(40, static_cast<TokenId>(id % 50));
    out.prompt_logprobs = false;
    return out;
  }

  std::unique_ptr<testing::TestFleet> whole_;
  Fleet* fleet_ = nullptr;  // of it
  std::vector<Open> open_;
  Clock::duration step_time_ = 1ms;
  std::uint64_t dies_at_ = 0;
};

TEST_F(FleetControlTest, NewWorkFollowsTheRoles) {
  begin({Role::kMixed, Role::kMixed});
  ASSERT_EQ(fleet_->set_role(0, Role::kPrefill), Status());
  ASSERT_EQ(fleet_->set_role(1, Role::kDecode), Status());
  for (std::uint64_t id = 1; id <= 8; ++id) submit(long_answer(id));
  expect_all();
  const FleetStatus status = fleet_->status();
  EXPECT_EQ(status.replicas[0].stats.generated_tokens, 8U) << "the first token of each";
  EXPECT_EQ(status.replicas[0].role, Role::kPrefill);
  whole_->expect_idle();
}

TEST_F(FleetControlTest, WhatIsGeneratedIsHandedOn) {
  begin({Role::kMixed, Role::kMixed});
  // All of it is at replica 0: the other one is away meanwhile.
  ASSERT_EQ(fleet_->begin_drain(1, Clock::now()), Status());
  run(4);
  ASSERT_EQ(fleet_->cancel_drain(1), Status());
  ASSERT_EQ(fleet_->set_role(0, Role::kPrefill), Status());
  expect_all();
  const FleetStatus status = fleet_->status();
  EXPECT_GT(status.handovers.n_moved, 0U);
  EXPECT_GT(status.replicas[1].stats.generated_tokens, 0U);
  EXPECT_EQ(status.n_resumed, 0U);
  whole_->expect_idle();
}

TEST_F(FleetControlTest, ADrainedReplicaHasNothing) {
  begin({Role::kMixed, Role::kMixed});
  GenerationRequest several = long_answer(31);
  several.more_seeds = {5, 6};
  submit(several);
  run(6);
  ASSERT_EQ(fleet_->begin_drain(0, Clock::now()), Status());
  testing::TestFleet::wait_until([&] {
    const FleetStatus status = fleet_->status();
    const ReplicaStatus& first = status.replicas[0];
    return first.n_stays + first.n_leaving + first.stats.blocks_leased == 0 &&
           status.handovers.n_running == 0;
  });
  const auto n_tokens = [&] { return fleet_->status().replicas[0].stats.generated_tokens; };
  const std::uint64_t n_before = n_tokens();
  for (std::uint64_t id = 101; id <= 112; ++id) submit(request_of(id, 20));
  expect_all();
  EXPECT_EQ(fleet_->status().replicas[0].n_stays, 0U);
  EXPECT_EQ(n_tokens(), n_before);
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  whole_->runner(1).hold();
  for (std::uint64_t id = 201; id <= 212; ++id) submit(request_of(id, 20));
  testing::TestFleet::wait_until([&] { return n_tokens() > n_before; });
  whole_->runner(1).release();
  expect_all();
  whole_->expect_idle();
}

TEST_F(FleetControlTest, UntilItsDeadlineWorkEndsByItself) {
  begin({Role::kMixed, Role::kMixed});
  run(6);
  ASSERT_EQ(fleet_->begin_drain(0, Clock::now() + 1h), Status());
  expect_all();
  const FleetStatus status = fleet_->status();
  EXPECT_EQ(status.replicas[0].drain.phase, DrainPhase::kWaiting);
  EXPECT_EQ(status.handovers.n_moved + status.handovers.n_recomputed, 0U);
  whole_->expect_idle();
}

TEST_F(FleetControlTest, WhereBlocksCannotMoveItIsComputedAgain) {
  FleetOptions without = options();
  without.no_roles = {Code::kFailedPrecondition, "blocks cannot move here"};
  begin({Role::kMixed, Role::kMixed}, without);
  EXPECT_EQ(fleet_->set_role(0, Role::kPrefill), without.no_roles);
  run(6);
  ASSERT_EQ(fleet_->begin_drain(0, Clock::now()), Status());
  expect_all();
  EXPECT_EQ(fleet_->status().handovers.n_moved, 0U);
  whole_->expect_idle();
}

TEST_F(FleetControlTest, WhatCannotBeIsRefusedByName) {
  begin({Role::kPrefill, Role::kDecode, Role::kDecode});
  const Status nobody_prompts = fleet_->set_role(0, Role::kDecode);
  EXPECT_EQ(nobody_prompts.field(), "roles");
  EXPECT_NE(nobody_prompts.message().find("computes prompts"), std::string::npos);
  ASSERT_EQ(fleet_->set_role(1, Role::kPrefill), Status());
  EXPECT_NE(fleet_->set_role(2, Role::kPrefill).message().find("generates"), std::string::npos);
  EXPECT_EQ(fleet_->set_role(3, Role::kPrefill).field(), "replica");
  EXPECT_EQ(fleet_->set_role(2, Role::kNone).field(), "role");
  EXPECT_EQ(fleet_->begin_drain(3, Clock::now()).field(), "replica");
  ASSERT_EQ(fleet_->begin_drain(0, Clock::now()), Status());
  EXPECT_EQ(fleet_->set_role(1, Role::kDecode).field(), "roles") << "whoever drains does nothing";
  ASSERT_EQ(fleet_->begin_drain(1, Clock::now()), Status());
  EXPECT_EQ(fleet_->begin_drain(2, Clock::now()).code(), Code::kFailedPrecondition);
  submit(long_answer(1));
  expect_all();
  whole_->expect_idle();
}

// What changes at random while requests run, and replicas die as well.
struct Chance {
  std::uint64_t state;
  std::uint64_t operator()(std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  }
};

class FleetChangesTest : public FleetControlTest {
 protected:
  void change(Chance& random) {
    const std::size_t replica = random(fleet_->n_replicas());
    switch (random(5)) {
      case 0:
        return (void)fleet_->set_role(replica, Role::kPrefill);
      case 1:
        return (void)fleet_->set_role(replica, Role::kDecode);
      case 2:
        return (void)fleet_->set_role(replica, Role::kMixed);
      case 3:
        return (void)fleet_->begin_drain(replica,
                                         Clock::now() + std::chrono::microseconds(random(2000)));
      default:
        return (void)fleet_->cancel_drain(replica);
    }
  }
  // Where none serves that is not drained a request is refused, and sent again. After so many changes the replicas are
  // left alone: what is computed again elsewhere makes no way between two changes that are nearer than a prompt takes.
  void live_through(std::uint64_t seed, bool kills) {
    SCOPED_TRACE(seed);
    Chance random{seed * 2654435761U + 1};
    step_time_ = {};
    dies_at_ = kills ? 1 + random(30) : 0;
    begin(std::vector<Role>(2 + random(2), Role::kMixed));
    constexpr int kChangesMax = 250;
    int n_changes = 0;
    std::size_t n_kills = 0;
    for (std::uint64_t id = 1; id <= 24 || !all_done();) {
      for (std::size_t i = 0; i < fleet_->n_replicas(); ++i) {
        if (!fleet_->engine(i).stats().runner_up)
          whole_->replace(
              i,
              testing::runner_that_dies(movable(), kills && ++n_kills < 20 ? 1 + random(30) : 0));
      }
      if (++n_changes <= kChangesMax) {
        change(random);
      } else {
        for (std::size_t i = 0; i < fleet_->n_replicas(); ++i)
          EXPECT_EQ(fleet_->cancel_drain(i), Status());
      }
      if (id <= 24) {
        GenerationRequest request = request_of(id, 1 + static_cast<std::uint32_t>(random(60)));
        if (random(6) == 0) request.more_seeds = {seed, id};
        Open o{request, std::make_shared<RequestRecorder>(request.n_sequences())};
        if (fleet_->submit(o.request, o.sinks).ok()) {
          open_.push_back(std::move(o));
          ++id;
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random(400)));
      if (random(30) == 0 && id > 24) std::this_thread::sleep_for(3ms);
    }
    expect_all();
    for (std::size_t i = 0; i < fleet_->n_replicas(); ++i)
      if (!fleet_->engine(i).stats().runner_up)
        whole_->replace(i, testing::runner_that_dies(movable(), 0));
    whole_->expect_idle();
    whole_.reset();
    open_.clear();
  }
};

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSeeds = 3;  // each takes seconds
#else
constexpr std::uint64_t kSeeds = 25;
#endif

TEST_F(FleetChangesTest, ChangesAtRandomChangeNoStream) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) live_through(seed, false);
}

TEST_F(FleetChangesTest, NorDoKillsBesideThem) {
  for (std::uint64_t seed = 101; seed <= 100 + kSeeds; ++seed) live_through(seed, true);
}

}  // namespace
}  // namespace coxswain::fleet
