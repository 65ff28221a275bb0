#include "model/workspace.h"

#include <algorithm>

namespace coxswain::model {
namespace {

constexpr std::uint64_t kAlignment = 64;

// Hands out aligned spans of one buffer; with a null base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  void take(std::span<T>& out, std::size_t n) {
    if (base_ != nullptr) out = {reinterpret_cast<T*>(base_ + at_), n};
    at_ += (n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::uint64_t taken() const { return at_; }

 private:
  std::byte* base_;
  std::uint64_t at_ = 0;
};

std::size_t inner_width(const ArchSpec& arch) {
  std::size_t width = arch.moe.shared_intermediate;
  for (const LayerSpec& layer : arch.layers) {
    if (!layer.moe) width = std::max<std::size_t>(width, layer.intermediate);
  }
  return width * (arch.mlp.gate == GateKind::kNone ? 1 : 2);
}

}  // namespace

std::size_t angle_width(const ArchSpec& arch) {
  std::size_t width = 0;
  for (const RopeSpec& rope : arch.ropes) width = std::max<std::size_t>(width, rope.rotary_dim / 2);
  return width;
}

std::uint64_t Workspace::place(const ArchSpec& arch, std::byte* base) {
  Carver carver(base);
  const std::size_t rows = sizes.n_rows;
  const std::size_t hidden = arch.hidden_size;
  const bool projected = arch.embedding_size != 0;
  const std::size_t inner_size = inner_width(arch);
  const std::size_t angles = angle_width(arch);
  carver.take(normed, rows * hidden);
  carver.take(qkv, rows * arch.attention.qkv_width());
  carver.take(attention, rows * arch.attention.q_width());
  carver.take(block, rows * hidden);
  carver.take(inner, rows * inner_size);
  carver.take(embedded, projected ? rows * arch.embedding_width() : 0);
  carver.take(cos, arch.ropes.size() * rows * angles);
  carver.take(sin, arch.ropes.size() * rows * angles);
  carver.take(frequencies, sizes.n_threads * angles);

  const MoeSpec& moe = arch.moe;
  const std::size_t chosen = rows * moe.n_used;
  const std::size_t expert_width =
      moe.intermediate * (arch.mlp.gate == GateKind::kNone ? std::size_t{1} : std::size_t{2});
  carver.take(router, rows * moe.n_experts);
  carver.take(expert_rows, chosen * hidden);
  carver.take(expert_inner, chosen * expert_width);
  carver.take(assignments, chosen);
  carver.take(expert_begin, moe.n_experts == 0 ? 0 : moe.n_experts + 1);
  carver.take(expert_ids, chosen);

  carver.take(logit_rows, sizes.n_logit_rows * hidden);
  carver.take(logit_projected, projected ? sizes.n_logit_rows * arch.embedding_width() : 0);
  const std::size_t k_max = std::max({hidden,
                                      std::size_t{arch.attention.q_width()},
                                      inner_size,
                                      expert_width,
                                      std::size_t{arch.embedding_width()}});
  carver.take(linear_scratch,
              kernels::linear_scratch_bytes(std::max(rows, sizes.n_logit_rows), k_max));
  carver.take(attention_scratch,
              kernels::attention_scratch_bytes(
                  sizes.n_threads, arch.attention.n_heads, arch.attention.head_dim));
  return carver.taken();
}

Result<Workspace> Workspace::create(const ArchSpec& arch, const WorkspaceSizes& sizes) {
  Workspace out;
  out.sizes = sizes;
  const std::uint64_t n_bytes = out.place(arch, nullptr);
  auto buffer = tensor::AlignedBuffer::allocate(n_bytes);
  if (!buffer.ok())
    return buffer.status().with_context("workspace for " + std::to_string(sizes.n_rows) + " rows");
  out.buffer_ = std::move(buffer).value();
  out.place(arch, out.buffer_.data());
  out.sequences.reserve(sizes.n_rows);
  return out;
}

std::uint64_t Workspace::bytes(const ArchSpec& arch, const WorkspaceSizes& sizes) {
  Workspace counted;
  counted.sizes = sizes;
  return counted.place(arch, nullptr) + sizes.n_rows * sizeof(kernels::AttentionSequence);
}

}  // namespace coxswain::model
