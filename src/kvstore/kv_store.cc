#include "kvstore/kv_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/numbers.h"
#include "tensor/page_arena.h"

namespace coxswain::kvstore {
namespace {

// Ranges that no real model leaves; products of them fit 64 bits.
constexpr std::uint32_t kHeadsMax = 1U << 16;
constexpr std::uint32_t kHeadDimMax = 1U << 16;
constexpr std::uint32_t kLayersMax = 1000;

std::uint64_t k_block_bytes(const KvStoreOptions& options, const KvLayerShape& layer) {
  return layer.n_kv_heads * std::uint64_t{kernels::kv_head_bytes(
                                options.type, options.block_tokens, layer.k_head_dim)};
}

std::uint64_t v_block_bytes(const KvStoreOptions& options, const KvLayerShape& layer) {
  return layer.n_kv_heads * std::uint64_t{kernels::kv_head_bytes(
                                options.type, options.block_tokens, layer.v_head_dim)};
}

bool is_in(const LayerRange& layers, std::size_t layer) {
  return layers == LayerRange{} || (layer >= layers.begin && layer < layers.end);
}

Status check(const KvStoreOptions& options) {
  const auto bad = [](const std::string& what) { return invalid_argument("KV cache: " + what); };
  const std::uint32_t tokens = options.block_tokens;
  if (tokens == 0 || (tokens & (tokens - 1)) != 0 || tokens > kernels::kAttentionPartition) {
    return bad("block_tokens is " + std::to_string(tokens) + ", must be a power of two up to " +
               std::to_string(kernels::kAttentionPartition));
  }
  if (options.layers.empty() || options.layers.size() > kLayersMax) {
    return bad("the number of layers is " + std::to_string(options.layers.size()) +
               ", must be 1 to " + std::to_string(kLayersMax));
  }
  for (const KvLayerShape& layer : options.layers) {
    if (layer.group >= options.n_blocks.size())
      return bad("a layer names group " + std::to_string(layer.group) + " of " +
                 std::to_string(options.n_blocks.size()));
    if (layer.n_kv_heads == 0 || layer.n_kv_heads > kHeadsMax || layer.k_head_dim == 0 ||
        layer.k_head_dim > kHeadDimMax || layer.v_head_dim == 0 || layer.v_head_dim > kHeadDimMax) {
      return bad("a layer has " + std::to_string(layer.n_kv_heads) + " heads of " +
                 std::to_string(layer.k_head_dim) + " and " + std::to_string(layer.v_head_dim) +
                 " values, must be 1 to " + std::to_string(kHeadsMax) + " heads of 1 to " +
                 std::to_string(kHeadDimMax));
    }
  }
  for (const std::uint32_t n : options.n_blocks) {
    if (n == 0 || n == kReleasedBlock) {
      return bad("the number of blocks of a group is " + std::to_string(n) + ", must be 1 to " +
                 std::to_string(kReleasedBlock - 1));
    }
  }
  return {};
}

// Where regions begin: each an odd multiple of a step behind the one before, so that as many as a huge page has steps
// begin at different places of one.
class Regions {
 public:
  explicit Regions(std::size_t n_regions)
      : step_(std::max<std::uint64_t>(tensor::kHugePageBytes / std::bit_ceil(n_regions), 64)) {}

  // False: more than 2^64 bytes.
  bool add(std::uint64_t n_blocks, std::uint64_t block_bytes) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(n_blocks, block_bytes, &bytes)) return false;
    begins_.push_back(end_);
    const std::uint64_t n_steps = base::ceil_div(bytes, step_) | 1;
    return !__builtin_mul_overflow(n_steps, step_, &bytes) &&
           !__builtin_add_overflow(end_, bytes, &end_);
  }

  std::uint64_t bytes() const { return end_; }
  std::uint64_t begin(std::size_t index) const { return begins_[index]; }

 private:
  std::uint64_t step_;
  std::uint64_t end_ = 0;
  std::vector<std::uint64_t> begins_;
};

}  // namespace

