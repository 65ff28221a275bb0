// KvCacheConfig for a BatchManager.

#include "library/kv_cache_config.h"

#include <coxswain/batch_manager.h>

namespace coxswain {

Status apply(const KvCacheConfig& config, BatchManagerOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(library::check(config));
  if (config.event_buffer_max_size > 0)
    options.event_buffer_max_size = config.event_buffer_max_size;
  if (config.max_tokens) options.max_tokens_in_paged_kv_cache = *config.max_tokens;
  if (config.free_gpu_memory_fraction)
    options.kv_cache_free_gpu_mem_fraction = *config.free_gpu_memory_fraction;
  if (!config.max_attention_window.empty())
    options.max_attention_window = config.max_attention_window;
  if (config.sink_token_length) options.sink_token_length = *config.sink_token_length;
  if (config.host_cache_size > 0) options.kv_cache_host_memory_bytes = config.host_cache_size;
  if (config.secondary_offload_min_priority)
    options.secondary_offload_min_priority = *config.secondary_offload_min_priority;
  if (!config.enable_block_reuse) options.enable_kv_cache_reuse = false;
  if (!library::partial_reuse(config)) options.enable_partial_reuse = false;
  return {};
}

}  // namespace coxswain
