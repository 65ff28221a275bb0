// Random operations against a naive model: requests that come, are cancelled, whose clients stop and begin to read.
// The plan of each step must be, row by row, that of testing/naive_scheduler.h, under each policy that looks at the
// present alone, with limits, chunks and priorities drawn at random.
//
// COXSWAIN_SCHEDULER_OPERATIONS=N does N of them.

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"
#include "batch/testing/naive_scheduler.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunnerOptions;
using testing::give_adapter;
using testing::NaiveRow;
using testing::NaiveScheduler;
using testing::Recorder;
using testing::RequestMaker;
using namespace std::chrono_literals;

constexpr int kOperationsOfASeed = 1'000;

int n_operations() {
  const char* given = std::getenv("COXSWAIN_SCHEDULER_OPERATIONS");
  return given == nullptr ? 100'000 : std::atoi(given);
}

// What the runs of all seeds met.
struct Met {
  std::uint64_t n_steps = 0;
  std::uint64_t n_rows = 0;
  std::uint64_t n_pauses = 0;
  std::uint64_t n_finished = 0;
};

class ModelRun {
 public:
  ModelRun(std::uint64_t seed, Met& met)
      : make_(seed),
        met_(met),
        fake_(draw_fake()),
        options_(draw_options()),
        driver_(fake_, options_),
        naive_(options_, fake_.block_tokens, fake_.n_blocks[0] - 1, fake_.about.adapter_pages) {
    driver_.runner->keep_plans();
  }

  void run() {
    for (int i = 0; i < kOperationsOfASeed && !::testing::Test::HasFailure(); ++i) act();
    for (auto& [id, sink] : sinks_) sink->set_stalled(false);
    for (int i = 0; i < 20'000 && !naive_.empty() && !::testing::Test::HasFailure(); ++i) step();
    EXPECT_TRUE(naive_.empty());
    EXPECT_EQ(driver_.core->n_sequences(), 0U);
    EXPECT_EQ(driver_.core->stats().pauses, naive_.n_pauses());
    EXPECT_EQ(driver_.core->stats().failed, 0U);
    met_.n_pauses += naive_.n_pauses();
    met_.n_finished += driver_.core->stats().finished;
  }

 private:
  bool one_in(std::uint64_t n) { return make_.pick(n) == 0; }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(make_.pick(high - low + 1));
  }

  FakeRunnerOptions draw_fake() {
    FakeRunnerOptions o;
    o.capabilities.look_ahead = false;
    o.block_tokens = between(1, 5);
    o.n_blocks = {1 + base::ceil_div(between(70, 120), o.block_tokens)};
    o.about.adapter_pages = between(10, 16);
    return o;
  }

  EngineOptions draw_options() {
    constexpr std::array kPolicies{CapacityPolicy::kMaxUtilization,
                                   CapacityPolicy::kMaxUtilization,
                                   CapacityPolicy::kGuaranteedNoEvict,
                                   CapacityPolicy::kStaticBatch};
    EngineOptions o;
    o.policy = kPolicies[make_.pick(kPolicies.size())];
    o.prefix_caching = false;
    o.prefill_tokens_max = between(4, 40);
    o.prefill_tokens_min = between(0, 10);
    if (one_in(2)) o.batch_size_max = between(1, 6);
    if (one_in(2)) o.overtakes_max = between(0, 6);
    if (one_in(2)) o.chunking = ChunkingPolicy::kEqualProgress;
    if (one_in(3)) o.chunk_tokens_unit = between(1, 12);
    if (one_in(3)) o.chunk_tokens_max = between(1, 12);
    o.prompts_first = one_in(4);
    o.stall_timeout = 1h;
    o.sequence_idle_max = 2h;
    return o;
  }

  void act() {
    const std::uint64_t what = make_.pick(10);
    if (what < 2) {
      submit();
    } else if (what == 2 && !sinks_.empty()) {
      const std::uint64_t id = 1 + make_.pick(sinks_.size());
      if (one_in(3)) {
        driver_.core->cancel(RequestId{id});
        naive_.erase(id);
      } else {
        sinks_.at(id)->set_stalled(one_in(2));
      }
    } else {
      step();
    }
  }

  // Ids, as sequences, count from 1.
  void submit() {
    GenerationRequest r = make_.make(40, 30);
    r.prompt_logprobs = false;
    r.stopping.ignore_eos = true;
    give_adapter(r, between(0, 3));
    const auto sink = driver_.add(r);
    const auto id = static_cast<std::uint64_t>(r.id);
    if (sink == nullptr) return ADD_FAILURE() << driver_.status.message();
    naive_.add(r);
    sinks_[id] = sink;
  }

  // As EngineCore::advance() asks: of running requests each time, of paused ones every 10 ms.
  void ask_clients() {
    const TimePoint now = driver_.now + 1ms;
    const bool asks_paused = now >= next_look_at_paused_;
    if (asks_paused) next_look_at_paused_ = now + EngineCore::kStallPoll;
    for (const auto& [id, sink] : sinks_) {
      if (naive_.runs(id) || (asks_paused && naive_.is_paused(id)))
        naive_.set_stalled(id, sink->stalled());
    }
  }

  void step() {
    ask_clients();
    const std::vector<NaiveRow> expected = naive_.step();
    driver_.turn();
    std::vector<NaiveRow> rows;
    for (const StepPlan& plan : driver_.runner->take_plans()) {
      for (const Row& row : plan.rows) {
        rows.push_back({.id = static_cast<std::uint64_t>(row.sequence),
                        .first = row.first_position,
                        .n_tokens = row.n_tokens});
      }
    }
    ++met_.n_steps;
    met_.n_rows += rows.size();
    EXPECT_EQ(rows, expected) << "step " << met_.n_steps;
  }

  RequestMaker make_;
  Met& met_;
  const FakeRunnerOptions fake_;
  const EngineOptions options_;
  CoreDriver driver_;
  NaiveScheduler naive_;
  TimePoint next_look_at_paused_{};
  std::map<std::uint64_t, std::shared_ptr<Recorder>> sinks_;  // of all that were submitted
};

TEST(SchedulerModel, EveryPlanIsTheNaiveOne) {
  Met met;
  const int n_seeds = n_operations() / kOperationsOfASeed;
  for (int seed = 1; seed <= n_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ModelRun(static_cast<std::uint64_t>(seed), met).run();
    if (::testing::Test::HasFailure()) return;
  }
  const auto n = static_cast<std::uint64_t>(n_seeds);
  EXPECT_GT(met.n_steps, 500 * n);
  EXPECT_GT(met.n_rows, 1000 * n);
  EXPECT_GT(met.n_pauses, 10 * n);
  EXPECT_GT(met.n_finished, 50 * n);
}

}  // namespace
}  // namespace coxswain::batch
