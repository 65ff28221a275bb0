#include "library/kv_cache_config.h"

#include <string>
#include <string_view>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>

namespace coxswain {
namespace {

std::string given(std::string_view field, std::string_view legal, std::string_view value) {
  std::string text = "`";
  text.append(field).append("` must be ").append(legal).append(". Given: ").append(value);
  return text;
}

Status not_honoured(std::string_view field, std::string_view why) {
  std::string text = "`";
  text.append(field).append("` is not supported: ").append(why);
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
  constexpr std::string_view kNoTier = "KV blocks have one tier of memory";
  if (config.host_cache_size != 0) return not_honoured("host_cache_size", kNoTier);
  if (!config.onboard_blocks) return not_honoured("onboard_blocks", kNoTier);
  if (config.secondary_offload_min_priority)
    return not_honoured("secondary_offload_min_priority", kNoTier);
  if (config.cross_kv_cache_fraction)
    return not_honoured("cross_kv_cache_fraction", "the engine has no encoder-decoder models");
  if (config.use_uvm) return not_honoured("use_uvm", "the engine has no unified virtual memory");
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
  return {};
}

}  // namespace coxswain
