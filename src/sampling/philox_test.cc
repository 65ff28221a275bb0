#include "sampling/philox.h"

#include <gtest/gtest.h>

namespace coxswain::sampling {
namespace {

// Published known answers of the generator's authors (Random123, philox 4x32-10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u}));
  const std::uint32_t ones = 0xFFFFFFFFu;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408F276Du, 0x41C83B0Eu, 0xA20BC7C6u, 0x6D5451FDu}));
  EXPECT_EQ(philox4x32_10({0x243F6A88u, 0x85A308D3u, 0x13198A2Eu, 0x03707344u},
                          {0xA4093822u, 0x299F31D0u}),
            (PhiloxCounter{0xD16CFE09u, 0x94FDCCEBu, 0x5001E420u, 0x24126EA1u}));
}

TEST(Philox, DrawsAreUniformAndDependOnEveryArgument) {
  double sum = 0.0;
  double squares = 0.0;
  constexpr int kDraws = 100'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double u = uniform_draw(7, i, DrawPurpose::kToken);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3.0, 0.005);
  const double base = uniform_draw(1, 1, DrawPurpose::kToken);
  EXPECT_NE(base, uniform_draw(2, 1, DrawPurpose::kToken));
  EXPECT_NE(base, uniform_draw(1ULL << 32, 1, DrawPurpose::kToken));
  EXPECT_NE(base, uniform_draw(1, 2, DrawPurpose::kToken));
  EXPECT_NE(base, uniform_draw(1, 1ULL << 32, DrawPurpose::kToken));
  EXPECT_NE(base, uniform_draw(1, 1, static_cast<DrawPurpose>(1)));
}

}  // namespace
}  // namespace coxswain::sampling
