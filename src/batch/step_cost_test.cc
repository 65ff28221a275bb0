// What a step costs, learned from steps, and the prompt tokens of a step under a latency target.

#include "batch/step_cost.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/testing/timed_runner.h"

namespace coxswain::batch {
namespace {

using testing::TimedRunner;
using namespace std::chrono_literals;

// Seconds of a step: 20 ms, 1 ms a decode, 1.2 ms a prompt token.
double plain_cost(const StepShape& s) {
  return 0.020 + 0.001 * s.n_decodes + 0.0012 * s.n_prompt_tokens;
}

// A step that was planned with all that is known.
void observe(StepCost& cost, const StepShape& step, double seconds) {
  cost.observe(step, seconds, cost.expect(step));
}

StepCost taught(const std::function<double(const StepShape&)>& cost, int n_steps = 600) {
  StepCost out;
  for (int i = 0; i < n_steps; ++i) {
    const StepShape step{.n_decodes = static_cast<std::uint32_t>(1 + i % 16),
                         .n_prompt_tokens = static_cast<std::uint32_t>(i % 5) * 32};
    observe(out, step, cost(step));
  }
  return out;
}

TEST(StepCost, FindsTheCoefficients) {
  const StepCost cost = taught(plain_cost);
  for (const StepShape& step :
       {StepShape{.n_decodes = 16}, StepShape{.n_decodes = 3, .n_prompt_tokens = 100}})
    EXPECT_NEAR(cost.predict(step), plain_cost(step), 0.01 * plain_cost(step));
  EXPECT_NEAR(cost.margin(), 1.02, 0.01);
}

TEST(StepCost, NoPartIsNegative) {
  StepCost cost;  // more decodes, less time: something else was the reason
  for (std::uint32_t i = 0; i < 50; ++i) observe(cost, {.n_decodes = 1 + i % 8}, 0.1 / (1 + i % 8));
  EXPECT_GE(cost.predict({.n_decodes = 1000}), cost.predict({.n_decodes = 1}));
}

TEST(StepCost, FollowsAMachineThatBecomesSlower) {
  StepCost cost = taught(plain_cost);
  for (int i = 0; i < 600; ++i) {
    const StepShape step{.n_decodes = static_cast<std::uint32_t>(1 + i % 16),
                         .n_prompt_tokens = static_cast<std::uint32_t>(i % 5) * 32};
    observe(cost, step, 2 * plain_cost(step));
  }
  const StepShape step{.n_decodes = 16, .n_prompt_tokens = 64};
  EXPECT_NEAR(cost.predict(step), 2 * plain_cost(step), 0.1 * plain_cost(step));
}

TEST(StepCost, TheTokensAreThoseThatFit) {
  const StepCost cost = taught(plain_cost);
  const StepShape decodes{.n_decodes = 16};
  // 20 + 16 + 1.2 n <= 120 / 1.02: n <= 68, in quarters of a unit.
  EXPECT_EQ(cost.prompt_tokens_within(0.120, decodes, 0, 16, 4096), 68U);
  EXPECT_EQ(cost.prompt_tokens_within(0.120, decodes, 0, 16, 48), 48U);
  EXPECT_EQ(cost.prompt_tokens_within(0.058, decodes, 0, 16, 4096), 16U);
  EXPECT_EQ(cost.prompt_tokens_within(0.053, decodes, 0, 16, 4096), 12U);
  EXPECT_EQ(cost.prompt_tokens_within(0.048, decodes, 0, 16, 4096), 8U);
  EXPECT_EQ(cost.prompt_tokens_within(0.030, decodes, 0, 16, 4096), 4U) << "the floor";
  EXPECT_EQ(cost.prompt_tokens_within(0.030, decodes, 0, 2, 4096), 1U);
  EXPECT_EQ(cost.prompt_tokens_within(0.030, decodes, 0, 1, 4096), 1U);
  EXPECT_EQ(cost.prompt_tokens_within(9, decodes, 0, 16, 4096), 256U) << "twice what was seen";
}

TEST(StepCost, ContextCounts) {
  StepCost cost;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const StepShape step{.n_decodes = 1 + i % 4,
                         .n_prompt_tokens = 128,
                         .decode_context = 1000 * (i % 3),
                         .prompt_context = 128'000 * (i % 7)};
    observe(cost,
            step,
            0.05 + 1e-6 * static_cast<double>(step.decode_context) +
                1e-7 * static_cast<double>(step.prompt_context));
  }
  const std::uint32_t early = cost.prompt_tokens_within(0.080, {.n_decodes = 1}, 0, 16, 4096);
  const std::uint32_t late = cost.prompt_tokens_within(0.080, {.n_decodes = 1}, 6000, 16, 4096);
  EXPECT_GT(early, late);
}

TEST(StepCost, BeforeItKnowsOneUnit) {
  StepCost cost;
  EXPECT_EQ(cost.prompt_tokens_within(1, {.n_decodes = 1}, 0, 16, 4096), 16U);
  for (std::uint32_t i = 0; i < StepCost::kStepsMin; ++i) observe(cost, {.n_decodes = 1}, 0.02);
  EXPECT_EQ(cost.prompt_tokens_within(1, {.n_decodes = 1}, 0, 16, 4096), 16U)
      << "none had a prompt";
  observe(cost, {.n_decodes = 1, .n_prompt_tokens = 16}, 0.03);
  EXPECT_EQ(cost.prompt_tokens_within(1, {.n_decodes = 1}, 0, 16, 4096), 32U);
}

TEST(StepCost, NoiseBecomesMargin) {
  StepCost cost;
  const auto noisy = [](std::uint32_t i, const StepShape& s) {
    return plain_cost(s) * (i % 10 == 0 ? 1.5 : 1.0);
  };
  for (std::uint32_t i = 0; i < 500; ++i) {
    const StepShape step{.n_decodes = 16, .n_prompt_tokens = 16 * (1 + i % 4)};
    observe(cost, step, noisy(i, step));
  }
  EXPECT_GT(cost.margin(), 1.3);
}

// A step in eighty takes twice as long, and all of them a little more or less than another of their shape.
TEST(StepCost, OneStepInAHundredAtMostIsLate) {
  StepCost cost;
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same steps each time
  const StepShape decodes{.n_decodes = 16};
  constexpr int kSteps = 4000;
  int n_late = 0;
  std::uint64_t n_prompt_tokens = 0;
  for (int i = 0; i < kSteps; ++i) {
    StepShape step = decodes;
    step.n_prompt_tokens = cost.prompt_tokens_within(0.120, decodes, 0, 16, 4096);
    n_prompt_tokens += step.n_prompt_tokens;
    const double noise = 0.95 + 0.1 * static_cast<double>(random() % 1000) / 1000;
    const double took = plain_cost(step) * noise * (random() % 80 == 0 ? 2 : 1);
    observe(cost, step, took);
    n_late += took > 0.120 ? 1 : 0;
  }
  EXPECT_LE(n_late, kSteps / 100);
  EXPECT_GT(n_prompt_tokens, 16U * kSteps) << "prompts go on";
}

// Of 500 steps ten take 1.6 times as long, one after the other.
TEST(StepCost, OnlyTheFirstStepOfABurstIsLate) {
  StepCost cost;
  const StepShape decodes{.n_decodes = 16};
  int n_late = 0;
  for (int i = 0; i < 4000; ++i) {
    StepShape step = decodes;
    step.n_prompt_tokens = cost.prompt_tokens_within(0.120, decodes, 0, 16, 4096);
    const double took = plain_cost(step) * (i % 500 >= 490 ? 1.6 : 1);
    observe(cost, step, took);
    n_late += took > 0.120 ? 1 : 0;
  }
  EXPECT_LE(n_late, 3 * 8);
  EXPECT_GT(cost.prompt_tokens_within(0.120, decodes, 0, 16, 4096), 8U);
  for (int i = 0; i < 50; ++i) observe(cost, decodes, plain_cost(decodes));
  EXPECT_LT(cost.margin(), 1.4);
  EXPECT_GT(cost.prompt_tokens_within(0.120, decodes, 0, 16, 4096), 36U) << "it is over";
}

TEST(StepCost, TheFirstStepsHaveAMargin) {
  StepCost cost = taught(plain_cost, 20);
  EXPECT_EQ(cost.margin(), 1.25)
      << "what twenty steps took says little of the slowest of a hundred";
}

TEST(StepCost, APauseOfTheProcessTeachesLittle) {
  StepCost cost = taught(plain_cost);
  observe(cost, {.n_decodes = 8}, 3600);
  EXPECT_LT(cost.predict({.n_decodes = 8}), 2 * plain_cost({.n_decodes = 8}));
}

// The engine over simulated time: 15 sequences decode while prompts of 512 tokens come one after the other.
class LatencyTarget : public ::testing::Test {
 protected:
  class Gaps final : public TokenSink {
   public:
    Gaps(const TimePoint& now, std::vector<double>& gaps) : now_(now), gaps_(gaps) {}
    void on_event(TokenEvent event) override {
      if (event.tokens.empty()) return;
      if (last_ != TimePoint{})
        gaps_.push_back(std::chrono::duration<double, std::milli>(now_ - last_).count());
      last_ = now_;
    }

