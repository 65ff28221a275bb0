// Requests whose prompts are computed by one engine and that go on in another: tokens are those of the undisturbed
// request, and in the end nobody holds a block. What goes wrong on the way is in handover_faults_test.cc.

#include "batch/handover.h"

#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/testing/core_driver.h"
#include "batch/testing/handover_lives.h"

namespace coxswain::batch {
namespace {

using testing::compute_prompt;
using testing::expect_whole;
using testing::expected_output;
using testing::ExpectedOutput;
using testing::FakeRunnerOptions;
using testing::FirstLife;
using testing::Fronts;
using testing::go_on;
using testing::hand_over;
using testing::handover_fake;
using testing::handover_request;
using testing::pass_ahead;
using testing::Recorder;
using testing::Replica;
using testing::SecondLife;
using namespace std::chrono_literals;

class Handover : public ::testing::TestWithParam<std::vector<std::uint32_t>> {};

TEST_P(Handover, GoesOnBehindWhatHasMoved) {
  FakeRunnerOptions fake = handover_fake(GetParam());
  for (const std::uint32_t n_sinks : {0U, 6U}) {
    fake.sink_tokens = n_sinks;
    fake.capabilities.exports_beside = n_sinks == 0;
    const Replica from(fake);
    const Replica to(fake);
    HandoverService service;
    for (std::uint64_t id = 1; id <= 5; ++id) {
      GenerationRequest r = handover_request(80 + id, 20, id);
      r.sampling.do_sample = id % 2 == 0;
      r.sampling.seed = id;
      r.prompt_logprobs = id == 3;
      r.adapter_digest = id == 4 ? "adapter" : "";
      if (id == 5) {
        const ExpectedOutput all = expected_output(fake, r);
        r.progress.ids.assign(all.tokens.begin(), all.tokens.begin() + 2);
        for (std::size_t i = 0; i < 2; ++i)
          r.progress.cumulative_logprob += static_cast<double>(all.logprobs[i]);
      }
      FirstLife first = compute_prompt(from, r);
      ASSERT_NE(first.parked, nullptr);
      const SecondLife second = go_on(service, from, to, first);
      ASSERT_TRUE(second.result.status.ok()) << second.result.status.message();
      EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
      EXPECT_GT(second.result.n_bytes, 0U);
      const std::uint32_t n_moved = (80 + static_cast<std::uint32_t>(id)) / 4 * 4;
      EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, n_moved);
      if (id < 5) expect_whole(fake, r, first, second);
    }
    EXPECT_EQ(service.stats().n_moved, 5U);
  }
}

// In pieces of several attachments, as it is told, and in such of one.
TEST_P(Handover, WhatHasPassedAheadIsNotHandedOverAgain) {
  FakeRunnerOptions fake = handover_fake(GetParam());
  fake.capabilities.attachment_bytes_max = 19 << 10;  // small pieces
  const Replica from(fake, {.prefill_tokens_max = 16});
  for (const std::uint32_t n_attachments : {1U, 3U}) {
    const Replica to(fake);
    HandoverService service;
    GenerationRequest r = handover_request(90, 12, n_attachments);
    Fronts fronts;
    fronts.listen(r);
    const FirstLife first = compute_prompt(from, r);
    ASSERT_GE(fronts.told.size(), 2U);
    std::uint32_t n_blocks = 0;
    for (const auto& front : fronts.told) {
      EXPECT_GT(front->n_blocks, n_blocks);
      n_blocks = front->n_blocks;
      auto divided = std::make_shared<ParkedContext>(*front);
      if (n_attachments > 1) divided->piece_blocks = 1;
      divided->attachments_max = n_attachments;
      const HandoverResult ahead = pass_ahead(service, from, to, divided, first.rest);
      ASSERT_TRUE(ahead.status.ok()) << ahead.status.message();
      EXPECT_GT(ahead.n_bytes, 0U);
    }
    const std::uint64_t n_ahead = service.stats().n_bytes_ahead;
    EXPECT_EQ(service.stats().n_bytes, n_ahead);
    EXPECT_EQ(service.stats().n_moved, 0U);
    to.wait_for_no_leases();
    const SecondLife second = go_on(service, from, to, first);
    ASSERT_TRUE(second.result.moved) << second.result.why_not.message();
    EXPECT_EQ(service.stats().n_bytes, n_ahead + second.result.n_bytes);
    EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, 88U);
    const std::uint32_t n_left = first.parked->n_blocks - n_blocks;
    const std::uint32_t of_a_piece = first.parked->piece_blocks;
    EXPECT_EQ(second.result.n_pieces, (n_left + of_a_piece - 1) / of_a_piece);
    expect_whole(fake, r, first, second);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups,
                         Handover,
                         ::testing::Values(std::vector<std::uint32_t>{0},
                                           std::vector<std::uint32_t>{0, 24},
                                           std::vector<std::uint32_t>{24, 10}));

TEST(HandoverCases, WhatTheDestinationHasDoesNotMove) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  HandoverService service;
  const GenerationRequest r = handover_request(90, 10);
  FirstLife first = compute_prompt(from, r);
  expect_whole(fake, r, first, go_on(service, from, to, first));
  first = compute_prompt(from, r);
  const SecondLife again = go_on(service, from, to, first);
  EXPECT_TRUE(again.result.moved);
  EXPECT_EQ(again.result.n_pieces, 0U);
  expect_whole(fake, r, first, again);
}

