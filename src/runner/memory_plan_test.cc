#include "runner/memory_plan.h"

#include <gtest/gtest.h>

namespace coxswain::runner {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MemoryRequest request_of(std::uint64_t available) {
  return {.available_bytes = available,
          .weight_bytes = 2 * kGiB,
          .workspace_bytes = kGiB / 4,
          .block_bytes = 1 << 20,
          .block_tokens = 16,
          .total_tokens_max = 0,
          .position_max = 2048,
          .batch_size_max = 4};
}

TEST(MemoryPlan, TakesWhatIsUsefulAndNoMore) {
  const auto plan = plan_memory(request_of(100 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_blocks, 1u + 4 * 2048 / 16);
  EXPECT_EQ(plan->kv_tokens(), 4u * 2048);
  EXPECT_EQ(plan->total_tokens_max, 2048u);
  EXPECT_EQ(plan->kv_bytes, std::uint64_t{plan->n_blocks} << 20);
}

TEST(MemoryPlan, TakesWhatIsThereIfThatIsLess) {
  const auto plan = plan_memory(request_of(3 * kGiB));
  ASSERT_TRUE(plan.ok());
  const std::uint64_t planned =
      plan->weight_bytes + plan->workspace_bytes + plan->kv_bytes + plan->reserve_bytes;
  EXPECT_LE(planned, 3 * kGiB);
  EXPECT_GT(planned + (1 << 20), 3 * kGiB);
}

TEST(MemoryPlan, TheLongestRequestIsWhatTheCacheHolds) {
  MemoryRequest request = request_of(100 * kGiB);
  request.kv_bytes = 11 << 20;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_blocks, 11u);
  EXPECT_EQ(plan->total_tokens_max, 160u);
  request.total_tokens_max = 100;
  EXPECT_EQ(plan_memory(request)->total_tokens_max, 100u);
}

TEST(MemoryPlan, ErrorsNameWhatToLower) {
  const auto no_room = plan_memory(request_of(2 * kGiB));
  EXPECT_EQ(no_room.status().code(), Code::kResourceExhausted);
  MemoryRequest request = request_of(3 * kGiB);
  request.kv_bytes = 2 * kGiB;
  EXPECT_NE(plan_memory(request).status().message().find("KV cache of 2.00 GiB"),
            std::string::npos);
  request.kv_bytes = 3 << 20;
  request.total_tokens_max = 64;
  EXPECT_NE(plan_memory(request).status().message().find(
                "raise --kv-cache-bytes-max or lower --max-total-tokens"),
            std::string::npos);
  EXPECT_TRUE(check_weights_fit(3 * kGiB, 2 * kGiB).ok());
  EXPECT_EQ(check_weights_fit(2 * kGiB, 2 * kGiB).code(), Code::kResourceExhausted);
}

TEST(MemoryPlan, PrintsOneLineForEachPart) {
  const auto lines = plan_memory(request_of(100 * kGiB))->to_lines();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "weights      2.00 GiB");
  EXPECT_EQ(lines[1], "kv cache    513.0 MiB  8192 tokens in 513 blocks of 16");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
}

}  // namespace
}  // namespace coxswain::runner
