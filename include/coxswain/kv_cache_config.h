#pragma once
// KvCacheConfig: the KV cache in the words of TensorRT-LLM's kvCacheConfig, for programs that have one.
//
//     LocalModelOptions options;
//     Status status = apply({.max_attention_window = {4096, 0}, .sink_token_length = 4}, options);
//
// Each field becomes the option that we have for it; fields that keep their default leave the options as they are.
// "GPU memory" is the memory that the model leaves of what its process may take.
//
// Thread rule: values and pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <coxswain/export.h>
#include <coxswain/status.h>

namespace coxswain {

struct BatchManagerOptions;
struct ExecutorOptions;
struct LocalModelOptions;

struct KvCacheConfig {
  // Tokens that the cache holds at most; >= 1.
  std::optional<std::uint32_t> max_tokens = {};
  // Layer i attends to the last max_attention_window[i % size] positions at most, or to the model's own window, if that
  // is less; 0 = no limit for that layer.
  std::vector<std::uint32_t> max_attention_window = {};
  // The first positions, which layers with a window attend to, too (StreamingLLM).
  std::optional<std::uint32_t> sink_token_length = {};
  // Of the memory that is free once the weights are there; > 0 and < 1.
  std::optional<double> free_gpu_memory_fraction = {};
  bool enable_block_reuse = true;
  // A prefix that ends inside a cached block takes the beginning of it; a part is always copied, so that without
  // copy_on_partial_reuse there is no partial reuse.
  bool enable_partial_reuse = true;
  bool copy_on_partial_reuse = true;
  std::size_t event_buffer_max_size = 0;  // events of the cache that are kept; 0 = none are made

  // Bytes of memory behind the cache, for blocks of requests that have ended; 0 = none.
  std::uint64_t host_cache_size = 0;
  // Blocks of a lower priority are not kept there; 0 to 100. Unless it is given all are.
  std::optional<std::uint32_t> secondary_offload_min_priority = {};

  // Another value than these is refused by name: a block is always brought into the cache before it is used, no model
  // here has cross attention, and memory is not unified.
  bool onboard_blocks = true;
  std::optional<double> cross_kv_cache_fraction = {};
  bool use_uvm = false;
};

// What the options have a place for is set, the rest is left to the other overload; all of the config is checked.
// Errors, each naming field, limit and value: kInvalidArgument; kUnimplemented for what is not supported.

// free_gpu_memory_fraction, max_attention_window, sink_token_length.
COXSWAIN_EXPORT Status apply(const KvCacheConfig& config, LocalModelOptions& options);
// max_tokens, enable_block_reuse, enable_partial_reuse, event_buffer_max_size; and of the memory behind the cache
// host_cache_size and secondary_offload_min_priority.
COXSWAIN_EXPORT Status apply(const KvCacheConfig& config, ExecutorOptions& options);
// All of them.
COXSWAIN_EXPORT Status apply(const KvCacheConfig& config, BatchManagerOptions& options);

}  // namespace coxswain