TEST(HandoverCases, AFirstTokenThatEndsTheRequestParksNothing) {
  const Replica from(handover_fake());
  const FirstLife first = compute_prompt(from, handover_request(30, 1));
  EXPECT_EQ(first.parked, nullptr);
  EXPECT_EQ(first.sink->finish()->reason, FinishReason::kLength);
}

TEST(HandoverCases, InTheSameEngineNothingMoves) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica one(fake);
  HandoverService service;
  const GenerationRequest r = handover_request(50, 10);
  FirstLife first = compute_prompt(one, r);
  const SecondLife second = go_on(service, one, one, first);
  EXPECT_TRUE(second.result.moved);
  EXPECT_EQ(second.result.n_bytes, 0U);
  EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, 48U);
  expect_whole(fake, r, first, second);
}

// Each of these is why blocks do not move, and the tokens are the same.
TEST(HandoverCases, WhereBlocksCannotMoveThePromptIsComputedAgain) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  HandoverService service;
  std::uint64_t id = 1;
  const auto expect_again = [&](const Replica& to, Code why, auto change) {
    const GenerationRequest r = handover_request(90, 12, id++);
    FirstLife first = compute_prompt(from, r);
    change(first);
    const SecondLife second = go_on(service, from, to, first);
    EXPECT_TRUE(second.result.status.ok()) << second.result.status.message();
    EXPECT_FALSE(second.result.moved);
    EXPECT_EQ(second.result.why_not.code(), why) << second.result.why_not.message();
    expect_whole(fake, r, first, second);
    from.wait_for_no_leases();
  };
  const auto as_it_is = [](FirstLife&) {};
  FakeRunnerOptions other = fake;
  other.about.kernel_set_id = "other";
  expect_again(Replica(other), Code::kFailedPrecondition, as_it_is);
  other = fake;
  other.capabilities.attachment_bytes_max /= 2;
  expect_again(Replica(other), Code::kUnimplemented, as_it_is);
  const Replica to(fake);
  expect_again(to, Code::kInvalidArgument, [](FirstLife& first) {  // of another request
    auto parked = std::make_shared<ParkedContext>(*first.parked);
    ++parked->digest;
    first.parked = parked;
  });
  expect_again(to, Code::kUnavailable, [](FirstLife& first) {  // of another runner's time
    auto parked = std::make_shared<ParkedContext>(*first.parked);
    ++parked->incarnation;
    first.parked = parked;
  });
  expect_again(to, Code::kUnimplemented, [&](FirstLife& first) {  // nothing was kept
    release_parked(*from.engine, *first.parked);
    first.parked = std::make_shared<ParkedContext>();
  });
}

TEST(HandoverCases, WhatTheDestinationHasMayEndInsideOfAPiece) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  for (std::size_t n_tokens = 40; n_tokens < 60; n_tokens += 4) {
    const Replica to(fake);
    HandoverService service;
    EXPECT_TRUE(to.run(handover_request(n_tokens, 2))->final_event().status.ok());
    const GenerationRequest r = handover_request(90, 12);
    const FirstLife first = compute_prompt(from, r);
    const SecondLife second = go_on(service, from, to, first);
    EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
    EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, 88U);
    expect_whole(fake, r, first, second);
  }
}

