#include "rpc/watched_runner.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "rpc/testing/fake_codec.h"

namespace coxswain::rpc {
namespace {

using namespace std::chrono_literals;
using batch::testing::FakeRunner;

class WatchedRunnerTest : public ::testing::Test {
 protected:
  // Submits a step that does not end, and waits for it on another thread.
  std::thread begin_step(StepRunner& runner) {
    inner_.hold();
    StepPlan plan;
    plan.step = 1;
    plan.epoch = 77;
    const auto ticket = runner.submit(plan);
    EXPECT_TRUE(ticket.ok());
    return std::thread([&runner, ticket] { EXPECT_TRUE(runner.wait(*ticket).ok()); });
  }

  TimePoint now() {
    const TimePoint time{Clock::duration(time_.load())};
    ++n_looks_;
    n_looks_.notify_all();
    return time;
  }
  void set_time(Clock::duration time) { time_ = time.count(); }

  FakeRunner inner_{testing::fake_shard_options()};
  std::atomic<Clock::rep> time_{Clock::duration(1h).count()};
  std::atomic<int> n_looks_{0};
};

TEST_F(WatchedRunnerTest, IsIllWhileAStepIsBeyondTheLimit) {
  WatchedRunner runner(inner_, 10s, [&] { return now(); });
  EXPECT_TRUE(runner.healthy().ok());
  std::thread waiting = begin_step(runner);
  n_looks_.wait(0);  // the wait has taken the time of its begin
  set_time(1h + 10s);
  EXPECT_TRUE(runner.healthy().ok());
  set_time(1h + 10'001ms);
  while (runner.healthy().ok()) std::this_thread::yield();  // that time is published next
  const Status status = runner.healthy();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "a step has run for 10001 ms; the limit is 10000 ms");
  inner_.release();
  waiting.join();
  EXPECT_TRUE(runner.healthy().ok());
  EXPECT_EQ(inner_.n_steps(), 1U);
}

TEST_F(WatchedRunnerTest, ZeroIsNoLimit) {
  WatchedRunner runner(inner_, 0ms, [&] { return now(); });
  std::thread waiting = begin_step(runner);
  n_looks_.wait(0);
  set_time(1000h);
  EXPECT_TRUE(runner.healthy().ok());
  inner_.release();
  waiting.join();
}

TEST_F(WatchedRunnerTest, TheTimeBeginsWhenTheWeightsAreThere) {
  std::atomic<bool> is_loading{true};
  WatchedRunner runner(
      inner_, 10s, [&] { return now(); }, [&] { return is_loading.load(); });
  std::thread waiting = begin_step(runner);
  n_looks_.wait(0);
  set_time(3h);
  const int n_before = n_looks_;
  while (n_looks_ == n_before) EXPECT_TRUE(runner.healthy().ok());  // until it sees that step
  is_loading = false;
  set_time(3h + 10s);
  EXPECT_TRUE(runner.healthy().ok());
  set_time(3h + 10'001ms);
  EXPECT_EQ(runner.healthy().message(), "a step has run for 10001 ms; the limit is 10000 ms");
  inner_.release();
  waiting.join();
}

TEST_F(WatchedRunnerTest, AnIllRunnerIsIll) {
  WatchedRunner runner(inner_, 10s);
  inner_.set_health(internal_error("a thread died"));
  EXPECT_EQ(runner.healthy().message(), "a thread died");
}

}  // namespace
}  // namespace coxswain::rpc
