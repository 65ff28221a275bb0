#include "runner/local_runner.h"

#include <cmath>
#include <filesystem>
#include <sched.h>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/cpu_topology.h"
#include "runner/fake_model.h"
#include "runner/plan_driver.h"

namespace coxswain::runner {
namespace {

RunnerOptions small_options() {
  RunnerOptions options;
  options.model_id = "fake";
  options.block_tokens = 8;
  options.kv_blocks = 400;
  options.n_threads = 1;
  options.memory_budget_bytes = std::uint64_t{1} << 30;
  options.max_batch_prefill_tokens = 64;
  options.max_batch_size = 8;
  return options;
}

std::unique_ptr<LocalRunner> make_runner(const RunnerOptions& options,
                                         const FakeModelOptions& model = {}) {
  auto runner =
      LocalRunner::create_with(options, make_fake_model(model), make_fake_codec(), "fake-1");
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return std::move(runner).value();
}

// CPUs of those threads of this process that may run on one only.
std::multiset<int> bound_cpus() {
  std::multiset<int> cpus;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int id = std::stoi(task.path().filename());
    if (sched_getaffinity(id, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) continue;
    int cpu = 0;
    while (!CPU_ISSET(static_cast<unsigned>(cpu), &set)) ++cpu;
    cpus.insert(cpu);
  }
  return cpus;
}

TEST(LocalRunner, PinningBindsEveryThreadThatComputesToACoreOfItsOwn) {
  const std::vector<int> allowed = base::order_by_core(base::allowed_cpus()).cpus;
  if (allowed.size() < 2) GTEST_SKIP() << "needs two CPUs";
  RunnerOptions options = small_options();
  options.n_threads = 2;
  ASSERT_TRUE(bound_cpus().empty());
  {
    const auto free = make_runner(options);
    EXPECT_TRUE(bound_cpus().empty());
  }
  options.pin_threads = true;
  const auto bound = make_runner(options);
  EXPECT_EQ(bound_cpus(), (std::multiset<int>{allowed[0], allowed[1]}));
}

// Requests that share beginnings, with every kind of sampling.
std::vector<SequenceSpec> mixed_requests() {
  std::vector<SequenceSpec> specs;
  for (std::uint32_t i = 0; i < 10; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    const std::uint32_t n_prompt = 1 + i * 9;
    for (std::uint32_t p = 0; p < n_prompt; ++p)
      spec.prompt.push_back(static_cast<TokenId>(5 + (p * 7 + (p > 40 ? i : 0)) % 50));
    spec.stopping = {.max_new_tokens = 12 + i,
                     .stop_sequences = i % 2 == 0 ? std::vector<std::string>{"ab", "z"}
                                                  : std::vector<std::string>{},
                     .ignore_eos = i % 3 != 0};
    spec.rope_length = 200;
    spec.prompt_logprobs = i % 4 == 1;
    spec.sampling.n_top_tokens = i % 3;
    if (i % 2 == 1) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 100 + i;
      spec.sampling.temperature = 0.8F;
      spec.sampling.top_k = i % 3 == 0 ? 20 : 0;
      spec.sampling.top_p = 0.9F;
      spec.sampling.repetition_penalty = i == 5 ? 1.3F : 1.0F;
      spec.sampling.frequency_penalty = i == 7 ? 0.5F : 0.0F;
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(LocalRunner, InfoSaysWhatWasPlanned) {
  auto runner = make_runner(small_options());
  const RunnerInfo info = runner->info();
  EXPECT_NE(info.epoch, 0u);
  EXPECT_NE(info.epoch, make_runner(small_options())->info().epoch);
  EXPECT_EQ(info.model_id, "fake");
  EXPECT_EQ(info.kernel_set_id, "fake-1");
  EXPECT_EQ(info.block_tokens, 8u);
  ASSERT_EQ(info.kv_groups.size(), 2u);
  EXPECT_EQ(info.kv_groups[1].n_blocks, 400u);
  EXPECT_EQ(info.kv_groups[1].bytes_per_block, 2u * 8 * sizeof(float));
  EXPECT_EQ(info.max_total_tokens, 512u);
  EXPECT_TRUE(info.capabilities.look_ahead && info.capabilities.plans_chunks &&
              info.capabilities.selects_rows && info.capabilities.grows_blocks &&
              info.capabilities.takes_ids);
  EXPECT_TRUE(runner->healthy().ok());
  EXPECT_EQ(runner->memory_plan().groups[1].n_blocks, 400u);
}

TEST(LocalRunner, OutcomesDependOnTheRequestAlone) {
  const auto specs = mixed_requests();
  const auto expected = drive_each_alone(*make_runner(small_options()), specs);
  EXPECT_FALSE(expected[0].tokens.empty());
  std::uint32_t n_shared = 0;
  std::uint32_t n_pauses = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RunnerOptions options = small_options();
    options.block_tokens = 1u << (seed % 7);
    options.kv_blocks = 3000;
    options.n_threads = 1 + seed % 3;
    options.max_batch_prefill_tokens = seed % 2 == 0 ? 3 : 256;  // slices of a step
    auto runner = make_runner(options);
    const auto seen = drive(*runner,
                            specs,
                            {.seed = seed,
                             .chunk_tokens_max = seed % 4 == 0 ? 3u : 40u,
                             .batch_size_max = seed % 5 == 0 ? 2u : 100u,
                             .include_share = 0.7,
                             .pause_share = seed % 2 == 0 ? 0.05 : 0.0,
                             .share_prefixes = seed % 3 != 0,
                             .look_ahead = seed % 2 == 1});
    expect_same_outcomes(expected, seen, "seed " + std::to_string(seed));
    for (const DriveOutcome& outcome : seen) {
      n_shared += outcome.n_shared_tokens;
      n_pauses += outcome.n_pauses;
    }
  }
  EXPECT_GT(n_shared, 0u);
  EXPECT_GT(n_pauses, 0u);
}

TEST(LocalRunner, PromptLogprobsCoverEveryPosition) {
  auto runner = make_runner(small_options());
  const auto specs = mixed_requests();
  const DriveOutcome outcome = drive(*runner, {specs[5]}, {.chunk_tokens_max = 4}).front();
  ASSERT_EQ(outcome.prompt.size(), specs[5].prompt.size());
  EXPECT_TRUE(std::isnan(outcome.prompt[0].logprob));
  for (std::size_t i = 0; i < outcome.prompt.size(); ++i) {
    EXPECT_EQ(outcome.prompt[i].id, specs[5].prompt[i]);
    if (i > 0) {
      EXPECT_LT(outcome.prompt[i].logprob, 0.0F);
    }
  }
}

TEST(LocalRunner, NanFailsOneRequestOnly) {
  FakeModelOptions model;
  model.nan_after = 33;
  auto runner = make_runner(small_options(), model);
  SequenceSpec bad{.id = SequenceId{1}, .prompt = {5, 33}, .stopping = {.max_new_tokens = 4}};
  SequenceSpec good{.id = SequenceId{2}, .prompt = {5, 6}, .stopping = {.max_new_tokens = 1}};
  const auto out = drive(*runner, {bad, good}, {});
  EXPECT_EQ(out[0].status.kind(), ErrorKind::kGeneration);
  EXPECT_TRUE(out[1].status.ok());
  EXPECT_EQ(out[1].tokens.size(), 1u);
}

TEST(LocalRunner, ABatchThatTheModelRefusesFailsOnlyTheSequenceAtFault) {
  FakeModelOptions model;
  auto whole = make_runner(small_options(), model);
  model.n_positions = 20;
  auto limited = make_runner(small_options(), model);
  const SequenceSpec good{.id = SequenceId{1},
                          .prompt = {5, 6, 7},
                          .stopping = {.max_new_tokens = 9, .ignore_eos = true}};
  const SequenceSpec bad{.id = SequenceId{2},
                         .prompt = std::vector<TokenId>(18, 9),
                         .stopping = {.max_new_tokens = 9, .ignore_eos = true}};
  const auto expected = drive(*whole, {good}, {});
  const auto seen = drive(*limited, {bad, good}, {});
  EXPECT_EQ(seen[0].status.code(), Code::kInvalidArgument);
  EXPECT_EQ(seen[0].tokens.size(), 3u);
  EXPECT_TRUE(same_outcome(expected[0], seen[1]));
}

TEST(LocalRunner, AtMostTwoPlansAreInFlight) {
  auto runner = make_runner(small_options());
  const std::uint64_t epoch = runner->info().epoch;
  const auto first = runner->submit({.step = 1, .epoch = epoch});
  const auto second = runner->submit({.step = 2, .epoch = epoch});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(runner->submit({.step = 3, .epoch = epoch}).status().code(), Code::kInternal);
  EXPECT_EQ(runner->wait(*first)->step, 1u);
  EXPECT_EQ(runner->wait(*second)->step, 2u);
  EXPECT_FALSE(runner->wait(*second).ok());  // nothing is in flight
  EXPECT_EQ(runner->submit({.step = 4, .epoch = epoch + 1}).status().code(), Code::kUnavailable);
}

TEST(LocalRunner, TooLittleMemoryIsSaidBeforeItIsTaken) {
  RunnerOptions options = small_options();
  options.memory_budget_bytes = 1 << 20;
  const auto runner = LocalRunner::create_with(options, make_fake_model(), nullptr, "fake-1");
  EXPECT_EQ(runner.status().code(), Code::kResourceExhausted);
}

TEST(LocalRunner, AModelThatComputesNanDoesNotStart) {
  FakeModelOptions model;
  model.nan_after = 0;  // the token of the warm-up
  const auto runner =
      LocalRunner::create_with(small_options(), make_fake_model(model), nullptr, "fake-1");
  EXPECT_EQ(runner.status().kind(), ErrorKind::kGeneration);
}

}  // namespace
}  // namespace coxswain::runner
