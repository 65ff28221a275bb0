#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/philox.h"
#include "sampling/processors.h"
#include "sampling/test_rows.h"
#include "sampling/warpers.h"

namespace coxswain::sampling {
namespace {

SampleOutput sampled(Sampler& sampler,
                     const std::vector<float>& row,
                     const SamplingParams& params,
                     std::uint64_t position = 3) {
  auto out = sampler.sample({.logits = row, .params = &params, .position = position});
  EXPECT_TRUE(out.ok());
  return out.value();
}

double log_softmax(const std::vector<float>& row, std::size_t at) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const float v : row) sum += std::exp(static_cast<double>(v) - max);
  return static_cast<double>(row[at]) - max - std::log(sum);
}

TEST(Sampler, GreedyTakesTheMaximumAndTheLowestIdOfATie) {
  std::vector<float> row = random_row(3000, 2.0F, 1);
  row[700] = row[2100] = 11.0F;
  Sampler sampler(row.size());
  const SampleOutput plain = sampled(sampler, row, {});
  EXPECT_EQ(plain.token.id, 700);
  EXPECT_NEAR(plain.token.logprob, log_softmax(row, 700), 1e-5);
  EXPECT_TRUE(plain.top.empty());
}

TEST(Sampler, TheTwoGreedyPathsGiveTheSameBits) {
  for (const std::size_t n : {1u, 33u, 5000u, 128'256u}) {
    const auto row = random_row(n, 3.0F, static_cast<unsigned>(n));
    Sampler sampler(n);
    const ScoredToken plain = sampled(sampler, row, {}).token;
    const SampleOutput listed = sampled(sampler, row, {.n_top_tokens = 3});
    EXPECT_EQ(plain, listed.token);
    EXPECT_EQ(listed.top.front(), plain);
    EXPECT_EQ(listed.top.size(), std::min<std::size_t>(3, n));
  }
}

TEST(Sampler, WhatIsNotAllowedIsNotChosen) {
  const auto row = random_row(200, 2.0F, 7);
  Sampler sampler(row.size());
  std::vector<std::uint64_t> mask(4, 0);
  for (const std::size_t id : {3U, 70U, 71U, 199U}) mask[id / 64] |= std::uint64_t{1} << (id % 64);
  std::vector<float> few(row.size(), -std::numeric_limits<float>::infinity());
  for (const std::size_t id : {3U, 70U, 71U, 199U}) few[id] = row[id];
  for (const bool draws : {false, true}) {
    for (std::uint64_t position = 0; position < 50; ++position) {
      const SamplingParams params{.do_sample = draws, .seed = 4, .n_top_tokens = 2};
      const auto seen =
          sampler.sample({.logits = row, .params = &params, .position = position, .allowed = mask});
      ASSERT_TRUE(seen.ok());
      const ScoredToken token = seen->token;
      const std::vector<ScoredToken> top(seen->top.begin(), seen->top.end());
      const SampleOutput expected = sampled(sampler, few, params, position);
      EXPECT_EQ(token, expected.token);
      EXPECT_TRUE(std::equal(top.begin(), top.end(), expected.top.begin(), expected.top.end()));
    }
  }
  // What is forbidden gives way where nothing else is allowed.
  const std::vector<TokenId> forbidden = {3, 70, 71, 199};
  const SamplingParams greedy;
  EXPECT_TRUE(
      sampler.sample({.logits = row, .params = &greedy, .forbidden = forbidden, .allowed = mask})
          .ok());
  const std::vector<std::uint64_t> none(4, 0);
  const auto nothing = sampler.sample({.logits = row, .params = &greedy, .allowed = none});
  EXPECT_EQ(nothing.status().kind(), ErrorKind::kGeneration);
}

TEST(Sampler, ATemperatureBelowTheLimitIsGreedy) {
  const auto row = random_row(100, 1.0F, 2);
  Sampler sampler(row.size());
  const auto best = sampled(sampler, row, {}).token;
  EXPECT_EQ(sampled(sampler, row, {.do_sample = true, .temperature = 1e-7F}).token, best);
  EXPECT_EQ(sampled(sampler, row, {.do_sample = true, .temperature = 1e-6F}).token.id, best.id);
}

TEST(Sampler, ADrawDependsOnSeedAndPositionAlone) {
  const auto row = random_row(500, 1.0F, 3);
  Sampler one(row.size());
  Sampler other(row.size());
  const SamplingParams params{.do_sample = true, .seed = 42};
  std::vector<TokenId> forwards;
  for (std::uint64_t at = 0; at < 50; ++at)
    forwards.push_back(sampled(one, row, params, at).token.id);
  std::vector<TokenId> backwards;
  for (std::uint64_t at = 50; at-- > 0;)
    backwards.push_back(sampled(other, row, params, at).token.id);
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(forwards, backwards);
  SamplingParams reseeded = params;
  reseeded.seed = 43;
  std::vector<TokenId> different;
  for (std::uint64_t at = 0; at < 50; ++at)
    different.push_back(sampled(one, row, reseeded, at).token.id);
  EXPECT_NE(forwards, different);
}

// Pearson's test with bins of at least 5 expected draws.
void expect_distribution(const std::vector<float>& row,
                         const SamplingParams& base,
                         const std::vector<double>& expected) {
  constexpr int kDraws = 20'000;
  Sampler sampler(row.size());
  std::vector<int> seen(row.size(), 0);
  for (int draw = 0; draw < kDraws; ++draw) {
    SamplingParams params = base;
    params.seed = static_cast<std::uint64_t>(draw);
    ++seen[static_cast<std::size_t>(sampled(sampler, row, params).token.id)];
  }
  double chi_square = 0.0;
  double freedom = -1.0;
  double rest_expected = 0.0;
  double rest_seen = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double e = expected[i] * kDraws;
    if (expected[i] == 0.0) {
      EXPECT_EQ(seen[i], 0) << i;
    }
    if (e < 5.0) {
      rest_expected += e;
      rest_seen += seen[i];
      continue;
    }
    chi_square += (seen[i] - e) * (seen[i] - e) / e;
    freedom += 1.0;
  }
  if (rest_expected >= 5.0) {
    chi_square += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    freedom += 1.0;
  }
  // Mean + 5 standard deviations: the seeds are fixed, so this either always holds or never.
  EXPECT_LT(chi_square, freedom + 5.0 * std::sqrt(2.0 * std::max(freedom, 1.0)));
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const auto row = random_row(40, 1.5F, 4);
  std::vector<double> p(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) p[i] = std::exp(log_softmax(row, i));
  expect_distribution(row, {.do_sample = true}, p);

  std::vector<float> sorted = row;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    p[i] = row[i] >= sorted[9] ? std::exp(static_cast<double>(row[i]) / 1.7) : 0.0;
    sum += p[i];
  }
  for (double& v : p) v /= sum;
  expect_distribution(row, {.do_sample = true, .temperature = 1.7F, .top_k = 10}, p);
}

