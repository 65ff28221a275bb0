#include "fleet/prefix_hints.h"

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

// Ids begin + 0, begin + 1, ...
batch::GenerationRequest prompt_of(std::size_t n, TokenId begin = 0) {
  batch::GenerationRequest out;
  for (std::size_t i = 0; i < n; ++i) out.prompt.push_back(begin + static_cast<TokenId>(i));
  return out;
}

TEST(PrefixHints, APromptIsKnownByItsBeginnings) {
  PrefixHints hints;
  EXPECT_TRUE(hints.keys(prompt_of(63)).empty());
  EXPECT_EQ(hints.keys(prompt_of(64)).size(), 1U);
  EXPECT_EQ(hints.keys(prompt_of(511)).size(), 3U);
  const auto long_keys = hints.keys(prompt_of(600));
  const auto short_keys = hints.keys(prompt_of(130));
  ASSERT_EQ(short_keys.size(), 2U);
  EXPECT_EQ(short_keys[0], long_keys[0]);
  EXPECT_EQ(short_keys[1], long_keys[1]);
  EXPECT_NE(hints.keys(prompt_of(64, 1)), hints.keys(prompt_of(64)));
}

TEST(PrefixHints, SaltAndAdapterAreOthers) {
  PrefixHints hints;
  batch::GenerationRequest salted = prompt_of(64);
  salted.cache_salt = "ab";
  batch::GenerationRequest adapted = prompt_of(64);
  adapted.adapter_digest = "ab";
  EXPECT_NE(hints.keys(salted), hints.keys(prompt_of(64)));
  EXPECT_NE(hints.keys(adapted), hints.keys(prompt_of(64)));
  EXPECT_NE(hints.keys(adapted), hints.keys(salted));
}

TEST(PrefixHints, TheLongestBeginningDecides) {
  PrefixHints hints;
  hints.note(hints.keys(prompt_of(64)), 0);
  EXPECT_EQ(hints.replica_of(hints.keys(prompt_of(256))), 0U);
  hints.note(hints.keys(prompt_of(256)), 1);
  EXPECT_EQ(hints.replica_of(hints.keys(prompt_of(300))), 1U);
  EXPECT_EQ(hints.longest(hints.keys(prompt_of(300)))->n_tokens, 256U);
  EXPECT_EQ(hints.longest(hints.keys(prompt_of(200)))->n_tokens, 128U);
  batch::GenerationRequest fork = prompt_of(100);
  fork.prompt.resize(300, 7);
  EXPECT_EQ(hints.replica_of(hints.keys(fork)), 1U) << "it went there last";
  EXPECT_EQ(hints.replica_of(hints.keys(prompt_of(64, 5))), std::nullopt);
  hints.forget(1);
  EXPECT_EQ(hints.replica_of(hints.keys(prompt_of(300))), std::nullopt);
  EXPECT_EQ(hints.size(), 0U);
}

TEST(PrefixHints, TheLeastUsedGoesFirst) {
  PrefixHints hints(2);
  hints.note(hints.keys(prompt_of(64, 1)), 0);
  hints.note(hints.keys(prompt_of(64, 2)), 1);
  hints.note(hints.keys(prompt_of(64, 1)), 0);
  hints.note(hints.keys(prompt_of(64, 3)), 1);
  EXPECT_EQ(hints.size(), 2U);
  EXPECT_EQ(hints.replica_of(hints.keys(prompt_of(64, 1))), 0U);
  EXPECT_EQ(hints.replica_of(hints.keys(prompt_of(64, 2))), std::nullopt);
}

}  // namespace
}  // namespace coxswain::fleet
