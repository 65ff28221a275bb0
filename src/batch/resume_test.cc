// Requests that go on in another engine: what they yield there is the rest of what they yield undisturbed, bit for bit.

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using testing::RequestMaker;

// `request` as it is after `n` of its tokens.
GenerationRequest after(GenerationRequest request,
                        const std::vector<OutputToken>& tokens,
                        std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    request.progress.ids.push_back(tokens[i].id);
    request.progress.cumulative_logprob += static_cast<double>(tokens[i].logprob);
  }
  return request;
}

void expect_rest(const Recorder& whole, const Recorder& rest, std::size_t cut) {
  SCOPED_TRACE("cut behind token " + std::to_string(cut));
  ASSERT_TRUE(rest.done());
  const TokenEvent a = whole.final_event();
  const TokenEvent b = rest.final_event();
  ASSERT_TRUE(b.status.ok()) << b.status.message();
  const std::vector<OutputToken> all = whole.tokens();
  EXPECT_EQ(rest.tokens(),
            std::vector<OutputToken>(all.begin() + static_cast<std::ptrdiff_t>(cut), all.end()));
  EXPECT_EQ(b.finish, a.finish);
  EXPECT_EQ(b.n_generated, a.n_generated);
  EXPECT_EQ(b.cumulative_logprob, a.cumulative_logprob);
  EXPECT_TRUE(rest.prompt().empty()) << "what was wanted of the prompt comes again";
}

std::vector<FakeRunnerOptions> runners() {
  FakeRunnerOptions plain;
  plain.eos_every = 15;
  FakeRunnerOptions windows = plain;
  windows.windows = {0, 10};
  windows.n_blocks = {65, 40};
  windows.sink_tokens = 3;
  FakeRunnerOptions drafts = plain;
  drafts.capabilities.draft_tokens_max = 3;
  drafts.forces_tokens = true;
  FakeRunnerOptions lockstep = plain;
  lockstep.capabilities = {};
  lockstep.capabilities.takes_ids = true;
  FakeRunnerOptions ropes = plain;
  ropes.rope_switch_length = 20;
  return {plain, windows, drafts, lockstep, ropes};
}

// Each alone in an engine that has never seen the request.
TEST(Resume, BehindEveryToken) {
  for (const FakeRunnerOptions& fake : runners()) {
    RequestMaker make(7);
    std::size_t n_cuts = 0;
    for (int i = 0; i < 12; ++i) {
      GenerationRequest request = make.make(40, 20);
      request.sampling.n_top_tokens = static_cast<std::uint32_t>(i % 3);
      CoreDriver first(fake);
      const auto whole = first.add(request);
      ASSERT_NE(whole, nullptr) << first.status.message();
      ASSERT_TRUE(first.run());
      for (std::size_t cut = 1; cut < whole->n_tokens(); ++cut, ++n_cuts) {
        CoreDriver second(fake);
        const auto rest = second.add(after(request, whole->tokens(), cut));
        ASSERT_NE(rest, nullptr) << second.status.message();
        ASSERT_TRUE(second.run());
        expect_rest(*whole, *rest, cut);
        second.expect_idle();
      }
    }
    EXPECT_GT(n_cuts, 30U);
  }
}

