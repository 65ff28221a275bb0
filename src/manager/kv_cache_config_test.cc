#include <coxswain/batch_manager.h>
#include <coxswain/kv_cache_config.h>
#include <gtest/gtest.h>

namespace coxswain {
namespace {

TEST(KvCacheConfig, BecomesOptionsOfAManager) {
  BatchManagerOptions options;
  ASSERT_TRUE(apply({.max_tokens = 4096,
                     .max_attention_window = {64, 0},
                     .sink_token_length = 4,
                     .free_gpu_memory_fraction = 0.9,
                     .enable_block_reuse = false,
                     .enable_partial_reuse = false,
                     .event_buffer_max_size = 3,
                     .host_cache_size = 1 << 20,
                     .secondary_offload_min_priority = 30},
                    options)
                  .ok());
  EXPECT_EQ(options.max_tokens_in_paged_kv_cache, 4096U);
  EXPECT_EQ(options.max_attention_window, (std::vector<std::uint32_t>{64, 0}));
  EXPECT_EQ(options.sink_token_length, 4U);
  EXPECT_EQ(options.kv_cache_free_gpu_mem_fraction, 0.9);
  EXPECT_FALSE(options.enable_kv_cache_reuse);
  EXPECT_FALSE(options.enable_partial_reuse);
  EXPECT_EQ(options.event_buffer_max_size, 3U);
  EXPECT_EQ(options.kv_cache_host_memory_bytes, 1U << 20);
  EXPECT_EQ(options.secondary_offload_min_priority, 30U);
}

}  // namespace
}  // namespace coxswain