Result<KvStore> KvStore::create(const KvStoreOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(check(options));
  KvStore store;
  store.options_ = options;
  Regions regions(2 * options.layers.size());
  for (const KvLayerShape& shape : options.layers) {
    const std::uint64_t n_blocks = options.n_blocks[shape.group];
    if (!regions.add(n_blocks, k_block_bytes(options, shape)) ||
        !regions.add(n_blocks, v_block_bytes(options, shape))) {
      return Status(Code::kResourceExhausted, "KV cache: more than 2^64 bytes asked for");
    }
  }
  auto memory = tensor::AlignedBuffer::allocate(regions.bytes());
  if (!memory.ok())
    return memory.status().with_context("KV cache of " + std::to_string(regions.bytes()) +
                                        " bytes");
  store.memory_ = std::move(memory).value();
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    std::byte* const begin = store.memory_.data();
    store.layers_.push_back(
        {.k = begin + regions.begin(2 * i), .v = begin + regions.begin(2 * i + 1)});
  }
  return store;
}

std::uint64_t KvStore::bytes_per_block(const KvStoreOptions& options, std::uint32_t group) {
  std::uint64_t bytes = 0;
  for (const KvLayerShape& layer : options.layers) {
    if (layer.group == group)
      bytes += k_block_bytes(options, layer) + v_block_bytes(options, layer);
  }
  return bytes;
}

kernels::KvLayerView KvStore::layer(std::uint32_t index) {
  const KvLayerShape& shape = options_.layers[index];
  return {.k = layers_[index].k,
          .v = layers_[index].v,
          .k_block_stride_bytes = k_block_bytes(options_, shape),
          .v_block_stride_bytes = v_block_bytes(options_, shape),
          .type = options_.type,
          .n_kv_heads = shape.n_kv_heads,
          .block_tokens = options_.block_tokens,
          .k_head_dim = shape.k_head_dim,
          .v_head_dim = shape.v_head_dim};
}

void KvStore::move_block(const BlockMove& move) {
  const BlockId from = move.from.id;
  const BlockId to = move.to.id;
  if (from == to) return;  // memcpy must not see overlapping blocks
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const KvLayerShape& shape = options_.layers[i];
    if (shape.group != move.kv_group) continue;
    const std::uint64_t k_bytes = k_block_bytes(options_, shape);
    const std::uint64_t v_bytes = v_block_bytes(options_, shape);
    std::byte* const k = layers_[i].k;
    std::byte* const v = layers_[i].v;
    std::memcpy(k + to * k_bytes, k + from * k_bytes, k_bytes);
    std::memcpy(v + to * v_bytes, v + from * v_bytes, v_bytes);
  }
}

void KvStore::copy_out(std::uint32_t group,
                       BlockId block,
                       std::span<std::byte> to,
                       const LayerRange& layers) const {
  std::byte* at = to.data();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const KvLayerShape& shape = options_.layers[i];
    if (shape.group != group || !is_in(layers, i)) continue;
    const std::uint64_t k_bytes = k_block_bytes(options_, shape);
    const std::uint64_t v_bytes = v_block_bytes(options_, shape);
    std::memcpy(at, layers_[i].k + block * k_bytes, k_bytes);
    std::memcpy(at + k_bytes, layers_[i].v + block * v_bytes, v_bytes);
    at += k_bytes + v_bytes;
  }
}

void KvStore::copy_in(std::uint32_t group,
                      BlockId block,
                      std::span<const std::byte> from,
                      const LayerRange& layers) {
  const std::byte* at = from.data();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const KvLayerShape& shape = options_.layers[i];
    if (shape.group != group || !is_in(layers, i)) continue;
    const std::uint64_t k_bytes = k_block_bytes(options_, shape);
    const std::uint64_t v_bytes = v_block_bytes(options_, shape);
    std::memcpy(layers_[i].k + block * k_bytes, at, k_bytes);
    std::memcpy(layers_[i].v + block * v_bytes, at + k_bytes, v_bytes);
    at += k_bytes + v_bytes;
  }
}

std::uint64_t KvStore::bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t group = 0; group < options_.n_blocks.size(); ++group)
    bytes += options_.n_blocks[group] * bytes_per_block(options_, group);
  return bytes;
}

}  // namespace coxswain::kvstore
