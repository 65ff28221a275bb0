// Beam searches through the engine: whatever runs beside them, they find what a plain program finds, which computes
// every beam anew in each step.

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"
#include "batch/testing/plain_beams.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunnerOptions;
using testing::plain_beam_search;
using testing::PlainBeam;
using testing::RequestMaker;
using testing::RequestRecorder;

FakeRunnerOptions beam_fake(std::uint32_t n_blocks = 400, std::uint32_t block_tokens = 4) {
  FakeRunnerOptions out;
  out.block_tokens = block_tokens;
  out.n_blocks = {n_blocks};
  out.capabilities.edits = true;
  out.capabilities.moves = true;
  out.capabilities.candidates_max = 64;
  out.about.eos_token_ids = {48, 49};
  return out;
}

GenerationRequest beam_request(std::uint32_t width, std::size_t n_prompt, std::uint32_t n_new) {
  GenerationRequest out;
  out.id = RequestId{1};
  for (std::size_t i = 0; i < n_prompt; ++i) out.prompt.push_back(static_cast<TokenId>(i % 50));
  out.stopping.max_new_tokens = n_new;
  out.beams.width = width;
  out.n_beam_answers = width;
  return out;
}

void expect_found(const RequestRecorder& sink,
                  const FakeRunnerOptions& fake,
                  const GenerationRequest& request) {
  const std::vector<PlainBeam> all = plain_beam_search(fake, request);
  ASSERT_GE(all.size(), sink.size());
  for (std::size_t i = 0; i < sink.size(); ++i) {
    const TokenEvent last = sink[i].final_event();
    ASSERT_TRUE(last.status.ok()) << last.status.message();
    EXPECT_EQ(sink[i].ids(), all[i].ids) << "answer " << i;
    std::vector<float> logprobs;
    for (const OutputToken& t : sink[i].tokens()) logprobs.push_back(t.logprob);
    EXPECT_EQ(logprobs, all[i].logprobs);
    EXPECT_EQ(last.finish->reason,
              all[i].at_end_token ? FinishReason::kEosToken : FinishReason::kLength);
  }
}

TEST(Beams, FourBeamsOfOneRequest) {
  const FakeRunnerOptions fake = beam_fake();
  CoreDriver driver(fake);
  const GenerationRequest request = beam_request(4, 11, 9);
  const auto sink = driver.add_all(request);
  ASSERT_NE(sink, nullptr) << driver.status.message();
  ASSERT_TRUE(driver.run());
  expect_found(*sink, fake, request);
  driver.expect_idle();
  EXPECT_TRUE(driver.runner->live().empty());
}

TEST(Beams, BlocksOfTheCommonBeginningAreShared) {
  // 12 whole blocks of the prompt once, and for each of 8 beams at most 3 of its own.
  const FakeRunnerOptions fake = beam_fake(1 + 12 + 8 * 3);
  CoreDriver driver(fake, {.prefix_caching = false});
  GenerationRequest request = beam_request(8, 50, 9);
  const auto sink = driver.add_all(request);
  ASSERT_NE(sink, nullptr) << driver.status.message();
  ASSERT_TRUE(driver.run());
  expect_found(*sink, fake, request);
  EXPECT_EQ(driver.core->stats().pauses, 0U);
  EXPECT_EQ(driver.core->stats().blocks_free, 12U + 8 * 3);
  request.stopping.max_new_tokens = 12;  // a block more for each
  EXPECT_EQ(driver.add_all(request), nullptr);
  EXPECT_EQ(driver.status.field(), kMaxNewTokensField);
}

GenerationRequest random_beams(RequestMaker& random) {
  constexpr std::array kPenalties{-0.5F, 0.0F, 1.0F, 2.0F};
  GenerationRequest request = random.make(24, 14);
  request.sampling = {};
  if (random.pick(3) == 0) return request;
  request.beams = {.width = 1 + static_cast<std::uint32_t>(random.pick(6)),
                   .length_penalty = kPenalties[random.pick(kPenalties.size())],
                   .early_stopping = static_cast<std::int32_t>(random.pick(3)),
                   .diversity_rate = random.pick(4) == 0 ? 0.5F : 0.0F};
  if (request.beams.width == 1) return request;
  if (random.pick(12) == 0) request.beams.width = kBeamWidthMax;
  request.n_beam_answers = 1 + static_cast<std::uint32_t>(random.pick(request.beams.width));
  request.stream_beams = random.pick(3) == 0;
  if (random.pick(4) == 0) request.stopping.end_ids = {3, 17, 30};
  return request;
}

