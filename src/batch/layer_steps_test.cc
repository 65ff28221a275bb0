// Steps of layers around the loss of a runner. What they compute is tested with real models (runner/handover_test.cc).

#include "batch/layer_steps.h"

#include <optional>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunner;
using testing::FakeRunnerOptions;

// A plan without rows, which asks what has arrived.
void ask(CoreDriver& d, std::optional<Status>& answer) {
  LayerStep step;
  step.done = [&answer](const Status& status) {
    EXPECT_FALSE(answer) << "answered twice";
    answer = status;
  };
  d.core->layer_steps().push(std::move(step));
}

void lose_runner(CoreDriver& d) {
  std::optional<Status> lost;
  d.runner->step_failure = [](std::uint64_t) { return Status(Code::kUnavailable, "told to fail"); };
  ask(d, lost);
  d.turn();
  ASSERT_TRUE(lost);
  ASSERT_EQ(lost->code(), Code::kUnavailable);
  ASSERT_FALSE(d.core->runner_up());
}

TEST(LayerSteps, WhileThereIsNoRunnerNothingWaitsForOne) {
  CoreDriver d;
  lose_runner(d);
  std::optional<Status> answer;
  ask(d, answer);
  ASSERT_TRUE(answer) << "it waits for another runner";
  EXPECT_EQ(answer->code(), Code::kUnavailable);
}

TEST(LayerSteps, AnotherRunnerTakesThemAgain) {
  CoreDriver d;
  lose_runner(d);
  FakeRunnerOptions fake;
  fake.epoch = 2;
  d.core->replace_runner(std::make_shared<FakeRunner>(fake));
  std::optional<Status> answer;
  ask(d, answer);
  EXPECT_FALSE(answer);
  EXPECT_TRUE(d.turn());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->ok()) << answer->message();
}

// As a hand-over has it whose hidden states came when the runner was gone: it is told in a post, and gives up.
TEST(LayerSteps, ARunOfLayersEndsWithTheRunner) {
  CoreDriver d;
  lose_runner(d);
  std::optional<Status> answer;
  run_layers(*d.core,
             {.prompt = {.hold = 1, .n_blocks = 1},
              .layers = {.begin = 1, .end = 2},
              .done = [&](EngineCore&, const Result<std::uint64_t>& hidden) {
                EXPECT_FALSE(answer) << "answered twice";
                answer = hidden.status();
              }});
  d.turn();
  ASSERT_TRUE(answer) << "it waits for another runner";
  EXPECT_EQ(answer->code(), Code::kUnavailable);
}

}  // namespace
}  // namespace coxswain::batch