TEST(Sampler, DrawsReachAcrossBlocksOfALargeVocabulary) {
  std::vector<float> row(5000, -1e30F);
  row[10] = row[1500] = row[3333] = row[4999] = 2.0F;
  std::vector<double> p(row.size(), 0.0);
  p[10] = p[1500] = p[3333] = p[4999] = 0.25;
  expect_distribution(row, {.do_sample = true}, p);
}

TEST(Sampler, NanFailsAndExtremesDoNot) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Sampler sampler(4);
  TokenCounts counts;
  counts.reset(std::vector<TokenId>{0, 1}, 1);
  for (const bool do_sample : {false, true}) {
    const SamplingParams params{.do_sample = do_sample};
    const std::vector<float> bad = {0.0F, nan, 1.0F, 2.0F};
    const auto failed = sampler.sample({.logits = bad, .params = &params});
    EXPECT_EQ(failed.status().kind(), ErrorKind::kGeneration);
    EXPECT_FALSE(logprob_of(bad, 0).ok());
    for (const std::vector<float>& row : {std::vector<float>{inf, inf, -inf, 0.0F},
                                          std::vector<float>(4, -inf),
                                          std::vector<float>(4, inf)}) {
      const SamplingParams extreme{.do_sample = do_sample,
                                   .temperature = 1e-6F,
                                   .top_k = 2'000'000'000,
                                   .top_p = 1e-30F,
                                   .typical_p = 1e-30F,
                                   .min_p = 0.999F,
                                   .repetition_penalty = 1e30F,
                                   .relative_frequency_penalty = 2.0F,
                                   .frequency_penalty = -2.0F,
                                   .presence_penalty = 2.0F,
                                   .seed = 5,
                                   .n_top_tokens = 4};
      const auto out = sampler.sample({.logits = row, .params = &extreme, .counts = &counts});
      ASSERT_TRUE(out.ok());
      EXPECT_TRUE(std::isfinite(out->token.logprob));
      EXPECT_GE(out->top.size(), 1u);
    }
  }
}

// The mask of these ids, for a row of n.
std::vector<std::uint64_t> mask_of(std::size_t n, const std::vector<TokenId>& ids) {
  std::vector<std::uint64_t> mask((n + 63) / 64, 0);
  for (const TokenId id : ids)
    mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << id % 64;
  return mask;
}