TEST(Beams, WhateverRunsBesideThemTheyFindTheSame) {
  constexpr std::array kPolicies{CapacityPolicy::kAdaptive,
                                 CapacityPolicy::kMaxUtilization,
                                 CapacityPolicy::kGuaranteedNoEvict,
                                 CapacityPolicy::kStaticBatch};
  std::uint64_t n_pauses = 0;
  std::uint64_t n_searches = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RequestMaker random(seed);
    const auto block_tokens = std::uint32_t{2} << random.pick(4);
    constexpr std::array kCacheTokens{640U, 200U, 100U};
    FakeRunnerOptions fake =
        beam_fake(1 + kCacheTokens[random.pick(3)] / block_tokens, block_tokens);
    if (random.pick(4) == 0) {
      fake.n_blocks.push_back(fake.n_blocks[0]);
      fake.windows.push_back(9);
    }
    fake.capabilities.look_ahead = random.pick(4) != 0;
    const EngineOptions options{
        .policy = kPolicies[random.pick(kPolicies.size())],
        .batch_size_max = 16 + static_cast<std::uint32_t>(random.pick(16)),
        .prefill_tokens_max = 4 + static_cast<std::uint32_t>(random.pick(40)),
        .prefix_caching = random.pick(4) != 0};
    CoreDriver driver(fake, options);
    std::vector<std::pair<GenerationRequest, std::shared_ptr<RequestRecorder>>> sent;
    for (std::uint64_t n = 2 + random.pick(7); n > 0; --n) {
      const GenerationRequest request = random_beams(random);
      auto sink = driver.add_all(request);  // null: larger than the cache
      if (sink != nullptr) sent.emplace_back(request, std::move(sink));
      for (std::uint64_t turns = random.pick(6); turns > 0; --turns) driver.turn();
    }
    ASSERT_TRUE(driver.run());
    for (const auto& [request, sink] : sent) {
      if (request.beams.width > 1) {
        ++n_searches;
        expect_found(*sink, fake, request);
      } else {
        (*sink)[0].expect_complete(expected_output(fake, request), request.prompt_logprobs);
      }
    }
    n_pauses += driver.core->stats().pauses;
    driver.expect_idle();
    EXPECT_TRUE(driver.runner->live().empty());
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n_searches, 600U);
  EXPECT_GT(n_pauses, 50U);
}

TEST(Beams, OfAStreamTheBestComeWholeInEachStep) {
  const FakeRunnerOptions fake = beam_fake();
  CoreDriver driver(fake);
  GenerationRequest request = beam_request(3, 6, 8);
  request.stopping.ignore_eos = true;
  request.stream_beams = true;
  const auto sink = driver.add_all(request);
  ASSERT_NE(sink, nullptr);
  std::vector<std::size_t> lengths;
  sink->on_each = [&] { lengths.push_back((*sink)[2].tokens().size()); };
  ASSERT_TRUE(driver.run());
  ASSERT_EQ(lengths.size(), 3U * 8);
  for (std::size_t step = 0; step < 8; ++step) EXPECT_EQ(lengths[3 * step + 2], step + 1);
  expect_found(*sink, fake, request);
}

TEST(Beams, AFailedRowFailsEveryAnswerAndNobodyElse) {
  const FakeRunnerOptions fake = beam_fake();
  for (std::uint64_t failing = 1; failing < 7; ++failing) {
    CoreDriver driver(fake);
    int n_rows = 0;
    driver.runner->row_failure = [&](std::uint64_t step, const SequenceSpec& spec) {
      const bool fails = step == failing && spec.prompt.size() == 6 && ++n_rows == 2;
      return fails ? Status(Code::kInternal, "told to fail") : Status();
    };
    const auto beams = driver.add_all(beam_request(3, 6, 12));
    GenerationRequest other = beam_request(1, 7, 12);
    other.id = RequestId{2};
    const auto beside = driver.add(other);
    ASSERT_TRUE(driver.run());
    if (n_rows > 1) {
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ((*beams)[i].final_event().status.message(), "told to fail");
    }
    beside->expect_complete(expected_output(fake, other), false);
    driver.expect_idle();
    EXPECT_TRUE(driver.runner->live().empty());
  }
}

