#include "runner/step_report.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "model/random_checkpoint.h"
#include "model/test_models.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"

namespace coxswain::runner {
namespace {

using ::testing::HasSubstr;

TEST(StepReport, SumsWhatHasTheSameName) {
  StepReport sum;
  sum.add({.steps = 2,
           .positions = 5,
           .total_s = 0.010,
           .sample_s = 0.001,
           .operations = {{"attention", 4, 0.002}}});
  sum.add({.steps = 2,
           .positions = 3,
           .total_s = 0.010,
           .sample_s = 0.001,
           .operations = {{"linear 8>4", 1, 0.004, 4e6, 8e6}, {"attention", 4, 0.002}}});
  EXPECT_EQ(sum.steps, 4U);
  ASSERT_EQ(sum.operations.size(), 2U);
  EXPECT_EQ(sum.operations[0].calls, 8U);
  EXPECT_NEAR(sum.rest_s(), 0.010, 1e-12);
  EXPECT_EQ(sum.text(),
            "Profile of 4 steps, 5.000 ms and 2.0 positions each: rest 50.0 % (2.500 ms); "
            "attention 20.0 % (1.000 ms); "
            "linear 8>4 20.0 % (1.000 ms, 1.0 GB/s, 0.002 T multiply-adds/s); sampling 10.0 % "
            "(0.500 ms)");
}

class ProfiledRunner : public ::testing::Test {
 protected:
  void SetUp() override {
    model::RandomCheckpointOptions checkpoint;
    checkpoint.dir = dir_.path();
    ASSERT_TRUE(
        write_random_checkpoint(model::small_config(R"({"model_type":"llama"})"), checkpoint).ok());
    options_.model_dir = dir_.path();
    options_.without_text = true;
    options_.kv_blocks = 40;
    options_.n_threads = 1;
    options_.memory_budget_bytes = std::uint64_t{1} << 30;
    options_.max_batch_prefill_tokens = 64;
    options_.max_batch_size = 8;
    spec_.id = SequenceId{1};
    spec_.prompt = {1, 2, 3, 4, 5};
    spec_.stopping = {.max_new_tokens = 4, .ignore_eos = true};
  }

  std::vector<DriveOutcome> run(const RunnerOptions& options) {
    auto runner = LocalRunner::create(options);
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    return drive(**runner, {spec_}, {});
  }

  base::TempFolder dir_;
  RunnerOptions options_;
  SequenceSpec spec_;
};

TEST_F(ProfiledRunner, TellsOfStepsBehindTheStartAndChangesNoBits) {
  const auto plain = run(options_);
  std::vector<StepReport> reports;
  options_.profile_steps = 1;
  options_.on_profile = [&](const StepReport& report) { reports.push_back(report); };
  expect_same_outcomes(plain, run(options_), "with a profile");
  std::uint64_t positions = 0;
  for (const StepReport& report : reports) {
    EXPECT_EQ(report.steps, 1U);
    EXPECT_GT(report.total_s, 0.0);
    positions += report.positions;
    for (const char* name : {"attention", "rms_norm", "kv_write", "linear "})
      EXPECT_THAT(report.text(), HasSubstr(name));
  }
  EXPECT_EQ(positions, 8U);  // a prompt of five, and three tokens
}

TEST_F(ProfiledRunner, SumsSteps) {
  std::vector<std::uint64_t> steps;
  options_.profile_steps = 2;
  options_.on_profile = [&](const StepReport& report) { steps.push_back(report.steps); };
  run(options_);
  EXPECT_THAT(steps, ::testing::Each(2U));
  EXPECT_GE(steps.size(), 2U);
}

}  // namespace
}  // namespace coxswain::runner
