#include <functional>

#include <coxswain/triton_parameters.h>
#include <gtest/gtest.h>

namespace coxswain {
namespace {

using namespace std::chrono_literals;
using P = const TritonParameters&;

struct Honoured {
  const char* line;
  std::function<bool(P)> is_there;
};

TEST(TritonParameters, EachRowBecomesAnOption) {
  const std::vector<Honoured> rows{
      {"gpt_model_path=/models/a", [](P p) { return p.gpt_model_path == "/models/a"; }},
      {"gpt_model_type=V1", [](P p) { return p.type == BatchingType::kV1; }},
      {"gpt_model_type=inflight_batching", [](P p) { return p.type == BatchingType::kInflight; }},
      {"gpt_model_type=inflight_fused_batching",
       [](P p) { return p.type == BatchingType::kInflightFused; }},
      {"batch_scheduler_policy=max_utilization",
       [](P p) { return p.policy == CapacityPolicy::kMaxUtilization; }},
      {"batch_scheduler_policy=static_batch",
       [](P p) { return p.policy == CapacityPolicy::kStaticBatch; }},
      {"decoupled=False", [](P p) { return !p.options.decoupled; }},
      {"max_beam_width=4", [](P p) { return p.max_beam_width == 4; }},
      {"max_num_requests=12", [](P p) { return p.options.max_num_requests == 12; }},
      {"max_queue_size=13", [](P p) { return p.options.max_queue_size == 13; }},
      {"max_tokens_in_paged_kv_cache=4096",
       [](P p) { return p.options.max_tokens_in_paged_kv_cache == 4096; }},
      {"kv_cache_free_gpu_mem_fraction=0.9",
       [](P p) { return p.options.kv_cache_free_gpu_mem_fraction == 0.9; }},
      {"max_attention_window_size=64",
       [](P p) { return p.options.max_attention_window == std::vector<std::uint32_t>{64}; }},
      {"max_attention_window_size=64,0,8",
       [](P p) {
         return p.options.max_attention_window == std::vector<std::uint32_t>{64, 0, 8};
       }},
      {"sink_token_length=4", [](P p) { return p.options.sink_token_length == 4; }},
      {"enable_kv_cache_reuse=false", [](P p) { return !p.options.enable_kv_cache_reuse; }},
      {"enable_trt_overlap=true", [](P p) { return p.options.enable_trt_overlap; }},
      {"enable_chunked_context=false", [](P p) { return !p.options.enable_chunked_context; }},
      {"enable_chunked_context=", [](P p) { return p.options.enable_chunked_context; }},
      {"exclude_input_in_output=true", [](P p) { return p.options.exclude_input_in_output; }},
      {"cancellation_check_period_ms=100",
       [](P p) { return p.options.stop_signal_period == 100ms; }},
      {"stats_check_period_ms=50", [](P p) { return p.options.stats_period == 50ms; }},
      {"recv_poll_period_ms=7", [](P p) { return p.options.idle_poll == 7ms; }},
      {"recv_poll_period_ms=0", [](P p) { return p.options.idle_poll == 2ms; }},
      // Not given:
      {"max_num_requests=", [](P p) { return p.options.max_num_requests == 256; }},
      {"max_num_requests=${max_num_requests}",
       [](P p) { return p.options.max_num_requests == 256; }},
  };
  for (const Honoured& row : rows) {
    const auto parsed = parse_triton_parameters(row.line);
    ASSERT_TRUE(parsed.ok()) << row.line << ": " << parsed.status().message();
    EXPECT_TRUE(row.is_there(*parsed)) << row.line;
  }
}

// As the backend's template has it, filled in.
constexpr const char* kLines = R"(
# a comment
gpt_model_type: inflight_fused_batching
gpt_model_path: /models/a   # where
decoupled: true
max_beam_width: 1
batch_scheduler_policy: guaranteed_no_evict
max_tokens_in_paged_kv_cache: ${max_tokens_in_paged_kv_cache}
max_attention_window_size:
sink_token_length: 0
kv_cache_free_gpu_mem_fraction: 0.9
enable_kv_cache_reuse: false
kv_cache_host_memory_bytes: 0
kv_cache_onboard_blocks: true
enable_chunked_context: false
exclude_input_in_output: true
normalize_log_probs: true
cancellation_check_period_ms: 100
stats_check_period_ms: 100
recv_poll_period_ms: 0
iter_stats_max_iterations: 1000
request_stats_max_iterations: 0
max_queue_size: 0
decoding_mode:
medusa_choices:
lora_cache_optimal_adapter_size: 8
lora_cache_max_adapter_size: 64
lora_cache_gpu_memory_fraction: 0.05
lora_cache_host_memory_bytes: 1G
lora_prefetch_dir:
multi_block_mode: true
gpu_weights_percent: 1.0
participant_ids:
guided_decoding_backend: xgrammar
)";

TEST(TritonParameters, TakesTheWholeTemplateAtItsDefaults) {
  const auto parsed = parse_triton_parameters(kLines);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->gpt_model_path, "/models/a");
  EXPECT_FALSE(parsed->options.enable_kv_cache_reuse);
  EXPECT_TRUE(parsed->options.exclude_input_in_output);
}

