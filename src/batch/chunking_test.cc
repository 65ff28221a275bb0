// How prompts share the steps: chunks, units and their policies; prompts first; who gives up its place.

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;
using testing::Recorder;
using namespace std::chrono_literals;
using Rows = std::vector<std::vector<std::uint32_t>>;

FakeRunnerOptions fake_of(std::uint32_t n_blocks, std::uint32_t block_tokens) {
  FakeRunnerOptions o;
  o.block_tokens = block_tokens;
  o.n_blocks = {n_blocks + 1};
  o.capabilities.look_ahead = false;
  return o;
}

EngineOptions options_of(ChunkingPolicy chunking, std::uint32_t budget) {
  EngineOptions o;
  o.chunking = chunking;
  o.prefill_tokens_max = budget;
  o.prefill_tokens_min = 0;
  o.prefix_caching = false;
  return o;
}

GenerationRequest request(std::uint64_t id, std::uint32_t n_prompt, std::uint32_t n_new) {
  GenerationRequest r;
  r.id = RequestId{id};
  for (std::uint32_t i = 0; i < n_prompt; ++i)
    r.prompt.push_back(static_cast<TokenId>((id * 7 + i) % 50));
  r.stopping.max_new_tokens = n_new;
  r.stopping.ignore_eos = true;
  return r;
}

// Tokens of the rows of each step.
Rows rows_of(const FakeRunnerOptions& fake,
             const EngineOptions& options,
             const std::vector<GenerationRequest>& requests) {
  CoreDriver d(fake, options);
  d.runner->keep_plans();
  std::vector<std::shared_ptr<Recorder>> sinks;
  sinks.reserve(requests.size());
  for (const GenerationRequest& r : requests) sinks.push_back(d.add(r));
  EXPECT_TRUE(d.run());
  for (std::size_t i = 0; i < requests.size(); ++i)
    sinks[i]->expect_complete(expected_output(fake, requests[i]), false);
  Rows out;
  for (const StepPlan& plan : d.runner->plans()) {
    if (plan.rows.empty()) continue;
    out.emplace_back();
    for (const Row& row : plan.rows) out.back().push_back(row.n_tokens);
  }
  return out;
}

// 15 tokens a step in units of 10: what does not make a unit is left, the rest of a prompt excepted.
TEST(Chunking, EqualProgressGoesRoundByUnits) {
  EngineOptions o = options_of(ChunkingPolicy::kEqualProgress, 15);
  o.chunk_tokens_unit = 10;
  EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 24, 3), request(2, 24, 1)}),
            (Rows{{10}, {14}, {1, 10}, {1, 14}}));
}

TEST(Chunking, EqualProgressLetsPromptsAdvanceAlike) {
  const std::vector<GenerationRequest> requests{request(1, 30, 1), request(2, 30, 1)};
  EXPECT_EQ(rows_of(fake_of(40, 5), options_of(ChunkingPolicy::kEqualProgress, 20), requests),
            (Rows{{10, 10}, {10, 10}, {10, 10}}));
  EXPECT_EQ(
      rows_of(fake_of(40, 5), options_of(ChunkingPolicy::kFirstComeFirstServed, 20), requests),
      (Rows{{20}, {10, 10}, {20}}));
}

TEST(Chunking, AChunkIsAMultipleOfTheUnit) {
  EngineOptions o = options_of(ChunkingPolicy::kFirstComeFirstServed, 25);
  o.chunk_tokens_unit = 8;  // two blocks
  EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 33, 1)}), (Rows{{20}, {13}}));
}

// Or nothing would ever be computed.
TEST(Chunking, AUnitAboveTheBudgetIsTheBudget) {
  for (const auto chunking :
       {ChunkingPolicy::kFirstComeFirstServed, ChunkingPolicy::kEqualProgress}) {
    EngineOptions o = options_of(chunking, 10);
    o.chunk_tokens_unit = 100;
    EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 23, 1)}), (Rows{{10}, {10}, {3}}));
    o.chunk_tokens_max = 7;
    EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 12, 1)}), (Rows{{5}, {7}}));
  }
}