TEST(Beams, ACancelEndsThemAll) {
  CoreDriver driver(beam_fake());
  const auto sink = driver.add_all(beam_request(4, 6, 30));
  for (int i = 0; i < 5; ++i) driver.turn();
  driver.core->cancel(RequestId{1});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ((*sink)[i].final_event().status.code(), Code::kCancelled);
  ASSERT_TRUE(driver.run());
  driver.turn();
  driver.expect_idle();
  EXPECT_TRUE(driver.runner->live().empty());
}

// A search that has fewer beams from one step to the next: beams end with all their continuations.
TEST(Beams, WhereNearlyAllTokensAreForbiddenBeamsBecomeFewer) {
  FakeRunnerOptions fake = beam_fake();
  fake.few_candidates = true;
  fake.n_sampled = 9;
  std::size_t n_missing = 0;
  std::size_t n_long = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    CoreDriver driver(fake);
    GenerationRequest request = beam_request(2 + seed % 5, 1 + seed / 5, 12);
    request.stopping.end_ids = {0, 1};
    request.beams.early_stopping = 0;
    request.stream_beams = seed % 2 == 0;
    const auto sink = driver.add_all(request);
    ASSERT_NE(sink, nullptr) << driver.status.message();
    ASSERT_TRUE(driver.run());
    const std::vector<PlainBeam> all = plain_beam_search(fake, request);
    for (std::size_t i = 0; i < sink->size(); ++i) {
      const TokenEvent last = (*sink)[i].final_event();
      ASSERT_EQ(last.status.ok(), i < all.size()) << last.status.message();
      n_missing += i < all.size() ? 0 : 1;
      if (i >= all.size()) continue;
      EXPECT_EQ((*sink)[i].ids(), all[i].ids) << "answer " << i;
      n_long += all[i].ids.size() > 6 ? 1 : 0;
    }
    driver.expect_idle();
    EXPECT_TRUE(driver.runner->live().empty());
  }
  EXPECT_GT(n_missing, 20U);
  EXPECT_GT(n_long, 20U);
}