   private:
    const TimePoint& now_;
    std::vector<double>& gaps_;
    TimePoint last_{};
  };

  // Steps with prompts and decodes, and those of them whose floor is above the target.
  struct Floors final : EngineObserver {
    void on_step_finished(const StepFinished& step) override {
      if (step.n_prompt_tokens == 0 || step.n_rows == 1) return;
      ++n_steps;
      if (step.floor.count() > 0) ++n_floors;
    }
    int n_steps = 0;
    int n_floors = 0;
  };

  static constexpr int kSteps = 1000;
  // Milliseconds between tokens, sorted; half of the run is there to learn.
  std::vector<double> run(std::chrono::milliseconds target) {
    auto runner = std::make_shared<TimedRunner>(
        10'000,
        now_,
        [](const StepShape& s) {
          return std::chrono::duration_cast<Clock::duration>(
              std::chrono::duration<double>(plain_cost(s)));
        },
        [](const SequenceSpec& spec) { return spec.stopping.max_new_tokens; });
    floors_ = {};
    EngineCore core(runner,
                    {.prefill_tokens_max = 256, .target_itl = target, .check_invariants = true},
                    {1, 2},
                    {.observer = &floors_});
    std::vector<double> gaps;
    std::uint64_t id = 0;
    const auto add = [&](std::uint32_t n_prompt, std::uint32_t n_new) {
      GenerationRequest r;
      r.id = RequestId{++id};
      for (std::uint32_t i = 0; i < n_prompt; ++i)
        r.prompt.push_back(static_cast<TokenId>(id * 1000 + i));
      r.stopping.max_new_tokens = n_new;
      core.add(std::move(r), std::make_shared<Gaps>(now_, gaps), now_);
    };
    for (int i = 0; i < 15; ++i) add(16, 2000);
    for (int step = 0; step < kSteps; ++step) {
      if (core.n_sequences() < 16) add(512, 1);
      if (step == kSteps / 2) gaps.clear();
      core.advance(now_);
      while (core.submit_next(now_)) {
      }
      core.apply_oldest(core.wait_oldest(), now_);
    }
    n_prompts_ = id;
    std::ranges::sort(gaps);
    return gaps;
  }

