#pragma once
// KvStore: the bytes behind block ids. Allocated once at start; nothing grows later.
//
// For each layer: keys, then values, of all blocks; a block of a layer is [n_kv_heads, block_tokens, head_dim] of the
// store's element type, int8 with its scales and zeros (kernels::KvLayerView). Their number of positions is a power of
// two that divides kernels::kAttentionPartition.
//
// Memory is first touched when a block is first written, a huge page at a time. These regions lie in one mapping, at
// places that differ within their huge pages: otherwise the same block would be the first of its page in all of them,
// and its step would wait until the system has zeroed a page for each (64 MiB for 16 layers).
//
// Thread rule: owned by one runner; views are used by its kernels only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "kernels/attention_args.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::kvstore {

// The shape of one layer's cache.
struct KvLayerShape {
  std::uint32_t group = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t k_head_dim = 0;
  std::uint32_t v_head_dim = 0;
};

struct KvStoreOptions {
  tensor::DType type = tensor::DType::kBf16;
  std::uint32_t block_tokens = 16;
  std::vector<std::uint32_t> n_blocks;  // per group
  std::vector<KvLayerShape> layers;     // per layer
};

class KvStore {
 public:
  // Errors: kInvalidArgument for sizes out of range, kResourceExhausted naming the bytes asked for.
  static Result<KvStore> create(const KvStoreOptions& options);

  static std::uint64_t bytes_per_block(const KvStoreOptions& options, std::uint32_t group);

  kernels::KvLayerView layer(std::uint32_t index);
  // REQUIRES: both blocks are of tier 0 and inside the group.
  void move_block(const BlockMove& move);
  // One block of those of `layers` that are of `group`, all together [bytes_per_block()]: layers ascending, the keys of
  // each before its values.
  void copy_out(std::uint32_t group,
                BlockId block,
                std::span<std::byte> to,
                const LayerRange& layers = {}) const;
  void copy_in(std::uint32_t group,
               BlockId block,
               std::span<const std::byte> from,
               const LayerRange& layers = {});

  const KvStoreOptions& options() const { return options_; }
  std::uint64_t bytes() const;

 private:
  struct Layer {
    std::byte* k = nullptr;
    std::byte* v = nullptr;
  };
  KvStoreOptions options_;
  tensor::AlignedBuffer memory_;
  std::vector<Layer> layers_;
};

}  // namespace coxswain::kvstore
