// A folder that several models share: none takes blocks of another, and those of a model that is not served go first.

#include <cstdint>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "kvspill/testing/spill_tier_test.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::testing::FakeRunnerOptions;
using testing::fake_options;
using testing::Replica;
using testing::request;
using testing::SpillTierTest;

TEST_F(SpillTierTest, FilesOfAnotherModelAreLeftAlone) {
  {
    const Replica first(fake_options(), open());
    first.run(request(1, 1));
  }
  FakeRunnerOptions other = fake_options();
  other.about.model_fingerprint = 8;
  {
    const auto tier = open(other);
    const Replica second(other, tier);
    EXPECT_EQ(second.run(request(1, 1)), 0U);
    const Replica wrong(fake_options(), tier);  // a tier of another model's blocks
    wrong.run(request(1, 1));
    EXPECT_EQ(wrong.run(request(2, 1)), 56U);
    EXPECT_EQ(wrong.engine->stats().tier.blocks_onboarded, 0U);
  }
  const Replica again(fake_options(), open());
  EXPECT_EQ(again.run(request(1, 1)), 56U);
}

TEST_F(SpillTierTest, AModelThatIsNotServedGivesWay) {
  {
    const Replica first(fake_options(), open());
    first.run(request(1, 1));
  }
  const auto bytes = [&] {
    std::uint64_t n = 0;
    for (const fs::path& file : files()) n += fs::file_size(file);
    return n;
  };
  const std::uint64_t bytes_max = bytes() * 3 / 2;
  FakeRunnerOptions other = fake_options();
  other.about.model_fingerprint = 8;
  {
    const auto tier = open(other, bytes_max);
    const Replica second(other, tier);
    second.run(request(1, 1));
    while (tier->stats().blocks_held < 17) std::this_thread::yield();
    EXPECT_EQ(second.run(request(2, 1)), 56U);
  }
  EXPECT_LE(bytes(), bytes_max);
  EXPECT_GT(files().size(), 17U) << "no more has gone than had to";
  EXPECT_LT(files().size(), 34U);
  EXPECT_TRUE(warnings().empty());
}

}  // namespace
}  // namespace coxswain::kvspill
