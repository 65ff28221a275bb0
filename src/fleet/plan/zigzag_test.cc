#include "fleet/plan/zigzag.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

ZigZagTimes uniform(std::size_t n_layers, double load_s, std::size_t n_tasks) {
  return {.load_s = std::vector<double>(n_layers, load_s),
          .compute_s = std::vector<double>(n_layers, 1.0),
          .weights = std::vector<double>(n_tasks, 1.0)};
}

// The least mean there can be, for layers of one second and whole seconds of loading: all schedules in which the target
// runs whole layers and the donor all that is left of a task.
class Optimum {
 public:
  Optimum(const ZigZagTimes& times) : n_layers_(static_cast<std::uint8_t>(times.load_s.size())) {
    double at = 0;
    for (const double load_s : times.load_s)
      arrives_.push_back(static_cast<std::uint32_t>(at += load_s));
    start_.done.resize(times.weights.size());
  }
  double mean() { return least(start_) / static_cast<double>(start_.done.size()); }

 private:
  struct State {
    std::uint32_t now = 0;
    std::uint32_t donor_free = 0;
    std::vector<std::uint8_t> done = {};  // layers; n_layers_: finished or with the donor
    auto operator<=>(const State&) const = default;
  };

  // The sum of all times of finishing that are not decided yet.
  double least(State state) {
    std::sort(state.done.begin(), state.done.end());  // the tasks are alike
    const auto open = [&](std::uint8_t done) { return done < n_layers_; };
    if (std::none_of(state.done.begin(), state.done.end(), open)) return 0.0;
    if (const auto at = known_.find(state); at != known_.end()) return at->second;
    double best = after_donor(state);
    for (std::size_t i = 0; state.donor_free <= state.now && i < state.done.size(); ++i) {
      if (!open(state.done[i])) continue;
      State next = state;
      next.donor_free = state.now + n_layers_ - state.done[i];
      next.done[i] = n_layers_;
      best = std::min(best, next.donor_free + after_donor(next));
    }
    return known_[state] = best;
  }

  // The donor has chosen for this second; so does the target.
  double after_donor(const State& state) {
    const auto ready = std::count_if(
        arrives_.begin(), arrives_.end(), [&](std::uint32_t at) { return at <= state.now; });
    State next = state;
    ++next.now;
    // The donor alone would be done by then.
    const bool too_late = state.now > n_layers_ * state.done.size();
    double best = too_late ? std::numeric_limits<double>::infinity() : least(next);
    for (std::size_t i = 0; i < state.done.size(); ++i) {
      if (state.done[i] >= ready || state.done[i] == n_layers_) continue;
      const bool last = ++next.done[i] == n_layers_;
      best = std::min(best, (last ? next.now : 0) + least(next));
      --next.done[i];
    }
    return best;
  }

  const std::uint8_t n_layers_;
  std::vector<std::uint32_t> arrives_;
  State start_;
  std::map<State, double> known_;
};

TEST(ZigZag, ChoosesTheEarliest) {
  std::vector<ZigZagTask> tasks{{.layers_done = 1, .gone = true}, {2}, {1}, {0}};
  EXPECT_EQ(target_next(tasks, 2), 2U);
  EXPECT_EQ(target_next(tasks, 3), 1U);
  EXPECT_EQ(target_next(tasks, 0), std::nullopt);
  EXPECT_EQ(donor_next(tasks, false, 1U), 1U);  // it waits for the end of the layer
  EXPECT_EQ(donor_next(tasks, true, 1U), 2U);
  EXPECT_EQ(donor_next({tasks.data(), 1}, true, std::nullopt), std::nullopt);
}

// Figures of BlitzScale's example (7 layers, six times as long to load as to run, 7 tasks), with the first layer there.
TEST(ZigZag, RunsTheExampleOfThePaper) {
  ZigZagTimes times = uniform(7, 6.0, 7);
  times.load_s[0] = 0.0;
  EXPECT_NEAR(zigzag(times).mean_s, 19.6, 0.05);
  EXPECT_DOUBLE_EQ(without_target(times).mean_s, 28.0);
  const ZigZagRun run = zigzag(uniform(7, 6.0, 7));
  for (std::size_t i = 1; i < run.shares.size(); ++i) {
    EXPECT_GE(run.shares[i].target_layers, run.shares[i - 1].target_layers);
  }
}

TEST(ZigZag, DoublesWhatIsDoneByTheEndOfTheLoad) {
  for (const double load_s : {3.0, 6.0, 12.0}) {
    const ZigZagTimes times = uniform(32, load_s, 60);
    const double ratio = static_cast<double>(zigzag(times).n_by_end_of_load) /
                         static_cast<double>(stop_the_world(times).n_by_end_of_load);
    EXPECT_GE(ratio, 1.6) << load_s;
    EXPECT_LE(ratio, 2.0) << load_s;
  }
}

TEST(ZigZag, IsAsGoodAsTheBestOfAllSchedulesOnSmallBacklogs) {
  double worst = 1.0;
  for (std::size_t n_layers = 1; n_layers <= 5; ++n_layers) {
    for (std::size_t n_tasks = 1; n_tasks <= 4; ++n_tasks) {
      for (const double load_s : {0.0, 1.0, 2.0, 3.0, 6.0, 9.0}) {
        const ZigZagTimes times = uniform(n_layers, load_s, n_tasks);
        const double best = Optimum(times).mean();
        const double ours = zigzag(times).mean_s;
        ASSERT_GE(ours, best - 1e-9);
        ASSERT_LE(best, stop_the_world(times).mean_s + 1e-9);
        worst = std::max(worst, ours / best);
      }
    }
  }
  EXPECT_LE(worst, 1.001);
}

// The order of arrival is kept, and the donor may wait for the end of one layer: rarely that costs a little.
TEST(ZigZag, IsHardlyEverWorseThanWaitingForTheWholeLoadAndThenNotLive) {
  std::mt19937 draw(1);
  int n_worse = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool equal = i % 2 == 0;
    ZigZagTimes times;
    const std::size_t n_layers = 1 + draw() % 8;
    for (std::size_t l = 0; l < n_layers; ++l) {
      times.load_s.push_back(static_cast<double>(draw() % 100) / 10);
    }
    times.compute_s.assign(n_layers, 1.0);
    times.weights.assign(1 + draw() % 8, 1.0);
    if (!equal) {
      for (double& weight : times.weights) weight += static_cast<double>(draw() % 30) / 10;
    }
    const double live = zigzag(times).mean_s;
    const double waiting = stop_the_world(times).mean_s;
    ASSERT_LE(live, waiting * (equal ? 1.02 : 1.25)) << "case " << i;
    ASSERT_EQ(live_pays(times), live <= waiting);
    n_worse += live > waiting * (1.0 + 1e-9) ? 1 : 0;
  }
  EXPECT_LE(n_worse, 100);
}

}  // namespace
}  // namespace coxswain::fleet