TEST(HandoverCases, WhatDoesNotPassAheadIsHandedOver) {
  FakeRunnerOptions fake = handover_fake();
  fake.capabilities.attachment_bytes_max = 19 << 10;  // small pieces
  FakeRunnerOptions small = fake;
  small.n_blocks = {27};
  const Replica from(fake, {.prefill_tokens_max = 16});
  const Replica full(small);
  const Replica to(fake);
  HandoverService service;
  GenerationRequest r = handover_request(90, 12);
  Fronts fronts;
  fronts.listen(r);
  const FirstLife first = compute_prompt(from, r);
  ASSERT_GE(fronts.told.size(), 2U);
  const FirstLife parked_there = compute_prompt(full, handover_request(80, 20, 2));
  const HandoverResult refused = pass_ahead(service, from, full, fronts.told.back(), first.rest);
  EXPECT_EQ(refused.status.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.n_bytes, 0U);
  release_parked(*full.engine, *parked_there.parked);
  // Whose hold is gone; and one of which nobody hears any more.
  EXPECT_EQ(pass_ahead(service, from, to, fronts.told.back(), first.rest).status.code(),
            Code::kUnavailable);
  for (std::size_t i = 0; i + 1 < fronts.told.size(); ++i)
    release_parked(*from.engine, *fronts.told[i]);
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  expect_whole(fake, r, first, second);
}

// Others may take what has passed for a prompt that is still computed: then it passes once more.
TEST(HandoverCases, WhatHasPassedAheadMakesRoom) {
  FakeRunnerOptions fake = handover_fake();
  fake.capabilities.attachment_bytes_max = 19 << 10;  // small pieces
  const Replica from(fake, {.prefill_tokens_max = 16});
  fake.n_blocks = {33};
  const Replica to(fake);
  HandoverService service;
  GenerationRequest r = handover_request(90, 5);
  Fronts fronts;
  fronts.listen(r);
  const FirstLife first = compute_prompt(from, r);
  for (const auto& front : fronts.told)
    EXPECT_TRUE(pass_ahead(service, from, to, front, first.rest).status.ok());
  EXPECT_TRUE(to.run(handover_request(95, 5, 2))->final_event().status.ok());
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, 88U);
  expect_whole(fake, r, first, second);
}

TEST(HandoverCases, NoRoomAtTheDestination) {
  const FakeRunnerOptions fake = handover_fake();
  const FakeRunnerOptions small = handover_fake({0}, 27);
  const Replica from(fake);
  const Replica to(small);
  HandoverService service;
  const GenerationRequest r = handover_request(80, 20);
  FirstLife first = compute_prompt(from, r);
  // Holds 20 of 26 blocks.
  FirstLife parked_there = compute_prompt(to, handover_request(80, 20, 2));
  const SecondLife second = hand_over(service, from, to, first);
  EXPECT_EQ(second.result.why_not.code(), Code::kResourceExhausted);
  release_parked(*to.engine, *parked_there.parked);
  second.sink->wait_final();
  expect_whole(small, r, first, second);
}

TEST(HandoverCases, ADestinationThatDrainsLeavesItToAnother) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica drains(fake);
  const Replica to(fake);
  ASSERT_TRUE(drains.engine->drain(10s));
  HandoverService service;
  const GenerationRequest r = handover_request(90, 12);
  FirstLife first = compute_prompt(from, r);
  const SecondLife refused = go_on(service, from, drains, first);
  EXPECT_EQ(refused.result.status.code(), Code::kUnavailable);
  EXPECT_FALSE(refused.sink->done());
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  expect_whole(fake, r, first, second);
}

TEST(HandoverCases, WhatNobodyFetchesIsGivenBack) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  HandoverService service;
  const GenerationRequest r = handover_request(90, 12);
  FirstLife first = compute_prompt(from, r, 1ms);
  from.wait_for_no_leases();
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_FALSE(second.result.moved);
  expect_whole(fake, r, first, second);
}

// Each side has more pieces on their way to the other one than either has room for, and the limit never comes.
TEST(HandoverCases, ThoseThatGoBothWaysDoNotWaitForEachOther) {
  const FakeRunnerOptions fake = handover_fake({0}, 257);
  const Replica one(fake);
  const Replica other(fake);
  struct Crossing {
    GenerationRequest request;
    FirstLife first;
    SecondLife second;
    std::promise<HandoverResult> result;
  };
  std::vector<Crossing> all(8);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].request = handover_request(90, 12, i);
    all[i].first = compute_prompt(i % 2 == 0 ? one : other, all[i].request);
    all[i].second.sink = std::make_shared<Recorder>(all[i].first.rest.progress);
  }
  HandoverService service({.timeout = 1h});
  for (std::size_t i = 0; i < all.size(); ++i) {
    service.start({.from = (i % 2 == 0 ? one : other).engine.get(),
                   .to = (i % 2 == 0 ? other : one).engine.get(),
                   .parked = all[i].first.parked,
                   .request = all[i].first.rest,
                   .sink = all[i].second.sink},
                  [&result = all[i].result](HandoverResult r) { result.set_value(std::move(r)); });
  }
  for (Crossing& each : all) {
    each.second.result = each.result.get_future().get();
    EXPECT_TRUE(each.second.result.moved) << each.second.result.why_not.message();
    EXPECT_GT(each.second.result.n_pieces, 1U);
    each.second.sink->wait_final();
    expect_whole(fake, each.request, each.first, each.second);
  }
}

