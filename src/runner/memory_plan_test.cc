#include "runner/memory_plan.h"

#include <cstdio>
#include <vector>

#include <coxswain/kv_layout.h>
#include <gtest/gtest.h>

namespace coxswain::runner {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MemoryRequest request_of(std::uint64_t available) {
  return {.available_bytes = available,
          .weight_bytes = 2 * kGiB,
          .workspace_bytes = kGiB / 4,
          .groups = {{.bytes_per_block = 1 << 20}},
          .block_tokens = 16,
          .total_tokens_max = 0,
          .position_max = 2048,
          .batch_size_max = 4,
          .row_tokens_max = 256};
}

TEST(MemoryPlan, TakesWhatIsUsefulAndNoMore) {
  const auto plan = plan_memory(request_of(100 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->groups[0].n_blocks, 1u + 4 * 2048 / 16);
  EXPECT_EQ(plan->kv_tokens, 4u * 2048);
  EXPECT_EQ(plan->total_tokens_max, 2048u);
  EXPECT_EQ(plan->kv_bytes, std::uint64_t{plan->groups[0].n_blocks} << 20);
}

TEST(MemoryPlan, TakesWhatIsThereIfThatIsLess) {
  const auto plan = plan_memory(request_of(3 * kGiB));
  ASSERT_TRUE(plan.ok());
  const std::uint64_t planned =
      plan->weight_bytes + plan->workspace_bytes + plan->kv_bytes + plan->reserve_bytes;
  EXPECT_LE(planned, 3 * kGiB);
  EXPECT_GT(planned + (1 << 20), 3 * kGiB);
}

TEST(MemoryPlan, TakesAShareOfWhatIsThere) {
  MemoryRequest request = request_of(3 * kGiB);
  const auto all = plan_memory(request);
  request.kv_fraction = 0.5;
  const auto half = plan_memory(request);
  ASSERT_TRUE(all.ok() && half.ok());
  EXPECT_LE(2 * half->kv_bytes, all->kv_bytes + (2 << 20));
  EXPECT_GE(2 * half->kv_bytes + (2 << 20), all->kv_bytes);
  request.kv_bytes = 11 << 20;  // who says how much gets it
  EXPECT_EQ(plan_memory(request)->kv_bytes, 11U << 20);
  for (const double wrong : {0.0, 1.5, -1.0}) {
    request.kv_fraction = wrong;
    EXPECT_EQ(plan_memory(request).status().field(), "kv_fraction") << wrong;
  }
}

TEST(MemoryPlan, TheLongestRequestIsWhatTheCacheHolds) {
  MemoryRequest request = request_of(100 * kGiB);
  request.kv_bytes = 11 << 20;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->groups[0].n_blocks, 11u);
  EXPECT_EQ(plan->total_tokens_max, 160u);
  request.total_tokens_max = 100;
  EXPECT_EQ(plan_memory(request)->total_tokens_max, 100u);
}

// 26 layers of one head of 256 in bfloat16 as gemma-3-1b has them: four see everything, 22 have a window of 512.
MemoryRequest gemma3(std::uint64_t available) {
  constexpr std::uint64_t kLayer = 2 * 16 * 256 * 2;
  MemoryRequest out = request_of(available);
  out.groups = {
      {.bytes_per_block = 4 * kLayer},
      {.kind = KvGroup::Kind::kWindow, .window = 512, .bytes_per_block = 22 * kLayer},
  };
  out.position_max = 32'768;
  out.batch_size_max = 16;
  return out;
}

// Bytes that n sequences of n_tokens see: the least that any cache can do with.
std::uint64_t seen_bytes(const MemoryRequest& r, std::uint64_t n, std::uint64_t n_tokens) {
  return n * (n_tokens * r.groups[0].bytes_per_block + 512 * r.groups[1].bytes_per_block) / 16;
}

TEST(MemoryPlan, AtLongContextWindowsTakeWhatTheyNeed) {
  for (const std::uint64_t mib : {102'400ULL, 3'900ULL}) {  // all that is useful, and less
    MemoryRequest request = gemma3(mib * kGiB / 1024);
    request.total_tokens_max = 32'768;
    const auto plan = plan_memory(request);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::uint64_t n = plan->kv_tokens / 32'768;
    ASSERT_GE(n, 8U);
    const auto seen = static_cast<double>(seen_bytes(request, n, plan->kv_tokens / n));
    const double share = static_cast<double>(plan->kv_bytes) / seen;
    std::printf("gemma-3-1b, %2u sequences of 32768 tokens: %s, %.3f of what they see\n",
                static_cast<unsigned>(n),
                format_bytes(plan->kv_bytes).c_str(),
                share);
    EXPECT_LE(share, 1.1);
  }
}

void expect_room(const MemoryRequest& request, const MemoryPlan& plan) {
  EXPECT_GE(plan.total_tokens_max, request.total_tokens_max);
  EXPECT_LE(plan.weight_bytes + plan.workspace_bytes + plan.kv_bytes + plan.reserve_bytes,
            request.available_bytes);
  for (const KvGroup& group : plan.groups) {
    EXPECT_LE(group.n_blocks, plan.groups[0].n_blocks);
    const std::uint32_t n = plan.total_tokens_max;
    const bool windowed = group.kind == KvGroup::Kind::kWindow;
    EXPECT_GT(
        group.n_blocks,
        windowed ? window_blocks_max(group.window, group.sink_tokens, 16, n, 256) : (n + 15) / 16);
  }
  if (request.total_tokens_max != 0) return;
  // Nobody says how long requests are: a window for every eight, or for every sequence of the batch.
  EXPECT_GE(plan.groups[1].n_blocks, std::min(plan.groups[0].n_blocks / 8, 16 * 32U));
}

TEST(MemoryPlan, EveryRequestFitsAndShortOnesKeepTheirRoom) {
  std::size_t n_plans = 0;
  for (const std::uint32_t total : {0U, 16U, 100U, 513U, 4000U, 32'768U}) {
    for (const std::uint64_t mib : {20ULL, 60ULL, 300ULL, 2000ULL}) {
      for (unsigned way = 0; way < 6; ++way) {
        MemoryRequest request = gemma3((2 * 1024 + 512 + mib) * kGiB / 1024);
        request.total_tokens_max = total;
        if (way % 2 == 1) request.kv_bytes = mib * kGiB / 1024;
        request.groups[1].sink_tokens = way < 2 ? 0 : way < 4 ? 4 : 6000;
        SCOPED_TRACE(std::to_string(total) + " tokens, " + std::to_string(mib) + " MiB, way " +
                     std::to_string(way));
        const auto plan = plan_memory(request);
        if (!plan.ok()) continue;
        ++n_plans;
        expect_room(request, plan.value());
      }
    }
  }
  EXPECT_GT(n_plans, 100U);
}

TEST(MemoryPlan, WhereAllLayersHaveWindowsRequestsMayBeLongerThanTheBlocks) {
  MemoryRequest request = request_of(100 * kGiB);
  request.groups[0].kind = KvGroup::Kind::kWindow;
  request.groups[0].window = 100;
  auto plan = plan_memory(request);
  // Four that decode, with 100 tokens and three rows each; 256 more tokens twice, and the last of them.
  EXPECT_EQ(plan->groups[0].n_blocks, 1U + 4 * 8 + (49 - 8));
  EXPECT_EQ(plan->total_tokens_max, 2048U);
  EXPECT_EQ(plan->kv_tokens, 2048U);
  request.kv_bytes = 50 << 20;
  plan = plan_memory(request);
  EXPECT_EQ(plan->groups[0].n_blocks, 50U);
  EXPECT_EQ(plan->total_tokens_max, 2048U);
  request.kv_bytes = 49 << 20;
  EXPECT_EQ(plan_memory(request)->total_tokens_max, 48U * 16);
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

TEST(MemoryPlan, EachOfThoseThatShareWeightsCountsItsPart) {
  MemoryRequest own = request_of(3 * kGiB);
  own.batch_size_max = 64;  // it has use for all of the memory
  MemoryRequest sharing = own;
  sharing.weight_bytes = 100;
  sharing.shared_weight_bytes = 2 * kGiB - 99;
  sharing.sharers = 4;
  const auto plan = plan_memory(sharing);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->weight_bytes, 100 + (2 * kGiB - 96) / 4);  // rounded up
  EXPECT_GE(plan->kv_bytes + (1 << 20), plan_memory(own)->kv_bytes + 3 * kGiB / 2);
  EXPECT_EQ(plan->to_lines()[0],
            "weights     512.0 MiB  with its part of 2.00 GiB that 4 replicas share");
  sharing.sharers = 1;
  EXPECT_EQ(plan_memory(sharing)->weight_bytes, 2 * kGiB + 1);
}

TEST(MemoryPlan, CopiesAreMadeWhereThereIsRoomForAsMuchAgain) {
  const std::uint64_t reserve = reserve_bytes_of(5 * kGiB);
  EXPECT_TRUE(has_room_for_own_weights(5 * kGiB, 2 * kGiB, kGiB - reserve));
  EXPECT_FALSE(has_room_for_own_weights(5 * kGiB, 2 * kGiB, kGiB - reserve + 1));
  EXPECT_FALSE(has_room_for_own_weights(kGiB, 2 * kGiB, 0));
}

TEST(MemoryPlan, PrintsOneLineForEachPart) {
  const auto lines = plan_memory(request_of(100 * kGiB))->to_lines();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "weights      2.00 GiB");
  EXPECT_EQ(lines[1], "kv cache    513.0 MiB  8192 tokens in 513 blocks of 16");
  MemoryRequest typed = request_of(100 * kGiB);
  typed.kv_type = "int8";
  EXPECT_EQ(plan_memory(typed)->to_lines()[1],
            "kv cache    513.0 MiB  8192 tokens in 513 blocks of 16 in int8");
  EXPECT_EQ(plan_memory(gemma3(100 * kGiB))->to_lines()[1],
            "kv cache     2.19 GiB  524288 tokens in 32769 + 576 (window of 512) blocks of 16");
  MemoryRequest sinks = gemma3(100 * kGiB);
  sinks.groups[1].sink_tokens = 4;
  EXPECT_NE(plan_memory(sinks)->to_lines()[1].find("(window of 512, 4 sink tokens) blocks of 16"),
            std::string::npos);
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
}

}  // namespace
}  // namespace coxswain::runner
