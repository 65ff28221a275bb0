#include "library/kv_cache_config.h"

#include <string>
#include <string_view>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/retention.h>

namespace coxswain {
namespace {

std::string given(std::string_view field, std::string_view legal, std::string_view value) {
  std::string text = "`";
  text.append(field).append("` must be ").append(legal).append(". Given: ").append(value);
  return text;
}

Status not_honoured(std::string_view field,
                    std::string_view legal,
                    std::string_view why,
                    std::string_view value) {
  std::string text = "`";
  text.append(field).append("` must be ").append(legal).append(", ").append(why);
  text.append(". Given: ").append(value);
  return {Code::kUnimplemented, ErrorKind::kValidation, std::move(text), std::string(field)};
}

}  // namespace

namespace library {

Status check(const KvCacheConfig& config) {
  if (config.max_tokens && *config.max_tokens == 0)
    return invalid_argument(given("max_tokens", ">= 1", "0"), "max_tokens");
  if (const auto share = config.free_gpu_memory_fraction;
      share && !(*share > 0.0 && *share < 1.0)) {
    return invalid_argument(
        given("free_gpu_memory_fraction", "> 0 and < 1", std::to_string(*share)),
        "free_gpu_memory_fraction");
  }
  if (const auto least = config.secondary_offload_min_priority;
      least && *least > kRetentionPriorityMax) {
    return invalid_argument(given("secondary_offload_min_priority",
                                  ">= 0 and <= " + std::to_string(kRetentionPriorityMax),
                                  std::to_string(*least)),
                            "secondary_offload_min_priority");
  }
  if (!config.onboard_blocks) {
    return not_honoured(
        "onboard_blocks", "true", "a block is brought into the cache before it is used", "false");
  }
  if (const auto share = config.cross_kv_cache_fraction) {
    return not_honoured("cross_kv_cache_fraction",
                        "absent",
                        "the engine has no encoder-decoder models",
                        std::to_string(*share));
  }
  if (config.use_uvm)
    return not_honoured("use_uvm", "false", "the engine has no unified virtual memory", "true");
  return {};
}

bool partial_reuse(const KvCacheConfig& config) {
  return config.enable_partial_reuse && config.copy_on_partial_reuse;
}

}  // namespace library

Status apply(const KvCacheConfig& config, LocalModelOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(library::check(config));
  if (config.free_gpu_memory_fraction) options.kv_fraction = *config.free_gpu_memory_fraction;
  if (!config.max_attention_window.empty())
    options.max_attention_window = config.max_attention_window;
  if (config.sink_token_length) options.sink_token_length = *config.sink_token_length;
  return {};
}

Status apply(const KvCacheConfig& config, ExecutorOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(library::check(config));
  if (config.max_tokens) options.batch_total_tokens_max = *config.max_tokens;
  if (!config.enable_block_reuse) options.prefix_caching = false;
  if (!library::partial_reuse(config)) options.partial_reuse = false;
  if (config.event_buffer_max_size > 0) options.kv_events_max = config.event_buffer_max_size;
  if (config.host_cache_size > 0) options.kv_host_bytes_max = config.host_cache_size;
  if (config.secondary_offload_min_priority)
    options.kv_offload_priority_min = *config.secondary_offload_min_priority;
  return {};
}

}  // namespace coxswain