TEST(Sampler, OnlyAllowedTokensAreChosenAndCounted) {
  const auto row = random_row(300, 2.0F, 12);
  const std::vector<TokenId> ids = {3, 64, 127, 299};
  const auto mask = mask_of(row.size(), ids);
  std::vector<float> left;
  left.reserve(ids.size());
  for (const TokenId id : ids) left.push_back(row[static_cast<std::size_t>(id)]);
  const std::size_t best =
      static_cast<std::size_t>(std::max_element(left.begin(), left.end()) - left.begin());
  Sampler sampler(row.size());
  const SamplingParams greedy;
  const auto chosen = sampler.sample({.logits = row, .params = &greedy, .allowed = mask});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->token.id, ids[best]);
  EXPECT_NEAR(chosen->token.logprob, log_softmax(left, best), 1e-5);
  std::vector<int> seen(row.size(), 0);
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    // A top-k of the whole row would leave none of them: it is taken of what is allowed.
    const SamplingParams drawn{
        .do_sample = true, .temperature = 3.0F, .top_k = 3, .seed = seed, .n_top_tokens = 9};
    const auto out = sampler.sample({.logits = row, .params = &drawn, .allowed = mask});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->top.size(), 3U);
    ++seen[static_cast<std::size_t>(out->token.id)];
  }
  for (std::size_t i = 0; i < row.size(); ++i)
    EXPECT_TRUE(seen[i] == 0 || mask_of(row.size(), ids)[i / 64] >> (i % 64) & 1) << i;
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](int n) { return n > 0; }), 3);
}

TEST(Sampler, ForbiddenTokensLeaveOnlyIfAnAllowedOneStays) {
  const std::vector<float> row = {4.0F, 3.0F, 2.0F, 1.0F};
  const auto mask = mask_of(row.size(), {1, 3});
  Sampler sampler(row.size());
  const SamplingParams greedy;
  const auto id_without = [&](const std::vector<TokenId>& forbidden) {
    return sampler
        .sample({.logits = row, .params = &greedy, .forbidden = forbidden, .allowed = mask})
        ->token.id;
  };
  EXPECT_EQ(id_without({}), 1);
  EXPECT_EQ(id_without({1}), 3);
  EXPECT_EQ(id_without({1, 3}), 1);
  EXPECT_EQ(id_without({0, 2}), 1);
}

TEST(Sampler, AGrammarThatAllowsNothingFails) {
  const float low = -std::numeric_limits<float>::infinity();
  const std::vector<float> row = {1.0F, low, 2.0F};
  Sampler sampler(row.size());
  for (const SamplingParams& params : {SamplingParams{},
                                       SamplingParams{.do_sample = true},
                                       SamplingParams{.allowed_tokens = {1}}}) {
    const bool has_list = !params.allowed_tokens.empty();
    for (const auto& mask :
         {mask_of(3, {}), mask_of(3, {1}), std::vector<std::uint64_t>{~0x7ULL}}) {
      const auto out = sampler.sample({.logits = row, .params = &params, .allowed = mask});
      EXPECT_EQ(out.status().code(), has_list ? Code::kInvalidArgument : Code::kInternal);
      EXPECT_EQ(out.status().kind(), ErrorKind::kGeneration);
      EXPECT_EQ(out.status().field(), has_list ? "allowed_token_ids" : "");
      EXPECT_EQ(out.status().message(),
                "the model has no token here that the grammar or the allowed tokens of the "
                "request let through");
    }
    EXPECT_TRUE(
        sampler.sample({.logits = row, .params = &params, .allowed = mask_of(3, {2})}).ok());
  }
}

TEST(Sampler, StepsFollowTheOrderOfTheRequest) {
  using Step = SamplerStep;
  const auto row = random_row(400, 2.0F, 12);
  Sampler sampler(row.size(), 400);
  SamplingParams params{.do_sample = true,
                        .temperature = 3.0F,
                        .top_k = 60,
                        .top_p = 0.8F,
                        .min_p = 0.1F,
                        .n_top_tokens = 400};
  // Each id that is left with the log-softmax of what is left, by the functions of the steps in turn.
  const auto expect = [&](std::vector<Step> named, const std::vector<Step>& turns) {
    params.samplers = std::move(named);
    CandidateSet set(row.size());
    ASSERT_TRUE(set.assign(row));
    for (const Step step : turns) {
      if (step == Step::kTemperature) apply_temperature(set, params.temperature);
      if (step == Step::kTopK) keep_top_k(set, 60);
      if (step == Step::kTopP) keep_top_p(set, params.top_p);
      if (step == Step::kMinP) keep_min_p(set, params.min_p);
    }
    const SampleOutput out = sampled(sampler, row, params);
    ASSERT_EQ(out.top.size(), set.size());
    const std::vector<float> left(set.scores().begin(), set.scores().end());
    for (const ScoredToken& token : out.top) {
      const auto at = set.index_of(token.id);
      ASSERT_TRUE(at);
      EXPECT_NEAR(token.logprob, log_softmax(left, *at), 1e-5);
    }
  };
  expect({}, {Step::kTemperature, Step::kTopK, Step::kTopP, Step::kMinP});
  expect({Step::kTopP, Step::kMinP, Step::kTopK, Step::kTemperature},
         {Step::kTopP, Step::kMinP, Step::kTopK, Step::kTemperature});
  expect({Step::kMinP, Step::kTemperature, Step::kTopP},
         {Step::kMinP, Step::kTemperature, Step::kTopP});
  expect({Step::kXtc, Step::kDry, Step::kTopNSigma, Step::kEta}, {});
}

