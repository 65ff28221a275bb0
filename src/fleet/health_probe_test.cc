#include "fleet/health_probe.h"

#include <gtest/gtest.h>

#include "batch/testing/scripted_engine.h"

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInterval{1000};

class HealthProbeTest : public ::testing::Test {
 protected:
  HealthProbeTest() { engine_.script = {one_token()}; }

  static batch::ScriptedSequence one_token() {
    batch::ScriptedSequence out;
    out.tokens = {{.id = 3, .text = "x"}};
    return out;
  }
  static batch::ScriptedSequence failing() {
    batch::ScriptedSequence out;
    out.error = Status(Code::kInternal, ErrorKind::kGeneration, "not a number");
    return out;
  }
  Status look(bool asked = true) { return probe_.look(now_, asked); }
  void step(bool asked = true) { (void)look(asked); }
  std::size_t n_probes() const { return engine_.submitted().size(); }

  batch::ScriptedEngine engine_;
  HealthProbe probe_{engine_, kInterval};
  TimePoint now_ = Clock::now();
};

TEST_F(HealthProbeTest, ProbesOncePerIntervalWhileSomebodyAsks) {
  for (int i = 0; i < 8; ++i, now_ += kInterval / 4) EXPECT_TRUE(look().ok());
  EXPECT_EQ(n_probes(), 2U);
  EXPECT_NE(engine_.submitted()[0].id, engine_.submitted()[1].id);
  EXPECT_EQ(engine_.submitted()[0].stopping.max_new_tokens, 1U);
  now_ += 10 * kInterval;
  step(false);
  EXPECT_EQ(n_probes(), 2U);
}

TEST_F(HealthProbeTest, WorkIsProofEnough) {
  engine_.statistics.running = 1;
  step();
  engine_.statistics = {};
  engine_.statistics.last_step_at = now_ - kInterval / 2;
  step();
  EXPECT_EQ(n_probes(), 0U);
  now_ += kInterval;
  step();
  EXPECT_EQ(n_probes(), 1U);
}

TEST_F(HealthProbeTest, AFailureStaysUntilSomethingGoesWell) {
  engine_.script = {failing()};
  EXPECT_TRUE(look().ok());  // on its way
  const Status failed = look();
  EXPECT_EQ(failed.code(), Code::kInternal);
  EXPECT_EQ(failed.message(), "a probe failed: not a number");
  now_ += kInterval / 2;
  EXPECT_FALSE(look().ok());
  EXPECT_EQ(n_probes(), 1U);

  engine_.statistics.last_step_at = now_;  // a client's request
  EXPECT_TRUE(look().ok());
  now_ += kInterval;
  step();
  EXPECT_FALSE(look().ok());  // the second probe failed too
  engine_.script = {one_token()};
  now_ += kInterval;
  step();
  EXPECT_TRUE(look().ok());
}

TEST_F(HealthProbeTest, OneThatDoesNotComeBackIsNotFollowedByOthers) {
  batch::ScriptedSequence held;
  held.hold = true;
  engine_.script = {held};
  for (int i = 0; i < 5; ++i, now_ += kInterval) EXPECT_TRUE(look().ok());
  EXPECT_EQ(n_probes(), 1U);
  probe_.forget();  // another runner
  engine_.wait_for_cancels(1);
  step();
  EXPECT_EQ(n_probes(), 2U);
}

TEST_F(HealthProbeTest, AnEngineThatTakesNothingIsNoFailure) {
  batch::ScriptedSequence refused;
  refused.refusal = Status(Code::kUnavailable, "draining");
  engine_.script = {refused};
  EXPECT_TRUE(look().ok());
  EXPECT_TRUE(look().ok());
}

}  // namespace
}  // namespace coxswain::fleet