TEST(Chunking, NoChunkIsAboveItsLimit) {
  EngineOptions o = options_of(ChunkingPolicy::kFirstComeFirstServed, 100);
  o.chunk_tokens_max = 12;
  o.policy = CapacityPolicy::kMaxUtilization;  // by arrival
  EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 22, 1), request(2, 12, 1)}),
            (Rows{{10, 12}, {12}}));
  o.chunking = ChunkingPolicy::kEqualProgress;
  EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 22, 1), request(2, 12, 1)}),
            (Rows{{10, 12}, {12}}));
}

// One that no step has room for is divided all the same.
TEST(Chunking, WholePromptsWaitForAStepThatHasTheRoom) {
  EngineOptions o = options_of(ChunkingPolicy::kWholePrompts, 20);
  o.policy = CapacityPolicy::kMaxUtilization;  // by arrival
  EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 12, 1), request(2, 12, 3), request(3, 20, 1)}),
            (Rows{{12}, {12}, {1}, {1}, {20}}));
  EXPECT_EQ(rows_of(fake_of(40, 5), o, {request(1, 7, 1), request(2, 33, 1), request(3, 8, 1)}),
            (Rows{{7, 10}, {20}, {3, 8}}));
}

TEST(Chunking, EqualProgressStaysInsideTheCache) {
  EngineOptions o = options_of(ChunkingPolicy::kEqualProgress, 40);
  for (const auto policy : {CapacityPolicy::kMaxUtilization, CapacityPolicy::kGuaranteedNoEvict}) {
    o.policy = policy;
    EXPECT_EQ(rows_of(fake_of(9, 5), o, {request(1, 25, 1), request(2, 20, 1)}),
              (Rows{{20, 20}, {5}}));
    EXPECT_EQ(rows_of(fake_of(8, 5), o, {request(1, 25, 1), request(2, 20, 1)}),
              (Rows{{25}, {20}}));
  }
}

// The second prompt is computed before the first goes on.
TEST(PromptsFirst, ThoseWhoDecodeWait) {
  EngineOptions o = options_of(ChunkingPolicy::kFirstComeFirstServed, 5);
  const std::vector<GenerationRequest> requests{request(1, 5, 3), request(2, 10, 2)};
  EXPECT_EQ(rows_of(fake_of(40, 5), o, requests), (Rows{{5}, {1, 5}, {1, 5}, {1}}));
  o.prompts_first = true;
  EXPECT_EQ(rows_of(fake_of(40, 5), o, requests), (Rows{{5}, {5}, {5}, {1, 1}, {1}}));
}

// One place, kept by a client that does not read, under a policy that pauses nobody for room.
TEST(IdleSequence, GivesUpItsPlaceAndComesBack) {
  EngineOptions o = options_of(ChunkingPolicy::kFirstComeFirstServed, 100);
  o.policy = CapacityPolicy::kGuaranteedNoEvict;
  o.batch_size_max = 1;
  o.sequence_idle_max = 5ms;
  const FakeRunnerOptions fake = fake_of(40, 5);
  CoreDriver d(fake, o);
  const GenerationRequest slow_request = request(1, 8, 10);
  auto slow = d.add(slow_request);
  d.turn();
  slow->set_stalled(true);
  auto other = d.add(request(2, 8, 1));
  for (int i = 0; i < 5; ++i) d.turn();  // a turn takes a millisecond
  EXPECT_FALSE(other->done());
  d.turn();
  EXPECT_TRUE(other->done());
  EXPECT_EQ(d.core->stats().pauses, 1U);
  EXPECT_TRUE(d.core->any_stalled()) << "nobody would look whether the client reads again";
  slow->set_stalled(false);
  ASSERT_TRUE(d.run());
  slow->expect_complete(expected_output(fake, slow_request), false);
}

// A runner that cannot pause keeps it.
TEST(IdleSequence, StaysWhereNobodyCanBePaused) {
  EngineOptions o = options_of(ChunkingPolicy::kFirstComeFirstServed, 100);
  o.sequence_idle_max = 5ms;
  FakeRunnerOptions fake = fake_of(40, 5);
  fake.capabilities.grows_blocks = false;
  CoreDriver d(fake, o);
  auto slow = d.add(request(1, 8, 10));
  d.turn();
  slow->set_stalled(true);
  for (int i = 0; i < 20; ++i) d.turn();
  EXPECT_EQ(d.core->stats().pauses, 0U);
  slow->set_stalled(false);
  ASSERT_TRUE(d.run());
}

}  // namespace
}  // namespace coxswain::batch
