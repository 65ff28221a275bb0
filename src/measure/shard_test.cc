#include "measure/shard.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace coxswain::measure {
namespace {

TEST(MakePrompt, HasExactlyTheLength) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  const auto tokenizer = tokenizer::Tokenizer::load(std::string(root) + "/models/demo");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  std::vector<TokenId> longest;
  for (const std::uint32_t n : {5000U, 1000U, 10U, 1U}) {
    const auto prompt = make_prompt(**tokenizer, n);
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    EXPECT_EQ(prompt->size(), n);
    if (longest.empty()) longest = *prompt;
    EXPECT_TRUE(std::equal(prompt->begin(), prompt->end(), longest.begin())) << n;
  }
}

TEST(ConnectShard, NobodyListens) {
  const Settings settings{.master_shard_uds_path = ::testing::TempDir() + "nobody-0"};
  const auto runner = connect_shard(settings, nullptr);
  EXPECT_EQ(runner.status().code(), Code::kUnavailable);
  EXPECT_NE(runner.status().message().find(settings.master_shard_uds_path), std::string::npos)
      << runner.status().message();
}

}  // namespace
}  // namespace coxswain::measure