  TimePoint now_{1h};
  std::uint64_t n_prompts_ = 0;
  Floors floors_;
};

TEST_F(LatencyTarget, KeepsTheGapsBelowIt) {
  const auto without = run(0ms);
  EXPECT_GT(without.back(), 250.0);
  const auto with = run(120ms);
  EXPECT_LE(with[with.size() * 99 / 100], 120.0);
  EXPECT_GT(with[with.size() / 2], 114.0) << "and the time is used, by a part of a block too";
  EXPECT_EQ(floors_.n_floors, 0);
}

TEST_F(LatencyTarget, PromptsMoveOnUnderATargetThatCannotBeKept) {
  const auto gaps = run(1ms);
  EXPECT_GT(n_prompts_, 15U + kSteps / 128 - 2) << "a quarter of 16 tokens in each step";
  EXPECT_LT(gaps[gaps.size() * 99 / 100], 20 + 16 + 1.2 * 4 + 5);
  EXPECT_GE(floors_.n_floors, floors_.n_steps - 20) << "all but those before the first prediction";
  EXPECT_GT(floors_.n_floors, 500);
}

// Sixteen clients, each with one prompt of 128 tokens after the other and 64 tokens of answer, over steps as a 1B model
// in int8 takes them on two cores with AMX (bench/step_costs.h).
class SixteenClients : public ::testing::Test {
 protected:
  struct Served {
    double tokens_per_s = 0;
    double gap_p99_ms = 0;
  };
  class Client final : public TokenSink {
   public:
    explicit Client(SixteenClients& all) : all_(all) {}
    void on_event(TokenEvent event) override {
      if (!event.tokens.empty()) {
        const std::chrono::duration<double, std::milli> gap = all_.now_ - last_;
        if (last_ != TimePoint{}) all_.gaps_.push_back(gap.count());
        last_ = all_.now_;
      }
      if (event.final) ++all_.n_free_;
    }

