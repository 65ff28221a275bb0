#include "base/keyed_hash.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

// The example in appendix A of the paper, and the first of its authors' vectors.
TEST(KeyedHash, AgreesWithThePaper) {
  const std::array<std::uint64_t, 2> key{0x0706050403020100ULL, 0x0F0E0D0C0B0A0908ULL};
  std::string text;
  EXPECT_EQ(sip_hash(text, key, 2, 4), 0x726FDB47DD0E0E31ULL);
  for (char c = 0; c < 15; ++c) text += c;
  EXPECT_EQ(sip_hash(text, key, 2, 4), 0xA129CA6149BE45E5ULL);
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
