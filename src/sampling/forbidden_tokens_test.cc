#include "sampling/forbidden_tokens.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "sampling/sampler.h"
#include "sampling/test_rows.h"

namespace coxswain::sampling {
namespace {

using Ids = std::vector<TokenId>;

// ---- plain programs that say the same in another way: try each id, and look at the text that it would make ----

std::size_t count_of(const Ids& text, const Ids& piece) {
  std::size_t n = 0;
  for (std::size_t at = 0; at + piece.size() <= text.size(); ++at)
    n += std::equal(piece.begin(), piece.end(), text.begin() + static_cast<std::ptrdiff_t>(at));
  return n;
}

bool ends_in(const Ids& text, const Ids& piece) {
  return piece.size() <= text.size() && std::equal(piece.rbegin(), piece.rend(), text.rbegin());
}

bool is_forbidden(const Ids& prompt,
                  const Ids& output,
                  const SamplingParams& sampling,
                  const StoppingParams& stopping,
                  const Ids& end_ids,
                  TokenId next) {
  Ids text = prompt;
  text.insert(text.end(), output.begin(), output.end());
  text.push_back(next);
  for (const Ids& word : sampling.bad_words) {
    if (ends_in(text, word)) return true;
  }
  const std::size_t n = sampling.no_repeat_ngram_size;
  if (n > 0 && text.size() > n) {
    const Ids last(text.end() - static_cast<std::ptrdiff_t>(n), text.end());
    if (count_of(text, last) > 1) return true;
  }
  const bool ends = std::find(end_ids.begin(), end_ids.end(), next) != end_ids.end();
  return ends && output.size() < stopping.min_new_tokens;
}

Ids some_ids(std::mt19937& random, std::size_t n, TokenId n_ids) {
  Ids out(n);
  for (TokenId& id : out) id = static_cast<TokenId>(random() % static_cast<std::uint32_t>(n_ids));
  return out;
}

TEST(ForbiddenTokens, AreThoseThatAPlainProgramFinds) {
  constexpr TokenId kIds = 5;  // few, so that words and n-grams come often
  std::mt19937 random(9);
  std::size_t n_forbidden = 0;
  for (int round = 0; round < 2000; ++round) {
    const Ids prompt = some_ids(random, 1 + random() % 12, kIds);
    const Ids output = some_ids(random, random() % 12, kIds);
    SamplingParams sampling;
    sampling.no_repeat_ngram_size = static_cast<std::uint32_t>(random() % 5);
    for (std::size_t i = random() % 4; i > 0; --i)
      sampling.bad_words.push_back(some_ids(random, 1 + random() % 3, kIds));
    StoppingParams stopping;
    stopping.min_new_tokens = static_cast<std::uint32_t>(random() % 12);
    const Ids end_ids = some_ids(random, random() % 3, kIds);
    Ids seen = {99};
    find_forbidden({.prompt = prompt, .output = output}, sampling, stopping, end_ids, seen);
    Ids expected;
    for (TokenId id = 0; id < kIds; ++id) {
      if (is_forbidden(prompt, output, sampling, stopping, end_ids, id)) expected.push_back(id);
    }
    ASSERT_EQ(seen, expected) << round;
    n_forbidden += seen.size();
    if (!may_forbid(sampling, stopping)) {
      ASSERT_TRUE(seen.empty());
    }
  }
  EXPECT_GT(n_forbidden, 1000U);
}

TEST(ForbiddenTokens, AWordMayBeginInThePrompt) {
  SamplingParams sampling;
  sampling.bad_words = {{1, 2, 3}, {7}};
  Ids ids;
  const Ids prompt = {0, 1};
  const Ids output = {2};
  find_forbidden({.prompt = prompt, .output = output}, sampling, {}, {}, ids);
  EXPECT_EQ(ids, (Ids{3, 7}));
}

TEST(ForbiddenTokens, TheSamplerLeavesThemOutUnlessNoOtherIsLeft) {
  const auto row = random_row(500, 2.0F, 6);
  Sampler sampler(row.size());
  SamplingParams params{.n_top_tokens = 1};
  const Ids best{sampler.sample({.logits = row, .params = &params})->token.id};
  for (const bool do_sample : {false, true}) {
    params.do_sample = do_sample;
    params.top_k = do_sample ? 1 : 0;
    // As if the model had never offered it.
    auto masked = row;
    masked[static_cast<std::size_t>(best[0])] = -std::numeric_limits<float>::infinity();
    const ScoredToken expected = sampler.sample({.logits = masked, .params = &params})->token;
    EXPECT_EQ(sampler.sample({.logits = row, .params = &params, .forbidden = best})->token,
              expected);
    Ids all(row.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<TokenId>(i);
    EXPECT_EQ(sampler.sample({.logits = row, .params = &params, .forbidden = all})->token.id,
              best[0]);
  }
}

}  // namespace
}  // namespace coxswain::sampling