   private:
    SixteenClients& all_;
    TimePoint last_{};
  };

  Served run(std::chrono::milliseconds target) {
    auto runner = std::make_shared<TimedRunner>(
        10'000,
        now_,
        [](const StepShape& s) {
          const double seconds = 44.2e-3 + 0.467e-3 * s.n_decodes + 0.655e-3 * s.n_prompt_tokens +
                                 1.4e-6 * static_cast<double>(s.decode_context) +
                                 0.638e-6 * static_cast<double>(s.prompt_context);
          return std::chrono::duration_cast<Clock::duration>(
              std::chrono::duration<double>(seconds));
        },
        [](const SequenceSpec& spec) { return spec.stopping.max_new_tokens; });
    EngineCore core(runner, {.prefill_tokens_max = 256, .target_itl = target}, {1, 2}, {});
    gaps_.clear();
    n_free_ = 16;
    const TimePoint begin = now_;
    for (std::uint64_t id = 0; core.stats().finished < 320;) {
      for (; n_free_ > 0; --n_free_) {
        GenerationRequest r;
        r.id = RequestId{++id};
        r.prompt.assign(128, static_cast<TokenId>(id));
        r.stopping.max_new_tokens = 64;
        core.add(std::move(r), std::make_shared<Client>(*this), now_);
      }
      core.advance(now_);
      while (core.submit_next(now_)) {
      }
      core.apply_oldest(core.wait_oldest(), now_);
    }
    std::ranges::sort(gaps_);
    const double seconds = std::chrono::duration<double>(now_ - begin).count();
    return {.tokens_per_s = static_cast<double>(core.stats().generated_tokens) / seconds,
            .gap_p99_ms = gaps_[gaps_.size() * 99 / 100]};
  }

  TimePoint now_{1h};
  std::vector<double> gaps_;
  std::uint32_t n_free_ = 0;
};

TEST_F(SixteenClients, AShortGapCostsLittleThroughput) {
  const Served without = run(0ms);
  const Served with = run(120ms);
  std::printf("no target: %.1f tokens/s, p99 of the gaps %.1f ms; 120 ms: %.1f tokens/s, %.1f ms\n",
              without.tokens_per_s,
              without.gap_p99_ms,
              with.tokens_per_s,
              with.gap_p99_ms);
  EXPECT_GT(without.gap_p99_ms, 200);
  EXPECT_LE(with.gap_p99_ms, 120);
  EXPECT_GE(with.tokens_per_s, 0.85 * without.tokens_per_s);
}

}  // namespace
}  // namespace coxswain::batch