// A search that has few beams at first may have more later: who promises room to all promises it to these, too.
TEST(Beams, ARoomThatIsPromisedIsThatOfAllBeams) {
  FakeRunnerOptions fake = beam_fake(28);
  fake.few_candidates = true;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    CoreDriver driver(fake,
                      {.policy = CapacityPolicy::kGuaranteedNoEvict, .prefix_caching = false});
    RequestMaker random(seed);
    std::vector<std::pair<GenerationRequest, std::shared_ptr<RequestRecorder>>> sent;
    for (std::uint64_t i = 1; i <= 6; ++i) {
      GenerationRequest request =
          beam_request(2 + static_cast<std::uint32_t>(random.pick(5)), 3 + random.pick(14), 11);
      request.id = RequestId{i};
      request.prompt[0] = static_cast<TokenId>(random.pick(50));
      request.stopping.ignore_eos = true;
      request.n_beam_answers = 1;
      if (auto sink = driver.add_all(request)) sent.emplace_back(request, std::move(sink));
      for (std::uint64_t turns = random.pick(4); turns > 0; --turns) driver.turn();
    }
    ASSERT_TRUE(driver.run(2'000)) << "nobody finds a block any more";
    EXPECT_EQ(driver.core->stats().pauses, 0U);
    for (const auto& [request, sink] : sent) expect_found(*sink, fake, request);
    if (::testing::Test::HasFailure()) return;
  }
}

// Its final events say how many tokens it had told of.
TEST(Beams, AStreamThatIsCutCountsWhatItTold) {
  CoreDriver driver(beam_fake());
  GenerationRequest request = beam_request(4, 6, 30);
  request.stopping.ignore_eos = true;
  request.stream_beams = true;
  const auto sink = driver.add_all(request);
  for (int i = 0; i < 8; ++i) driver.turn();
  driver.core->cancel(RequestId{1});
  for (std::size_t i = 0; i < 4; ++i) {
    const TokenEvent last = (*sink)[i].final_event();
    EXPECT_EQ(last.status.code(), Code::kCancelled);
    EXPECT_GT(last.n_generated, 3U);
    EXPECT_EQ(last.n_generated, (*sink)[i].n_tokens());
    double sum = 0.0;
    for (const OutputToken& token : (*sink)[i].tokens()) sum += static_cast<double>(token.logprob);
    EXPECT_EQ(last.cumulative_logprob, sum);
  }
  ASSERT_TRUE(driver.run());
  driver.expect_idle();
}

TEST(Beams, WhatIsNotHonouredIsRefusedByName) {
  const auto refusal = [](const FakeRunnerOptions& fake, const auto& change) {
    GenerationRequest request = beam_request(4, 6, 5);
    change(request);
    CoreDriver driver(fake);
    EXPECT_EQ(driver.add_all(request), nullptr);
    return driver.status.message();
  };
  const FakeRunnerOptions fake = beam_fake();
  const auto none = [](GenerationRequest&) {};
  using G = GenerationRequest;
  EXPECT_EQ(refusal(fake, [](G& r) { r.beams.width = 17; }),
            "`beams` must have a width >= 1 and <= 16. Given: 17");
  EXPECT_EQ(refusal(fake, [](G& r) { r.draft = {5}; }),
            "a beam search takes no draft: it must be empty");
  EXPECT_EQ(refusal(fake, [](G& r) { r.beams.width = 0; }),
            "`beams` must have a width >= 1 and <= 16. Given: 0");
  EXPECT_EQ(refusal(fake, [](G& r) { r.beams.length_penalty = INFINITY; }),
            "`beams` must have a finite `length_penalty`. Given: inf");
  EXPECT_EQ(refusal(fake, [](G& r) { r.beams.diversity_rate = -1.0F; }),
            "`beams` must have a `diversity_rate` >= 0 and finite. Given: -1.000000");
  EXPECT_EQ(refusal(fake, [](G& r) { r.n_beam_answers = 5; }),
            "`n` must be >= 1 and <= the width of `beams`, 4. Given: 5");
  EXPECT_EQ(refusal(fake, [](G& r) { r.sampling.do_sample = true; }),
            "`beams` must be 1 wide beside `do_sample`. Given: true");
  EXPECT_EQ(refusal(fake, [](G& r) { r.stopping.stop_sequences = {"a"}; }),
            "`beams` must be 1 wide beside `stop_sequences`. Given: some");
  EXPECT_EQ(
      refusal(fake,
              [](G& r) { r.sampling.grammar.bytes = std::make_shared<const std::string>("g"); }),
      "`grammar` must be left out of a beam search. Given: one beside `beams`");
  EXPECT_EQ(refusal(fake, [](G& r) { r.sampling.thoughts.emplace(ThoughtBudget{.close = {3}}); }),
            "`thoughts` must be left out of a beam search. Given: some beside `beams`");
  EXPECT_EQ(refusal(fake, [](G& r) { r.sampling.xtc_probability = 0.5F; }),
            "`xtc_probability` must be 0 in a beam search, which draws nothing. Given: 0.500000");
  FakeRunnerOptions less = fake;
  less.capabilities.edits = false;
  EXPECT_EQ(refusal(less, none), "`beams` is not supported: this runner cannot edit sequences");
  less = fake;
  less.capabilities.moves = false;
  EXPECT_EQ(refusal(less, none), "`beams` is not supported: this runner cannot move blocks");
  less = fake;
  less.capabilities.candidates_max = 5;
  EXPECT_EQ(
      refusal(less, none),
      "`beams` is not supported: this runner lists 5 candidates, and width and end tokens are 6");
}

}  // namespace
}  // namespace coxswain::batch