// A step of the source that does not end holds nobody up.
TEST(HandoverCases, BlocksLeaveBesideTheStepsOfTheirSource) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  HandoverService service({.timeout = 1h});
  const GenerationRequest r = handover_request(90, 12, 1);
  const FirstLife first = compute_prompt(from, r);
  from.runner->hold();
  const std::uint64_t n_submitted = from.runner->n_submitted();
  auto other = std::make_shared<Recorder>();
  ASSERT_TRUE(from.engine->submit(handover_request(40, 3, 2), other).ok());
  from.runner->wait_for_submitted(n_submitted + 1);
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  expect_whole(fake, r, first, second);
  EXPECT_EQ(other->n_tokens(), 0U);
  from.runner->release();
  other->wait_final();
}

// Nothing is planned ahead behind blocks that come in: the step behind them has the sequence that waits for them.
TEST(HandoverCases, TheNextStepGoesOnBehindBlocksThatCameIn) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  HandoverService service;
  const GenerationRequest r = handover_request(90, 12, 1);
  const FirstLife first = compute_prompt(from, r);
  to.runner->on_step = [](std::uint64_t) { std::this_thread::sleep_for(1ms); };
  to.runner->keep_plans();
  auto beside = std::make_shared<Recorder>();
  ASSERT_TRUE(to.engine->submit(handover_request(20, 200, 2), beside).ok());
  to.runner->wait_for_submitted(3);
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  EXPECT_LT(beside->n_tokens(), 200U) << "it has decoded all along";
  const std::vector<StepPlan> plans = to.runner->plans();
  const auto last = std::find_if(
      plans.rbegin(), plans.rend(), [](const StepPlan& plan) { return !plan.imports.empty(); });
  ASSERT_TRUE(last != plans.rend() && last != plans.rbegin());
  EXPECT_EQ(std::prev(last)->new_sequences.size(), 1U);
  to.engine->cancel(RequestId{2});
  beside->wait_final();
}

TEST(HandoverCases, LentBlocksOutlastTheirHold) {
  testing::CoreDriver d(handover_fake());
  const GenerationRequest r = handover_request(20, 5);
  ASSERT_NE(d.add(r), nullptr);
  ASSERT_TRUE(d.run());
  BlockTransfers& transfers = d.core->transfers();
  const HeldPrefix held = transfers.hold(d.core->prefix_identity(r), r.prompt);
  ASSERT_EQ(held.n_blocks, 5U);
  LentBlocks one = transfers.lend({.hold = held.id, .first = 0, .n = 2});
  LentBlocks other = transfers.lend({.hold = held.id, .first = 2, .n = 3});
  EXPECT_EQ(one.transfer.blocks.front().size(), 2U);
  one = {};
  transfers.close(held.id);
  EXPECT_FALSE(transfers.holds(held.id));
  d.turn();
  EXPECT_EQ(d.core->stats().blocks_leased, 5U);
  EXPECT_LE(d.core->next_deadline(), d.now + 1ms) << "it is looked again";
  other = {};
  d.turn();
  EXPECT_EQ(d.core->stats().blocks_leased, 0U);
  EXPECT_EQ(d.core->next_deadline(), TimePoint::max());
}

TEST(HandoverCases, SiblingsAndStockRunnersAreRefusedByName) {
  testing::CoreDriver d(handover_fake());
  GenerationRequest r = handover_request(20, 5);
  r.context_only = 1s;
  r.more_seeds = {7};
  EXPECT_EQ(d.add(r), nullptr);
  EXPECT_EQ(d.status.field(), kContextOnlyField);
  FakeRunnerOptions stock;
  stock.capabilities = {};
  testing::CoreDriver text(stock);
  r.more_seeds.clear();
  EXPECT_EQ(text.add(r), nullptr);
  EXPECT_EQ(text.status.code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace coxswain::batch
