#pragma once
// What every block is: a mixer (attention) or a feed-forward (MLP, experts) of a layer. blocks.h lists them.
//
// A block is one file pair that owns everything about its kind of layer:
//
//   struct XSpec      what is computed, filled by family files; Block names X
//   struct XMap       which tensors hold its weights; visit(f) calls f for each of its parts
//   class X           the weights, and
//     Spec, Map         the two above
//     load              fills the weights from a checkpoint
//     needs             memory for a step of so many rows
//     kv_shape          (mixers) what it keeps of every position
//     run               a step: y = f(x), or y += f(x) if `accumulate`; x and y are [n_rows, hidden]
//
// The bits of a row depend on that row (and, for a mixer, on its own sequence) alone (law 1): blocks compute through
// the entries of KernelTable only.

#include <algorithm>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include <coxswain/step_runner.h>

#include "kernels/kernel_table.h"
#include "model/weight_parts.h"

namespace coxswain::model {

struct StepContext;
class WeightLoader;

// What a block is loaded with.
struct BlockLoad {
  WeightLoader& loader;
  Holding format;  // of its linear layers
};

// A step as a block sees it when memory is planned.
struct BlockSizes {
  std::size_t hidden = 0;
  std::size_t n_rows = 0;
  std::size_t n_threads = 1;
  LinearLimits linear = {};

  // Of calls of one problem with at most k inputs.
  std::uint64_t linear_scratch(std::size_t k) const {
    return kernels::linear_scratch_bytes({.rows = n_rows,
                                          .k = k,
                                          .n_pieces = linear.n_pieces,
                                          .n_forms = linear.n_forms,
                                          .n_threads = n_threads});
  }
};

struct BlockNeeds {
  std::uint64_t room_bytes = 0;     // of Workspace::room
  std::uint64_t scratch_bytes = 0;  // of Workspace::linear_scratch

  void join(const BlockNeeds& other) {
    room_bytes = std::max(room_bytes, other.room_bytes);
    scratch_bytes = std::max(scratch_bytes, other.scratch_bytes);
  }
};

// What a mixer keeps of every position. Layers of equal shapes share a KV group.
struct KvShape {
  KvGroup::Kind kind = KvGroup::Kind::kFull;
  std::uint32_t window = 0;       // for kWindow
  std::uint32_t sink_tokens = 0;  // for kWindow
  std::uint32_t n_kv_heads = 0;
  std::uint32_t k_head_dim = 0;
  std::uint32_t v_head_dim = 0;

  friend auto operator<=>(const KvShape&, const KvShape&) = default;
};

// Hands out 64-byte aligned spans of one piece of memory, one after the other; over none it only counts.
class Carver {
 public:
  Carver() = default;
  explicit Carver(std::span<std::byte> room) : room_(room) {}

  template <typename T>
  std::span<T> take(std::size_t n) {
    std::span<T> out;
    if (room_.data() != nullptr) out = {reinterpret_cast<T*>(room_.data() + taken_), n};
    taken_ += (n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    assert(room_.empty() || taken_ <= room_.size());
    return out;
  }
  std::uint64_t taken() const { return taken_; }
  // What is left: for a block inside a block. Nothing while counting.
  std::span<std::byte> rest() const { return room_.empty() ? room_ : room_.subspan(taken_); }

 private:
  static constexpr std::uint64_t kAlignment = 64;

  std::span<std::byte> room_;
  std::uint64_t taken_ = 0;
};

}  // namespace coxswain::model
