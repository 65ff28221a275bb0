// What a step yields leaves together where sinks have an outlet in common, first tokens before the rest.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunnerOptions;

FakeRunnerOptions one_plan_at_a_time() {
  FakeRunnerOptions o;
  o.n_blocks = {100};
  o.capabilities.look_ahead = false;
  return o;
}

GenerationRequest prompt_of_ten(std::uint64_t id) {
  GenerationRequest r;
  r.id = RequestId{id};
  for (std::uint32_t i = 0; i < 10; ++i) r.prompt.push_back(static_cast<TokenId>(id + i));
  r.stopping.max_new_tokens = 4;
  return r;
}

// An outlet that counts the calls and the events in each.
class CountingOutlet final : public EventOutlet {
 public:
  void on_events(std::span<SinkEvent> events) override {
    sizes.push_back(events.size());
    for (SinkEvent& e : events) e.sink->on_event(std::move(e.event));
  }
  std::vector<std::size_t> sizes;
};

class SinkOfOutlet final : public TokenSink {
 public:
  explicit SinkOfOutlet(EventOutlet& outlet) : outlet_(outlet) {}
  EventOutlet* outlet() override { return &outlet_; }
  void on_event(TokenEvent event) override { n_tokens += event.tokens.size(); }
  std::size_t n_tokens = 0;

 private:
  EventOutlet& outlet_;
};

TEST(Outlets, WhatAStepYieldsLeavesInOneCall) {
  EngineOptions options;
  options.prefill_tokens_max = 30;
  CoreDriver d(one_plan_at_a_time(), options);
  CountingOutlet outlet;
  std::vector<std::shared_ptr<SinkOfOutlet>> sinks;
  for (std::uint64_t id = 0; id < 3; ++id) {
    sinks.push_back(std::make_shared<SinkOfOutlet>(outlet));
    GenerationRequest r = prompt_of_ten(id);
    d.core->add(std::move(r), sinks.back(), d.now);
  }
  const auto alone = d.add(prompt_of_ten(7));
  ASSERT_TRUE(d.run());
  EXPECT_EQ(outlet.sizes, (std::vector<std::size_t>{3, 3, 3, 3}));
  for (const auto& sink : sinks) EXPECT_EQ(sink->n_tokens, 4U);
  EXPECT_EQ(alone->tokens().size(), 4U);
}

// Who waits for a first token has it before the other rows of its step are looked at.
TEST(Outlets, AFirstTokenLeavesBeforeThoseOfAnswersThatRun) {
  CoreDriver d(one_plan_at_a_time());
  CountingOutlet outlet;
  const auto add = [&](std::uint64_t id) {
    GenerationRequest r = prompt_of_ten(id);
    d.core->add(std::move(r), std::make_shared<SinkOfOutlet>(outlet), d.now);
  };
  for (std::uint64_t id = 0; id < 3; ++id) add(id);
  while (outlet.sizes.empty()) d.turn();
  add(3);
  ASSERT_TRUE(d.run());
  const auto first = std::ranges::find(outlet.sizes, std::size_t{1});
  ASSERT_NE(first, outlet.sizes.end());
  EXPECT_EQ(*std::next(first), 3U);
}

