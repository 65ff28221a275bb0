// When the final event of a request leaves: as soon as its end is known, while its blocks retire behind it, or after
// them where the strict order is asked for.

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;
using testing::Recorder;
using namespace std::chrono_literals;

GenerationRequest request(std::uint64_t id) {
  GenerationRequest r;
  r.id = RequestId{id};
  r.prompt = {1, 2, 3, 4, 5};
  r.stopping.max_new_tokens = 30;
  return r;
}

FakeRunnerOptions ends_by_eos() {
  FakeRunnerOptions o;
  o.eos_every = 5;
  return o;
}

// Turns until an end token has come; a step that runs ahead still names the request then.
std::shared_ptr<Recorder> run_to_the_last_token(CoreDriver& d, const GenerationRequest& r) {
  const auto expected = expected_output(ends_by_eos(), r);
  EXPECT_EQ(expected.reason, FinishReason::kEosToken);
  auto sink = d.add(r);
  while (sink->tokens().size() + 1 < expected.tokens.size()) d.turn();
  d.turn();
  EXPECT_EQ(d.core->n_in_flight(), 1U);
  return sink;
}

TEST(Answers, TheLastTokenDoesNotWaitForTheSurplusRow) {
  CoreDriver d(ends_by_eos());
  auto sink = run_to_the_last_token(d, request(1));
  ASSERT_TRUE(sink->done());
  sink->expect_complete(expected_output(ends_by_eos(), request(1)), false);
  const EngineStats s = d.core->stats();
  EXPECT_EQ(s.finished, 1U);
  EXPECT_EQ(s.running, 0U);
  EXPECT_EQ(d.core->n_sequences(), 0U);
  EXPECT_EQ(s.blocks_leased, 0U);
  EXPECT_GT(s.blocks_retiring, 0U);
  EXPECT_EQ(sink.use_count(), 1) << "an answered request's sink is held";
  d.turn();
  EXPECT_EQ(d.core->stats().blocks_retiring, 0U);
  ASSERT_TRUE(d.run());
  d.expect_idle();
}

TEST(Answers, TheStrictOrderWaitsForTheSurplusRow) {
  CoreDriver d(ends_by_eos(), {.final_after_retire = true});
  auto sink = run_to_the_last_token(d, request(1));
  EXPECT_FALSE(sink->done());
  EXPECT_EQ(d.core->stats().running, 1U);
  EXPECT_EQ(d.core->n_sequences(), 1U);
  std::uint32_t n_retiring = 1;
  sink->on_each = [&] { n_retiring = d.core->stats().blocks_retiring; };
  d.turn();
  ASSERT_TRUE(sink->done());
  EXPECT_EQ(n_retiring, 0U);
  sink->expect_complete(expected_output(ends_by_eos(), request(1)), false);
}

TEST(Answers, ADeadlineIsAnsweredOnceWithTwoStepsInFlight) {
  CoreDriver d;
  auto r = request(1);
  r.deadline = d.now + 10ms;
  auto sink = d.add(r);
  d.turn();
  while (d.core->submit_next(d.now)) {
  }
  ASSERT_EQ(d.core->n_in_flight(), 2U);
  d.core->advance(*r.deadline - 1ms);
  EXPECT_FALSE(sink->done());
  d.core->advance(*r.deadline);
  d.check();
  ASSERT_TRUE(sink->done());
  EXPECT_EQ(sink->final_event().status.kind(), ErrorKind::kDeadline);
  d.core->advance(*r.deadline + 1s);
  d.core->cancel(r.id);
  EXPECT_GT(d.core->stats().blocks_retiring, 0U);
  ASSERT_TRUE(d.run());
  d.turn();
  d.turn();
  d.expect_idle();
  EXPECT_EQ(d.core->stats().failed, 1U);
  EXPECT_EQ(d.core->stats().cancelled, 0U);
  EXPECT_TRUE(d.runner->live().empty());
}

// As where both limits of a server are the same.
TEST(Answers, ADeadlineThatIsTheQueueDeadlineTooHoldsAfterAdmission) {
  CoreDriver d;
  auto r = request(1);
  r.queue_deadline = r.deadline = d.now + 10ms;
  auto sink = d.add(r);
  d.turn();
  EXPECT_EQ(d.core->next_deadline(), *r.deadline);
  d.core->advance(*r.deadline);
  ASSERT_TRUE(sink->done());
  EXPECT_EQ(sink->final_event().status.kind(), ErrorKind::kDeadline);
  EXPECT_EQ(d.core->next_deadline(), TimePoint::max());
}

TEST(Answers, TheQueueDeadlineIsForgottenAtAdmission) {
  CoreDriver d;
  auto r = request(1);
  r.queue_deadline = d.now + 10ms;
  auto sink = d.add(r);
  d.turn();
  EXPECT_EQ(d.core->next_deadline(), TimePoint::max());
  d.core->advance(*r.queue_deadline + 1s);
  EXPECT_FALSE(sink->done());
  ASSERT_TRUE(d.run());
  EXPECT_TRUE(sink->final_event().status.ok());
}

TEST(Answers, AnIdIsServedAgainWhileItsFormerRequestRetires) {
  CoreDriver d;
  auto first = d.add(request(1));
  d.turn();
  d.turn();
  d.core->cancel(RequestId{1});
  ASSERT_TRUE(first->done());
  ASSERT_GT(d.core->n_in_flight(), 0U);
  auto second = d.add(request(1));
  ASSERT_TRUE(d.run());
  second->expect_complete(expected_output({}, request(1)), false);
  d.expect_idle();
}

TEST(Answers, ALostRunnerAnswersNobodyTwice) {
  CoreDriver d;
  auto gone = d.add(request(1));
  auto running = d.add(request(2));
  d.turn();
  d.turn();
  d.core->cancel(RequestId{1});
  ASSERT_TRUE(gone->done());
  d.runner->fail_next({Code::kUnavailable, "killed"});
  d.turn();
  d.check();
  ASSERT_TRUE(running->done());
  EXPECT_EQ(running->final_event().status.message(), "killed");
  const EngineStats s = d.core->stats();
  EXPECT_EQ(s.cancelled, 1U);
  EXPECT_EQ(s.failed, 1U);
}

TEST(Answers, AStepThatStillRunsIsWaitedForAgain) {
  CoreDriver d;
  d.add(request(1));
  ASSERT_TRUE(d.core->submit_next(d.now));
  d.runner->hold();
  EXPECT_TRUE(d.core->still_runs(d.core->wait_oldest(Clock::now())));
  EXPECT_EQ(d.core->n_in_flight(), 1U);
  d.runner->release();
  auto result = d.core->wait_oldest(Clock::now());
  EXPECT_FALSE(d.core->still_runs(result));
  d.core->apply_oldest(std::move(result), d.now);
  ASSERT_TRUE(d.run());
}

}  // namespace
}  // namespace coxswain::batch