// All at once where there is no room for all: they find each other's blocks, pause and go on.
TEST(Resume, BesideOthersInASmallCache) {
  std::uint64_t n_pauses = 0;
  for (FakeRunnerOptions fake : runners()) {
    if (!fake.capabilities.grows_blocks) continue;
    for (std::uint32_t& n : fake.n_blocks) n = 16;
    EngineOptions options;
    options.policy = CapacityPolicy::kMaxUtilization;
    options.prefill_tokens_max = 24;
    CoreDriver first(fake, options);
    CoreDriver second(fake, options);
    RequestMaker make(11);
    std::vector<GenerationRequest> requests;
    std::vector<std::shared_ptr<Recorder>> whole;
    for (int i = 0; i < 8; ++i) {
      requests.push_back(make.make(24, 24));
      requests.back().stopping.ignore_eos = true;
      whole.push_back(first.add(requests.back()));
    }
    ASSERT_TRUE(first.run());
    std::vector<std::shared_ptr<Recorder>> rest;
    std::vector<std::size_t> cuts;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      cuts.push_back(make.pick(whole[i]->n_tokens()));
      rest.push_back(second.add(after(requests[i], whole[i]->tokens(), cuts[i])));
      ASSERT_NE(rest.back(), nullptr) << second.status.message();
      if (i % 2 == 0) second.turn();
    }
    ASSERT_TRUE(second.run());
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (cuts[i] > 0) expect_rest(*whole[i], *rest[i], cuts[i]);
    }
    n_pauses += second.core->stats().pauses;
    second.expect_idle();
  }
  EXPECT_GT(n_pauses, 5U);
}

// Its runner is lost before it has a row there: the next one gets all that it has had.
TEST(Resume, OutlivesTheRunnerWhileItWaits) {
  FakeRunnerOptions fake;
  GenerationRequest request;
  request.id = RequestId{1};
  request.prompt = {1, 2, 3, 4, 5, 6};
  request.stopping.max_new_tokens = 12;
  CoreDriver first(fake);
  const auto whole = first.add(request);
  ASSERT_TRUE(first.run());
  CoreDriver second(fake);
  const auto rest = second.add(after(request, whole->tokens(), 5));
  fake.epoch = 2;
  second.runner = std::make_shared<FakeRunner>(fake);
  second.core->replace_runner(second.runner);
  ASSERT_TRUE(second.run());
  expect_rest(*whole, *rest, 5);
}

TEST(Resume, WhatCannotGoOnIsRefusedByName) {
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.stopping.max_new_tokens = 3;
  request.progress.ids = {4, 5};
  CoreDriver d;
  EXPECT_NE(d.add(request), nullptr);
  ASSERT_TRUE(d.run());
  const auto expect_refused = [&](const GenerationRequest& r, Code code, std::string_view words) {
    EXPECT_EQ(d.add(r), nullptr);
    EXPECT_EQ(d.status.code(), code);
    EXPECT_EQ(d.status.field(), kProgressField);
    EXPECT_NE(d.status.message().find(words), std::string::npos) << d.status.message();
  };
  GenerationRequest over = request;
  over.progress.ids = {4, 5, 6};
  expect_refused(over, Code::kInvalidArgument, "`max_new_tokens` is 3");
  GenerationRequest foreign = request;
  foreign.progress.ids = {50};
  expect_refused(foreign, Code::kInvalidArgument, "Given: 50");
  GenerationRequest two = request;
  two.more_seeds = {1};
  expect_refused(two, Code::kInvalidArgument, "Given: 2 sequences");
  FakeRunnerOptions stock;
  stock.capabilities = {};
  CoreDriver text(stock);
  EXPECT_EQ(text.add(request), nullptr);
  EXPECT_EQ(text.status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(text.status.field(), kProgressField);
}

// What waits counts with all of its ids.
TEST(Resume, ProgressCountsWhileItWaits) {
  EngineOptions options;
  options.queue_tokens_max = 16;
  GenerationRequest request;
  request.prompt.assign(8, 1);
  request.stopping.max_new_tokens = 20;
  CoreDriver d({}, options);
  request.progress.ids.assign(8, 2);
  EXPECT_NE(d.add(request), nullptr);
  EXPECT_EQ(d.core->stats().queued_tokens, 16U);
  request.progress.ids.push_back(2);
  EXPECT_EQ(d.add(request), nullptr);
  EXPECT_NE(d.status.message().find("17 tokens"), std::string::npos) << d.status.message();
  ASSERT_TRUE(d.run());
}

}  // namespace
}  // namespace coxswain::batch
