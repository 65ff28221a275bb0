#include <functional>
#include <string>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/kv_cache_config.h>
#include <coxswain/local_model.h>
#include <gtest/gtest.h>

namespace coxswain {
namespace {

TEST(KvCacheConfig, BecomesOptionsOfModelAndEngine) {
  const KvCacheConfig config{.max_tokens = 4096,
                             .max_attention_window = {64, 0},
                             .sink_token_length = 4,
                             .free_gpu_memory_fraction = 0.5,
                             .enable_block_reuse = false,
                             .copy_on_partial_reuse = false,
                             .event_buffer_max_size = 100,
                             .host_cache_size = std::uint64_t{5} << 30,
                             .secondary_offload_min_priority = 30};
  LocalModelOptions model;
  ASSERT_TRUE(apply(config, model).ok());
  EXPECT_EQ(model.kv_fraction, 0.5);
  EXPECT_EQ(model.max_attention_window, (std::vector<std::uint32_t>{64, 0}));
  EXPECT_EQ(model.sink_token_length, 4U);
  ExecutorOptions engine;
  ASSERT_TRUE(apply(config, engine).ok());
  EXPECT_EQ(engine.batch_total_tokens_max, 4096U);
  EXPECT_FALSE(engine.prefix_caching);
  EXPECT_FALSE(engine.partial_reuse);
  EXPECT_EQ(engine.kv_events_max, 100U);
  EXPECT_EQ(engine.kv_host_bytes_max, std::uint64_t{5} << 30);
  EXPECT_EQ(engine.kv_offload_priority_min, 30U);
}

TEST(KvCacheConfig, WhatIsNotSaidStaysAsItWas) {
  LocalModelOptions model{.kv_fraction = 0.25, .max_attention_window = {9}, .sink_token_length = 2};
  ASSERT_TRUE(apply(KvCacheConfig{}, model).ok());
  EXPECT_EQ(model.kv_fraction, 0.25);
  EXPECT_EQ(model.max_attention_window, (std::vector<std::uint32_t>{9}));
  EXPECT_EQ(model.sink_token_length, 2U);
  ExecutorOptions engine{.batch_total_tokens_max = 7,
                         .prefix_caching = false,
                         .kv_host_bytes_max = 9,
                         .kv_offload_priority_min = 3,
                         .kv_events_max = 8};
  ASSERT_TRUE(apply(KvCacheConfig{}, engine).ok());
  EXPECT_EQ(engine.batch_total_tokens_max, 7U);
  EXPECT_FALSE(engine.prefix_caching);
  EXPECT_TRUE(engine.partial_reuse);
  EXPECT_EQ(engine.kv_events_max, 8U);
  EXPECT_EQ(engine.kv_host_bytes_max, 9U);
  EXPECT_EQ(engine.kv_offload_priority_min, 3U);
}

TEST(KvCacheConfig, WhatIsNotSupportedIsRefusedByName) {
  struct Refused {
    KvCacheConfig config;
    Code code;
    std::string field;
    std::string message;
  };
  const std::vector<Refused> all{
      {{.max_tokens = 0},
       Code::kInvalidArgument,
       "max_tokens",
       "`max_tokens` must be >= 1. Given: 0"},
      {{.free_gpu_memory_fraction = 1.0},
       Code::kInvalidArgument,
       "free_gpu_memory_fraction",
       "`free_gpu_memory_fraction` must be > 0 and < 1. Given: 1.000000"},
      {{.secondary_offload_min_priority = 101},
       Code::kInvalidArgument,
       "secondary_offload_min_priority",
       "`secondary_offload_min_priority` must be >= 0 and <= 100. Given: 101"},
      {{.onboard_blocks = false},
       Code::kUnimplemented,
       "onboard_blocks",
       "`onboard_blocks` must be true, a block is brought into the cache before it is used. "
       "Given: false"},
      {{.cross_kv_cache_fraction = 0.5},
       Code::kUnimplemented,
       "cross_kv_cache_fraction",
       "`cross_kv_cache_fraction` must be absent, the engine has no encoder-decoder models. "
       "Given: 0.500000"},
      {{.use_uvm = true},
       Code::kUnimplemented,
       "use_uvm",
       "`use_uvm` must be false, the engine has no unified virtual memory. Given: true"}};
  for (const Refused& refused : all) {
    LocalModelOptions model;
    ExecutorOptions engine;
    for (const Status& status : {apply(refused.config, model), apply(refused.config, engine)}) {
      EXPECT_EQ(status.code(), refused.code);
      EXPECT_EQ(status.field(), refused.field);
      EXPECT_EQ(status.message(), refused.message);
    }
  }
}

}  // namespace
}  // namespace coxswain