// Two requests whose events are handed on: one runs, and the first token of the other has been told by a step whose
// result is still to come.
class EarlyTokens : public ::testing::Test {
 protected:
  static FakeRunnerOptions fake() {
    FakeRunnerOptions o = one_plan_at_a_time();
    o.tells_early = true;
    return o;
  }
  void SetUp() override {
    constexpr int kStepsBefore = 3;  // the fourth one of such a runner tells, and is late
    d_.runner->set_clock(&d_.now);
    running_.stopping.max_new_tokens = 10;
    runs_ = add(running_);
    for (int i = 0; i < kStepsBefore; ++i) d_.turn();
    begins_ = add(beginning_);
    ASSERT_TRUE(d_.core->submit_next(d_.now));
    EXPECT_TRUE(d_.core->still_runs(d_.core->wait_oldest()));
    d_.check();
  }
  std::shared_ptr<testing::RequestRecorder> add(const GenerationRequest& r) {
    auto sink = std::make_shared<testing::RequestRecorder>(r.n_answers());
    sink->through = &outlet_;
    d_.core->add(r, sink, d_.now);
    return sink;
  }
  static void expect_whole(testing::RequestRecorder& sink, const GenerationRequest& request) {
    std::vector<TokenId> ids;
    for (const OutputToken& token : sink[0].tokens()) ids.push_back(token.id);
    EXPECT_EQ(ids, testing::expected_output(fake(), request).tokens);
    EXPECT_TRUE(sink[0].final_event().status.ok());
  }

  CoreDriver d_{fake()};
  testing::PassOn outlet_;
  GenerationRequest running_ = prompt_of_ten(1);
  GenerationRequest beginning_ = prompt_of_ten(2);
  std::shared_ptr<testing::RequestRecorder> runs_;
  std::shared_ptr<testing::RequestRecorder> begins_;
};

TEST_F(EarlyTokens, AFirstTokenIsThereBeforeTheResultAndComesOnce) {
  EXPECT_EQ((*begins_)[0].n_tokens(), 1U);
  EXPECT_EQ((*runs_)[0].n_tokens(), 3U);  // nobody waits for its fourth
  ASSERT_TRUE(d_.run());
  expect_whole(*begins_, beginning_);
  expect_whole(*runs_, running_);
  d_.expect_idle();
}

// The others together, so that a step with many of them is not held up.
TEST_F(EarlyTokens, EachOfTheFirstEightIsToldAlone) {
  ASSERT_TRUE(d_.run());
  while (d_.runner->n_submitted() % 4 != 3) {  // the next one tells, and is late
    GenerationRequest more = prompt_of_ten(3);
    more.stopping.max_new_tokens = 1;
    add(more);
    ASSERT_TRUE(d_.run());
  }
  CountingOutlet outlet;
  std::vector<std::shared_ptr<SinkOfOutlet>> sinks;
  for (std::uint64_t id = 10; id < 20; ++id) {
    sinks.push_back(std::make_shared<SinkOfOutlet>(outlet));
    d_.core->add(prompt_of_ten(id), sinks.back(), d_.now);
  }
  ASSERT_TRUE(d_.core->submit_next(d_.now));
  EXPECT_TRUE(d_.core->still_runs(d_.core->wait_oldest()));
  EXPECT_EQ(outlet.sizes, (std::vector<std::size_t>{1, 1, 1, 1, 1, 1, 1, 1, 2}));
  ASSERT_TRUE(d_.run());
  for (const auto& sink : sinks) EXPECT_EQ(sink->n_tokens, 4U);
  d_.expect_idle();
}

TEST_F(EarlyTokens, ARequestMayEndBetweenItsTokenAndTheResult) {
  d_.core->cancel(beginning_.id);
  d_.check();
  EXPECT_EQ((*begins_)[0].final_event().status.code(), Code::kCancelled);
  ASSERT_TRUE(d_.run());
  EXPECT_EQ((*begins_)[0].n_tokens(), 1U);
  expect_whole(*runs_, running_);
  d_.expect_idle();
}

TEST_F(EarlyTokens, ARunnerMayBeLostBetweenATokenAndTheResult) {
  d_.runner = std::make_shared<testing::FakeRunner>(fake());
  d_.core->replace_runner(d_.runner);
  d_.check();
  ASSERT_TRUE(d_.run());
  EXPECT_EQ((*begins_)[0].final_event().status.code(), Code::kUnavailable);
  EXPECT_EQ((*runs_)[0].final_event().status.code(), Code::kUnavailable);
  d_.expect_idle();
}

}  // namespace
}  // namespace coxswain::batch
