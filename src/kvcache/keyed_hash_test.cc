#include "kvcache/keyed_hash.h"

#include <vector>

#include <gtest/gtest.h>

namespace coxswain::kvcache {
namespace {

// Vectors of the paper's appendix: key 00..0f, input 00, 01, .. of the given length.
TEST(KeyedHash, MatchesThePublishedVectors) {
  const HashKey key{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
  std::vector<std::byte> input;
  for (unsigned i = 0; i < 15; ++i) input.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(keyed_hash(key, input), 0xa129ca6149be45e5U);
  EXPECT_EQ(keyed_hash(key, std::span(input).first(0)), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(keyed_hash(key, std::span(input).first(1)), 0x74f839c593dc67fdU);
  EXPECT_EQ(keyed_hash(key, std::span(input).first(8)), 0x93f5f5799a932462U);
}

TEST(KeyedHash, DependsOnTheKey) {
  const std::vector<std::byte> input(64);
  EXPECT_NE(keyed_hash({1, 2}, input), keyed_hash({1, 3}, input));
}

}  // namespace
}  // namespace coxswain::kvcache
