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
                     .enable_partial_reuse = false},
                    options)
                  .ok());
  EXPECT_EQ(options.max_tokens_in_paged_kv_cache, 4096U);
  EXPECT_EQ(options.max_attention_window, (std::vector<std::uint32_t>{64, 0}));
  EXPECT_EQ(options.sink_token_length, 4U);
  EXPECT_EQ(options.kv_cache_free_gpu_mem_fraction, 0.9);
  EXPECT_FALSE(options.enable_kv_cache_reuse);
  EXPECT_FALSE(options.enable_partial_reuse);
}

TEST(KvCacheConfig, AManagerTellsNoEvents) {
  BatchManagerOptions options;
  const Status status = apply({.event_buffer_max_size = 3}, options);
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_EQ(status.field(), "event_buffer_max_size");
  EXPECT_EQ(status.message(),
            "`event_buffer_max_size` must be 0, a BatchManager tells no events. Given: 3");
}

}  // namespace
}  // namespace coxswain