TEST(TritonParameters, TakesJson) {
  const auto parsed = parse_triton_parameters(
      R"( {"gpt_model_type": "V1", "max_num_requests": 3, "decoupled": false,
           "batch_scheduler_policy": {"string_value": "max_utilization"},
           "kv_cache_host_memory_bytes": 5368709120,
           "lora_cache_gpu_memory_fraction": 0.05})");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->type, BatchingType::kV1);
  EXPECT_EQ(parsed->options.max_num_requests, 3U);
  EXPECT_EQ(parsed->options.kv_cache_host_memory_bytes, std::uint64_t{5} << 30);
  EXPECT_FALSE(parsed->options.decoupled);
  EXPECT_EQ(parsed->policy, CapacityPolicy::kMaxUtilization);
}

TEST(TritonParameters, SaysWhatIsWrong) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"max_token_in_paged_kv_cache=5",
       "`max_token_in_paged_kv_cache` is no parameter; did you mean "
       "`max_tokens_in_paged_kv_cache`?"},
      {"gpu_weight_percent=1",
       "`gpu_weight_percent` is no parameter; did you mean "
       "`gpu_weights_percent`?"},
      {"colour=blue", "`colour` is no parameter"},
      {"gpt_model_type=v2",
       "`gpt_model_type` must be V1, inflight_batching or inflight_fused_batching. Given: v2"},
      {"batch_scheduler_policy=best",
       "`batch_scheduler_policy` must be max_utilization, guaranteed_no_evict or static_batch. "
       "Given: best"},
      {"decoupled=maybe", "`decoupled` must be true or false. Given: maybe"},
      {"multi_block_mode=maybe", "`multi_block_mode` must be true or false. Given: maybe"},
      {"max_num_requests=-1",
       "`max_num_requests` must be a whole number from 0 to 4294967295. Given: -1"},
      {"max_beam_width=0",
       "`max_beam_width` must be a whole number from 1 to 2147483647. Given: 0"},
      {"kv_cache_free_gpu_mem_fraction=1.5",
       "`kv_cache_free_gpu_mem_fraction` must be > 0 and <= 1. Given: 1.5"},
      {"kv_cache_free_gpu_mem_fraction=nan",
       "`kv_cache_free_gpu_mem_fraction` must be > 0 and <= 1. Given: nan"},
      {"sink_token_length=-4",
       "`sink_token_length` must be a whole number from 0 to 4294967295. Given: -4"},
      {"max_attention_window_size=64,,8",
       "`max_attention_window_size` must be a whole number, or several with commas between them. "
       "Given: 64,,8"},
      {"medusa_choices=[[0]]",
       "`medusa_choices` is not supported: the engine has no Medusa heads; only an empty value is "
       "taken. Given: [[0]]"},
      {"decoupled", "line 1 must be `name=value` or `name: value`. Given: decoupled"},
      {"decoupled=true\ndecoupled=true", "`decoupled` is given twice"},
      {R"({"decoupled": [1]})",
       "`decoupled` must be a string, a number, true or false. Given: [1]"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = parse_triton_parameters(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().message(), message);
  }
  EXPECT_EQ(parse_triton_parameters("{\"a\":").status().kind(), ErrorKind::kInvalidJson);
}

}  // namespace
}  // namespace coxswain
