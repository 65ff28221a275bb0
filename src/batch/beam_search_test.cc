// What a BeamSearch chooses: by hand, and by a plain program over random scores.

#include "batch/beam_search.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"
#include "batch/testing/plain_beams.h"

namespace coxswain::batch {
namespace {

using testing::NextTokens;
using testing::plain_beam_search;
using testing::PlainBeam;
using testing::RequestMaker;

using Lists = std::vector<std::vector<TokenAlternative>>;

constexpr TokenId kEnd = 9;

TokenAlternative token(TokenId id, float logprob) {
  return {.id = id, .logprob = logprob, .special = id == kEnd, .text = std::to_string(id)};
}

std::vector<TokenId> ids_of(const BeamSearch::Answer& answer) {
  std::vector<TokenId> out;
  out.reserve(answer.tokens.size());
  for (const OutputToken& t : answer.tokens) out.push_back(t.id);
  return out;
}

TEST(BeamSearch, TheLikeliestContinuationsOfAllBeamsGoOn) {
  BeamSearch search({.width = 2}, 3, {});
  EXPECT_EQ(search.n_candidates(), 2U);
  using Children = std::vector<BeamSearch::Child>;
  EXPECT_EQ(search.step(Lists{{token(1, -1), token(2, -2)}}), (Children{{0, 1}, {0, 2}}));
  // Both of the second beam are likelier than any of the first.
  EXPECT_EQ(search.step(Lists{{token(3, -5), token(4, -6)}, {token(5, -1), token(6, -2)}}),
            (Children{{1, 5}, {1, 6}}));
  EXPECT_EQ(search.ids(0), (std::vector<TokenId>{2, 5}));
  EXPECT_EQ(search.step(Lists{{token(1, -1), token(2, -2)}, {token(7, -0.5), token(8, -3)}}),
            Children{});
  EXPECT_TRUE(search.ended());
  const auto found = search.best(2);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(ids_of(found[0]), (std::vector<TokenId>{2, 5, 1}));
  EXPECT_EQ(found[0].score, -4.0);
  EXPECT_EQ(ids_of(found[1]), (std::vector<TokenId>{2, 6, 7}));
  EXPECT_FALSE(found[0].at_end_token);
}

TEST(BeamSearch, AnEndTokenBehindTheFirstWidthIsNoAnswer) {
  BeamSearch search({.width = 2, .early_stopping = 0}, 4, {kEnd});
  EXPECT_EQ(search.n_candidates(), 3U);
  static_cast<void>(search.step(Lists{{token(1, -1), token(2, -2), token(kEnd, -3)}}));
  EXPECT_EQ(search.best(4).size(), 2U);  // the beams alone
  static_cast<void>(search.step(Lists{{token(kEnd, -0.5), token(2, -2), token(3, -3)},
                                      {token(3, -0.5), token(4, -4), token(kEnd, -5)}}));
  const auto found = search.best(4);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(ids_of(found[0]), (std::vector<TokenId>{1, kEnd}));
  EXPECT_TRUE(found[0].at_end_token);
}

TEST(BeamSearch, TiesGoToTheBetterBeamAndCandidate) {
  BeamSearch search({.width = 2}, 4, {});
  using Children = std::vector<BeamSearch::Child>;
  EXPECT_EQ(search.step(Lists{{token(7, -1), token(3, -1)}}), (Children{{0, 7}, {0, 3}}));
  EXPECT_EQ(search.step(Lists{{token(1, -1), token(2, -1)}, {token(1, -1), token(2, -1)}}),
            (Children{{0, 1}, {0, 2}}));
}

TEST(BeamSearch, DiversityPutsFurtherContinuationsOfABeamBack) {
  const Lists first{{token(1, -1), token(2, -1.5F)}};
  const Lists second{{token(3, -1), token(4, -1.1F)}, {token(5, -1), token(6, -1.1F)}};
  using Children = std::vector<BeamSearch::Child>;
  BeamSearch plain({.width = 2}, 4, {});
  static_cast<void>(plain.step(first));
  EXPECT_EQ(plain.step(second), (Children{{0, 3}, {0, 4}}));
  BeamSearch diverse({.width = 2, .diversity_rate = 0.5F}, 4, {});
  static_cast<void>(diverse.step(first));
  EXPECT_EQ(diverse.step(second), (Children{{0, 3}, {1, 5}}));
  EXPECT_EQ(diverse.best(1)[0].score, -2.0);
}

// Scores that follow from the tokens before them; now and then equal ones.
std::vector<TokenAlternative> scores(std::uint64_t seed,
                                     std::size_t n_vocab,
                                     const std::vector<TokenId>& output) {
  std::uint64_t h = seed * 0x9e3779b97f4a7c15U + 1;
  for (const TokenId id : output)
    h = (h ^ static_cast<std::uint64_t>(id + 1)) * 0xbf58476d1ce4e5b9U;
  std::vector<TokenAlternative> out;
  for (std::size_t id = 0; id < n_vocab; ++id) {
    h = (h ^ (h >> 29U)) * 0x94d049bb133111ebU + id;
    out.push_back(token(static_cast<TokenId>(id), -static_cast<float>((h >> 20U) % 800) / 100.0F));
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &TokenAlternative::logprob);
  return out;
}

std::vector<PlainBeam> search_by_step(const BeamParams& params,
                                      std::uint32_t n_new_max,
                                      const std::vector<TokenId>& end_ids,
                                      const NextTokens& next) {
  BeamSearch search(params, n_new_max, end_ids);
  while (!search.ended()) {
    Lists lists;
    for (std::size_t i = 0; i < search.n_beams(); ++i) {
      lists.push_back(next(search.ids(i)));
      lists.back().resize(std::min<std::size_t>(lists.back().size(), search.n_candidates()));
    }
    static_cast<void>(search.step(lists));
  }
  std::vector<PlainBeam> out;
  for (const BeamSearch::Answer& answer : search.best(params.width)) {
    PlainBeam& beam = out.emplace_back();
    beam.ids = ids_of(answer);
    for (const OutputToken& t : answer.tokens) {
      beam.logprobs.push_back(t.logprob);
      beam.sum += static_cast<double>(t.logprob);
    }
    beam.score = answer.score;
    beam.at_end_token = answer.at_end_token;
  }
  return out;
}

TEST(BeamSearch, FindsWhatAPlainProgramFinds) {
  constexpr std::array kPenalties{-1.0F, 0.0F, 0.7F, 1.0F, 2.5F};
  std::size_t n_at_end = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    RequestMaker random(seed);
    const BeamParams params{.width = 1 + static_cast<std::uint32_t>(random.pick(kBeamWidthMax)),
                            .length_penalty = kPenalties[random.pick(kPenalties.size())],
                            .early_stopping = static_cast<std::int32_t>(random.pick(3)),
                            .diversity_rate = random.pick(3) == 0 ? 0.3F : 0.0F};
    const std::uint32_t n_new_max = 1 + static_cast<std::uint32_t>(random.pick(9));
    const std::size_t n_vocab = 2 + random.pick(40);
    std::vector<TokenId> end_ids;
    for (std::uint64_t n = random.pick(4); n > 0; --n)
      end_ids.push_back(static_cast<TokenId>(random.pick(n_vocab)));
    std::ranges::sort(end_ids);
    end_ids.erase(std::unique(end_ids.begin(), end_ids.end()), end_ids.end());
    const NextTokens next = [&](const std::vector<TokenId>& output) {
      return scores(seed, n_vocab, output);
    };
    const auto expected = plain_beam_search(params, n_new_max, end_ids, next);
    ASSERT_EQ(search_by_step(params, n_new_max, end_ids, next), expected) << "seed " << seed;
    for (const PlainBeam& beam : expected) n_at_end += beam.at_end_token ? 1 : 0;
  }
  EXPECT_GT(n_at_end, 1000U);
}

TEST(BeamSearch, OneBeamIsGreedy) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const NextTokens next = [&](const std::vector<TokenId>& output) {
      return scores(seed, 30, output);
    };
    std::vector<TokenId> greedy;
    while (greedy.size() < 12 && (greedy.empty() || greedy.back() != kEnd))
      greedy.push_back(next(greedy).front().id);
    const auto found = search_by_step({.width = 1}, 12, {kEnd}, next);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].ids, greedy);
  }
}

}  // namespace
}  // namespace coxswain::batch
