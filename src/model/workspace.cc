#include "model/workspace.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace coxswain::model {
namespace {

template <typename AnySpec>
BlockNeeds needs_of(const AnySpec& any, const BlockSizes& sizes) {
  return std::visit([&](const auto& spec) { return BlockOf<decltype(spec)>::needs(spec, sizes); },
                    any);
}

// The most that any block of the model needs: they run one after the other.
BlockNeeds largest_needs(const ArchSpec& arch, const WorkspaceSizes& sizes) {
  const BlockSizes step{arch.hidden_size, sizes.n_rows, sizes.n_threads, sizes.linear};
  const BlockSizes logits{arch.hidden_size, sizes.n_logit_rows, sizes.n_threads, sizes.linear};
  BlockNeeds out = Embedding::needs(arch.embedding, step);
  out.join(Head::needs(arch.embedding.width, logits));
  for (const LayerSpec& layer : arch.layers) {
    out.join(needs_of(layer.mixer, step));
    out.join(needs_of(layer.feed_forward, step));
  }
  return out;
}

}  // namespace

std::size_t angle_width(const ArchSpec& arch) {
  std::size_t width = 0;
  for (const RopeSpec& rope : arch.ropes) width = std::max<std::size_t>(width, rope.rotary_dim / 2);
  return width;
}

// With a null base it only counts.
std::uint64_t Workspace::place(const ArchSpec& arch, std::byte* base) {
  Carver carver(std::span(base, 0));
  const std::size_t rows = sizes.n_rows;
  const std::size_t hidden = arch.hidden_size;
  const std::size_t angles = angle_width(arch);
  const BlockNeeds needs = largest_needs(arch, sizes);
  normed = carver.take<float>(rows * hidden);
  normed_beside = carver.take<float>(arch.parallel_feed_forward_norm ? rows * hidden : 0);
  output = carver.take<float>(rows * hidden);
  positions = carver.take<std::int32_t>(rows);
  cos = carver.take<float>(arch.ropes.size() * rows * angles);
  sin = carver.take<float>(arch.ropes.size() * rows * angles);
  frequencies = carver.take<float>(rows * angles);
  frequency_of = carver.take<std::uint32_t>(rows);
  room = carver.take<std::byte>(needs.room_bytes);
  linear_scratch = carver.take<std::byte>(needs.scratch_bytes);
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
