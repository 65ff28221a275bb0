// TGI's rule for runners that cannot plan chunks (waiting_served_ratio, max_waiting_tokens): one test for each thing
// that it says. Steps are written as letters: P computes prompts, D decodes.

#include <algorithm>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunnerOptions;

class TgiRule : public ::testing::Test {
 protected:
  void start(float ratio, std::uint32_t waiting_tokens_max, Capabilities capabilities = {}) {
    fake_.block_tokens = 4;
    fake_.n_blocks = {401};
    fake_.capabilities = capabilities;
    options_.waiting_served_ratio = ratio;
    options_.waiting_tokens_max = waiting_tokens_max;
    options_.prefix_caching = false;
    driver_ = std::make_unique<CoreDriver>(fake_, options_);
    driver_->runner->keep_plans();
  }

  void add(std::uint64_t n = 1) {
    for (; n > 0; --n) {
      GenerationRequest r;
      r.id = RequestId{++last_id_};
      r.prompt.assign(4, static_cast<TokenId>(last_id_));
      r.stopping.max_new_tokens = 60;
      r.stopping.ignore_eos = true;
      driver_->add(r);
    }
  }

  // What the next n steps are; with how many prompts, where not one.
  std::string steps(int n) {
    std::string out;
    for (; n > 0; --n) {
      const std::size_t n_before = driver_->runner->plans().size();
      EXPECT_TRUE(driver_->turn());
      const StepPlan plan = driver_->runner->plans().at(n_before);
      const auto n_prompts = std::ranges::count(plan.rows, 0U, &Row::first_position);
      out += n_prompts == 0 ? 'D' : 'P';
      if (n_prompts > 1) out += std::to_string(n_prompts);
      if (n_prompts > 0 && n_prompts < std::ssize(plan.rows)) out += '+';
    }
    return out;
  }

  FakeRunnerOptions fake_;
  EngineOptions options_;
  std::unique_ptr<CoreDriver> driver_;
  std::uint64_t last_id_ = 0;
};

constexpr float kNever = 1e9F;

TEST_F(TgiRule, TheCounterStartsAtOneWithThePromptsOfABatch) {
  start(kNever, 3);
  add();
  EXPECT_EQ(steps(1), "P");
  add();
  EXPECT_EQ(steps(3), "DDP");
}

TEST_F(TgiRule, ThoseWhoDecodeGetATokenBeforeTheNextPrompts) {
  start(0, 0);
  add();
  EXPECT_EQ(steps(1), "P");
  add();
  EXPECT_EQ(steps(1), "P");  // at once: nobody has decoded yet
  add();
  EXPECT_EQ(steps(4), "DPDD");
}

TEST_F(TgiRule, TheCounterStartsAgainWithPromptsThatJoin) {
  start(kNever, 3);
  add();
  EXPECT_EQ(steps(6), "PDDDDD");
  add();
  EXPECT_EQ(steps(1), "P");
  add();
  EXPECT_EQ(steps(3), "DDP");
}

TEST_F(TgiRule, ARatioOfThoseWhoRunInterrupts) {
  start(0.3F, 1000);
  add(7);
  EXPECT_EQ(steps(2), "P7D");
  add();  // of 2.1, rounded down
  EXPECT_EQ(steps(3), "DDD");
  add();
  EXPECT_EQ(steps(3), "P2DD");
}

TEST_F(TgiRule, BesideFewNobodyWaits) {
  start(0.3F, 1000);
  add(3);
  EXPECT_EQ(steps(2), "P3D");
  add();
  EXPECT_EQ(steps(2), "PD");
}

TEST_F(TgiRule, WhoIsPutBackKeepsItsPlace) {
  options_.batch_size_max = 8;
  start(0.5F, 5);
  add(6);
  EXPECT_EQ(steps(2), "P6D");
  add(3);  // three are asked for, two places are free
  EXPECT_EQ(steps(4), "DDDP2");
  const auto plans = driver_->runner->plans();
  EXPECT_EQ(plans.back().new_sequences.at(0).prompt.at(0), 7);
  EXPECT_EQ(plans.back().new_sequences.at(1).prompt.at(0), 8);
}

TEST_F(TgiRule, APromptStepHasItsWholeBudgetBesideThoseWhoDecode) {
  options_.prefill_tokens_max = 8;
  start(0, 1000);
  add(6);
  EXPECT_EQ(steps(5), "P2P2DP2D");
}

TEST_F(TgiRule, AStepOfBothCountsAsOneThatDecodes) {
  start(kNever, 3, {.selects_rows = true, .grows_blocks = true});
  add();
  EXPECT_EQ(steps(1), "P");
  add();
  EXPECT_EQ(steps(3), "DDP+");
  add();
  EXPECT_EQ(steps(2), "DP+");
}

TEST_F(TgiRule, ARunnerThatPlansChunksHasNoSuchRule) {
  for (const bool selects : {true, false}) {
    start(kNever, 1000, {.plans_chunks = true, .selects_rows = selects, .grows_blocks = true});
    add();
    EXPECT_EQ(steps(2), "PD");
    add();
    EXPECT_EQ(steps(1), selects ? "P+" : "P");
  }
}

}  // namespace
}  // namespace coxswain::batch
