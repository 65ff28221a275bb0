#include "router/pace.h"

#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{std::chrono::hours(1)};

TEST(RetryAfter, IsWhatWaitsOverTheRate) {
  EXPECT_EQ(retry_after(0, std::nullopt), 1s);
  EXPECT_EQ(retry_after(500, std::nullopt), 1s);
  EXPECT_EQ(retry_after(0, 4), 1s);
  EXPECT_EQ(retry_after(19, 4), 5s);
  EXPECT_EQ(retry_after(20, 4), 6s) << "rounded up";
  EXPECT_EQ(retry_after(0, 0.1), 10s) << "one has to leave";
  EXPECT_EQ(retry_after(1e6, 4), 60s);
  EXPECT_EQ(retry_after(0, 1e-300), 60s);
}

class PaceTest : public ::testing::Test {
 protected:
  PaceTest() { metrics_.queue_size.set(3); }
  std::chrono::seconds refuse(TimePoint now) {
    return pace_.refuse({Code::kResourceExhausted, ErrorKind::kOverloaded, "full"}, now);
  }
  // `n` ends, one every `gap`.
  void leave(int n, std::chrono::milliseconds gap, std::size_t n_sequences = 1) {
    for (int i = 0; i < n; ++i) pace_.note_end(n_sequences, now_ += gap);
  }
  double rate(TimePoint now) { return pace_.per_second(now).value_or(-1); }

  PermitPool permits_{2};
  telemetry::Metrics metrics_{{}};
  Pace pace_{permits_, &metrics_};
  TimePoint now_ = kStart;
};

TEST_F(PaceTest, NothingIsKnownBeforeTheFirstEndOfAFullHouse) {
  metrics_.queue_size.set(0);
  pace_.note_end(1, kStart + 1s);
  refuse(kStart + 1s);  // by a queue that fills for a moment
  pace_.note_end(1, kStart + 1h);
  EXPECT_EQ(pace_.per_second(kStart + 1h), std::nullopt) << "nobody waited";
  metrics_.queue_size.set(500);
  EXPECT_EQ(refuse(kStart + 2h), 1s);
  EXPECT_EQ(refuse(kStart + 2h + 40s), 1s) << "nobody has left";
}

TEST_F(PaceTest, CountsWhatLeavesWhileOthersWait) {
  refuse(now_);
  leave(1000, 500ms, 2);
  EXPECT_NEAR(rate(now_), 4, 0.1);
  metrics_.queue_size.set(38);
  EXPECT_EQ(refuse(now_), 10s);
  metrics_.queue_size.set(0);
  pace_.note_end(2, now_ += 500ms);
  const double before = rate(now_);
  EXPECT_EQ(rate(now_ + 1h), before) << "the house is not full";
  pace_.note_end(1, now_ + 1h);
  EXPECT_EQ(rate(now_ + 1h), before);
}

TEST_F(PaceTest, ItIsFullWithoutAFreePermit) {
  metrics_.queue_size.set(0);
  const auto all = permits_.try_acquire(2);
  refuse(now_);
  for (int i = 0; i < 1000; ++i) pace_.note_end(1, now_ += 3500ms);
  EXPECT_NEAR(rate(now_), 1 / 3.5, 0.01);
  EXPECT_EQ(refuse(now_), 4s);
}

TEST_F(PaceTest, OneWithoutAShardIsNotFull) {
  pace_.refuse({Code::kUnavailable, ErrorKind::kUnavailable, "no shard"}, now_);
  pace_.note_end(1, now_ + 100s);
  EXPECT_EQ(pace_.per_second(now_ + 100s), std::nullopt);
}

TEST_F(PaceTest, WhoNeverHadATurnIsNoEnd) {
  refuse(now_);
  for (int i = 0; i < 100; ++i) pace_.note_end(0, now_ += 100ms);
  EXPECT_EQ(pace_.per_second(now_), std::nullopt);
  leave(10, 1s);
  EXPECT_LT(rate(now_), 1);
}

TEST_F(PaceTest, ALaterRateReplacesTheEarlierOne) {
  refuse(now_);
  leave(1000, 100ms);
  EXPECT_NEAR(rate(now_), 10, 0.1);
  leave(40, 5s);
  EXPECT_NEAR(rate(now_), 0.2, 0.05);
}

TEST_F(PaceTest, AHouseThatNobodyLeavesGetsSlower) {
  refuse(now_);
  leave(100, 100ms);
  EXPECT_LT(rate(now_ + 20s), 2.5);
  EXPECT_EQ(refuse(now_ + 10min), 60s);
}

}  // namespace
}  // namespace coxswain::router
