#include "base/keyed_hash.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

// Vectors of the paper's appendix: key 00..0f, input 00, 01, .. of the given length.
TEST(SipHash, MatchesThePublishedVectors) {
  const HashKey key{0x0706050403020100U, 0x0F0E0D0C0B0A0908U};
  std::vector<std::byte> input;
  for (unsigned i = 0; i < 15; ++i) input.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(sip_hash(input, key, kSip24), 0xA129CA6149BE45E5U);
  EXPECT_EQ(sip_hash(std::span(input).first(0), key, kSip24), 0x726FDB47DD0E0E31U);
  EXPECT_EQ(sip_hash(std::span(input).first(1), key, kSip24), 0x74F839C593DC67FDU);
  EXPECT_EQ(sip_hash(std::span(input).first(8), key, kSip24), 0x93F5F5799A932462U);
}

TEST(SipHash, DependsOnTheKeyAndOnTheRounds) {
  const std::vector<std::byte> input(64);
  EXPECT_NE(sip_hash(input, {1, 2}, kSip24), sip_hash(input, {1, 3}, kSip24));
  EXPECT_NE(sip_hash(input, {1, 2}, kSip24), sip_hash(input, {1, 2}, kSip13));
}

TEST(KeyedHash, IsTheSameWithinAProcessAndTellsTextsApart) {
  std::set<std::size_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string text(static_cast<std::size_t>(i % 20), 'a');
    const std::string whole = text + std::to_string(i);
    EXPECT_EQ(keyed_hash(whole), keyed_hash(whole));
    seen.insert(keyed_hash(whole));
  }
  EXPECT_EQ(seen.size(), 1000U);
}

}  // namespace
}  // namespace coxswain::base