TEST(Sampler, EveryStepStandsInTheDefaultOrderOnce) {
  std::vector<SamplerStep> steps(kSamplerOrder.begin(), kSamplerOrder.end());
  std::sort(steps.begin(), steps.end());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<SamplerStep>(i));
}

TEST(Sampler, XtcActsWhereItsOwnDrawSaysSo) {
  const std::vector<float> row = {2.0F, 1.9F, 1.8F, -3.0F};
  Sampler sampler(row.size());
  SamplingParams params{.do_sample = true, .seed = 5, .n_top_tokens = 4, .xtc_probability = 0.3F};
  std::size_t n_acted = 0;
  for (std::uint64_t position = 0; position < 300; ++position) {
    const bool acts = uniform_draw(5, position, DrawPurpose::kTopChoices) < 0.3;
    const SampleOutput out = sampled(sampler, row, params, position);
    EXPECT_EQ(out.top.size(), acts ? 2U : 4U);
    EXPECT_EQ(out.top.front().id, acts ? 2 : 0);
    n_acted += acts ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(n_acted), 90.0, 30.0);
  params.xtc_probability = 1.0F;
  EXPECT_EQ(sampled(sampler, row, params).top.front().id, 2);
  params.do_sample = false;  // nothing is drawn
  EXPECT_EQ(sampled(sampler, row, params).token.id, 0);
}

TEST(Sampler, TiesBeyondTheLimitAreLeftOut) {
  const std::vector<float> row(1000, 1.0F);
  Sampler sampler(row.size());
  const SampleOutput out = sampled(sampler, row, {.n_top_tokens = 2});
  ASSERT_EQ(out.top.size(), kTopTokensMax);
  EXPECT_EQ(out.top.back().id, static_cast<TokenId>(kTopTokensMax - 1));
}

TEST(Sampler, AsManyAlternativesAsAreAskedFor) {
  const auto row = random_row(5000, 3.0F, 11);
  Sampler sampler(row.size(), kLocalTopTokensMax);
  const SampleOutput out = sampled(sampler, row, {.n_top_tokens = kLocalTopTokensMax});
  std::vector<TokenId> best(row.size());
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = static_cast<TokenId>(i);
  std::stable_sort(best.begin(), best.end(), [&](TokenId a, TokenId b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  ASSERT_EQ(out.top.size(), kLocalTopTokensMax);
  for (std::size_t i = 0; i < out.top.size(); ++i) {
    EXPECT_EQ(out.top[i].id, best[i]);
    EXPECT_NEAR(out.top[i].logprob, log_softmax(row, static_cast<std::size_t>(best[i])), 1e-5);
  }
}

TEST(Sampler, LogprobOfIsLogSoftmax) {
  const auto row = random_row(1000, 4.0F, 8);
  for (const TokenId id : {0, 7, 999}) {
    EXPECT_NEAR(logprob_of(row, id).value(), log_softmax(row, static_cast<std::size_t>(id)), 1e-5);
  }
}

// A forced id is chosen whatever the scores are, with the log-probability that they give it.
TEST(Sampler, AForcedIdIsChosen) {
  const std::vector<float> row = {1.0F, 3.0F, 2.0F, 0.0F};
  Sampler sampler(row.size());
  SamplingParams params;
  const auto forced = [&](TokenId id) {
    return sampler.sample({.logits = row, .params = &params, .forced = id})->token;
  };
  for (const bool do_sample : {false, true}) {
    params = {.do_sample = do_sample};
    for (TokenId id = 0; id < 4; ++id) {
      EXPECT_EQ(forced(id).id, id);
      EXPECT_NEAR(forced(id).logprob, logprob_of(row, id).value(), 1e-6F);
    }
    params.top_k = 2;
    EXPECT_EQ(forced(3), (ScoredToken{3, 0.0F}));        // it did not survive
    EXPECT_NEAR(forced(2).logprob, -1.3132617F, 1e-6F);  // -log(1 + e)
  }
}

}  // namespace
}  // namespace coxswain::sampling
