#include "measure/batch_run.h"

#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"

namespace coxswain::measure {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Half of all tokens would end a sequence that had an end token.
FakeRunnerOptions options() {
  FakeRunnerOptions out;
  out.n_blocks = {65, 65};
  out.windows = {0, 8};
  out.eos_every = 2;
  out.checks_scheduling = false;
  return out;
}

const BatchSpec kSpec{.n_sequences = 3, .prompt = {1, 2, 3, 4, 5}, .decode_length = 6};

TEST(BatchRuns, OneStepForAllPromptsThenOneForEachToken) {
  FakeRunner runner(options());
  runner.keep_plans();
  BatchRuns runs(runner);
  ASSERT_TRUE(runs.check_room(3, 5, 6).ok());
  const auto times = runs.run(kSpec);
  ASSERT_TRUE(times.ok()) << times.status().message();
  EXPECT_EQ(times->n_decode_steps, 5);
  EXPECT_THAT(runner.violations(), IsEmpty());
  EXPECT_THAT(runner.live(), IsEmpty());
  const auto plans = runner.plans();
  ASSERT_EQ(plans.size(), 7);  // the last one drops them
  EXPECT_EQ(plans[0].new_sequences.size(), 3);
  std::set<std::pair<std::uint32_t, BlockId>> blocks;
  for (const Row& row : plans[0].rows) {
    EXPECT_EQ(row.n_tokens, 5);
    for (const BlockTableChange& change : row.table_changes) {
      EXPECT_EQ(change.blocks.size(), 3);  // 10 positions in blocks of 4
      for (const BlockId block : change.blocks)
        EXPECT_TRUE(block > 0 && blocks.emplace(change.kv_group, block).second) << block;
    }
  }
  for (std::size_t i = 1; i < 6; ++i) {
    ASSERT_EQ(plans[i].rows.size(), 3);
    for (const Row& row : plans[i].rows) EXPECT_EQ(row.first_position, 4 + i);
  }
  EXPECT_THAT(plans[6].rows, IsEmpty());
}

TEST(BatchRuns, EveryRunIsOfNewSequences) {
  FakeRunner runner(options());
  BatchRuns runs(runner);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(runs.run(kSpec).ok());
  EXPECT_THAT(runner.violations(), IsEmpty());
  EXPECT_THAT(runner.live(), IsEmpty());
  EXPECT_EQ(runner.n_submitted(), 21);
}

TEST(BatchRuns, Room) {
  FakeRunnerOptions with_limit = options();
  with_limit.about.max_total_tokens = 100;
  FakeRunner runner(with_limit);
  const BatchRuns runs(runner);
  EXPECT_TRUE(runs.check_room(16, 9, 8).ok());  // 4 blocks each of 64
  EXPECT_THAT(runs.check_room(17, 9, 8).message(), HasSubstr("`--batch-size` must be at most 16"));
  EXPECT_TRUE(runs.check_room(1, 60, 40).ok());
  const Status status = runs.check_room(1, 61, 40);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("at most 100 together"));
}

TEST(BatchRuns, FailuresComeThrough) {
  FakeRunner runner(options());
  BatchRuns runs(runner);
  runner.fail_next({Code::kInternal, "broken"});
  EXPECT_EQ(runs.run(kSpec).status().message(), "broken");
  runner.row_failure = [](std::uint64_t, const SequenceSpec&) {
    return Status(Code::kInternal, "row");
  };
  EXPECT_EQ(runs.run(kSpec).status().message(), "row");
}

}  // namespace
}  // namespace coxswain::measure
