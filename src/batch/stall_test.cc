// Clients that read too slowly: who is asked, and what becomes of their sequences.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;
using namespace std::chrono_literals;

// Counts how often it is asked.
class AskedSink final : public TokenSink {
 public:
  void on_event(TokenEvent) override {}
  bool stalled() const override {
    ++n_asked;
    return false;
  }
  mutable int n_asked = 0;
};

GenerationRequest request(std::uint64_t id) {
  GenerationRequest r;
  r.id = RequestId{id};
  r.prompt = {1, 2, 3, 4, 5};
  r.stopping = {.max_new_tokens = 30, .stop_sequences = {}, .ignore_eos = true};
  return r;
}

TEST(Stall, WhoHasNeverRunIsNotAsked) {
  CoreDriver d({}, {.batch_size_max = 1});
  auto runs = std::make_shared<AskedSink>();
  auto waits = std::make_shared<AskedSink>();
  d.core->add(request(1), runs, d.now);
  d.core->add(request(2), waits, d.now);
  for (int i = 0; i < 20; ++i) d.turn();
  EXPECT_GE(runs->n_asked, 19);
  EXPECT_EQ(waits->n_asked, 0);
}

// Runs a request whose client stops reading, and then `waiting`, in a batch of one. Returns both sinks.
struct GivesWay {
  explicit GivesWay(const GenerationRequest& waiting,
                    CapacityPolicy policy = CapacityPolicy::kMaxUtilization)
      : d({}, {.policy = policy, .batch_size_max = 1}) {
    slow = d.add(request(1));
    for (int i = 0; i < 12; ++i) d.turn();
    slow->set_stalled(true);
    d.turn();
    quick = d.add(waiting);
    for (int i = 0; i < 100; ++i) d.turn();
  }
  CoreDriver d;
  std::shared_ptr<testing::Recorder> slow;
  std::shared_ptr<testing::Recorder> quick;
};

TEST(Stall, GivesWayToAnyPriorityAndGoesOnFromItsBlocks) {
  auto waiting = request(2);
  waiting.priority = -1;
  GivesWay run(waiting);
  ASSERT_TRUE(run.quick->done());
  run.quick->expect_complete(expected_output({}, waiting), false);
  EXPECT_FALSE(run.slow->done());
  EXPECT_EQ(run.d.observer.paused, std::vector{RequestId{1}});

  run.d.runner->keep_plans();
  run.slow->set_stalled(false);
  ASSERT_TRUE(run.d.run());
  run.slow->expect_complete(expected_output({}, request(1)), false);
  const std::vector<StepPlan> plans = run.d.runner->plans();
  const auto resumed =
      std::ranges::find_if(plans, [](const StepPlan& p) { return !p.rows.empty(); });
  ASSERT_NE(resumed, plans.end());
  EXPECT_LE(resumed->rows[0].n_tokens, 5U) << "more than a block and a token is computed again";
}

// Also in the 10 ms between two looks: with nobody left to compute, nothing else would bring another look about.
TEST(Stall, WhoGaveWayIsLookedAfterFromThenOn) {
  CoreDriver d({}, {.policy = CapacityPolicy::kMaxUtilization, .batch_size_max = 1});
  auto slow = d.add(request(1));
  for (int i = 0; i < 12; ++i) d.turn();
  slow->set_stalled(true);
  d.turn();
  auto brief = request(2);
  brief.stopping.max_new_tokens = 2;
  auto quick = d.add(brief);
  for (int i = 0; i < 20; ++i) {
    d.turn();
    EXPECT_TRUE(d.core->any_stalled()) << "turn " << i;
  }
  EXPECT_TRUE(quick->done());
  EXPECT_EQ(d.core->stats().pauses, 1U);
}

TEST(Stall, GivesWayBeforeLowerPriorities) {
  CoreDriver d({}, {.batch_size_max = 2});
  auto slow = d.add(request(1));
  auto low_request = request(2);
  low_request.priority = -1;
  auto low = d.add(low_request);
  for (int i = 0; i < 4; ++i) d.turn();
  slow->set_stalled(true);
  d.turn();
  d.add(request(3));
  d.turn();
  d.turn();
  EXPECT_EQ(d.observer.paused, std::vector{RequestId{1}});
  slow->set_stalled(false);
  ASSERT_TRUE(d.run());
}

TEST(Stall, WhoeverReadsIsNotPausedForAnEqual) {
  CoreDriver d({}, {.batch_size_max = 1});
  auto first = d.add(request(1));
  auto second = d.add(request(2));
  ASSERT_TRUE(d.run());
  EXPECT_EQ(d.core->stats().pauses, 0U);
}

TEST(Stall, NobodyIsPausedWhereRoomIsGuaranteed) {
  GivesWay run(request(2), CapacityPolicy::kGuaranteedNoEvict);
  EXPECT_FALSE(run.quick->done());
  EXPECT_EQ(run.d.core->stats().pauses, 0U);
  run.slow->set_stalled(false);
  ASSERT_TRUE(run.d.run());
}

// Room in the cache, not in the batch.
TEST(Stall, GivesItsBlocksToWhoeverFitsThen) {
  FakeRunnerOptions fake;
  fake.n_blocks = {13};  // 48 positions: 17 are held when the client stops reading
  CoreDriver d(fake, {.prefill_tokens_max = 64});
  auto slow = d.add(request(1));
  for (int i = 0; i < 13; ++i) d.turn();
  slow->set_stalled(true);
  d.turn();
  d.turn();
  auto large = request(2);
  large.prompt.assign(40, 7);
  large.stopping.max_new_tokens = 4;
  auto quick = d.add(large);
  for (int i = 0; i < 20; ++i) d.turn();
  ASSERT_TRUE(quick->done());
  quick->expect_complete(expected_output(fake, large), false);
  EXPECT_FALSE(slow->done());
  slow->set_stalled(false);
  ASSERT_TRUE(d.run());
  slow->expect_complete(expected_output(fake, request(1)), false);
}

TEST(Stall, APausedOneResumesWhenItsClientReadsAgain) {
  FakeRunnerOptions fake;
  fake.n_blocks = {17};  // 64 positions: two do not fit to their end
  CoreDriver d(fake, {.prefill_tokens_max = 16});
  auto other = d.add(request(1));
  auto slow = d.add(request(2));
  for (int i = 0; i < 4; ++i) d.turn();
  slow->set_stalled(true);
  while (!other->done()) d.turn();
  for (int i = 0; i < 20; ++i) d.turn();
  EXPECT_FALSE(slow->done());
  EXPECT_TRUE(d.core->any_stalled());
  slow->set_stalled(false);
  ASSERT_TRUE(d.run());
  EXPECT_FALSE(d.core->any_stalled());
  slow->expect_complete(expected_output(fake, request(2)), false);
}

}  // namespace
}  // namespace coxswain::batch
