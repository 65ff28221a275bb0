#include "kernels/linear_piece.h"

#include <algorithm>
#include <cstdint>

namespace coxswain::kernels {
namespace {

TileArgs chunk_of(const PieceRows::Sums& to) {
  TileArgs chunk{};
  chunk.a = to.rows.data;
  chunk.a_stride_bytes = to.rows.stride_bytes;
  chunk.rows = to.n_rows;
  return chunk;
}

}  // namespace

std::size_t value_bytes(ActivationForm form) {
  switch (form) {
    case kActivationF32:
      return 4;
    case kActivationBf16:
    case kActivationS16:
      return 2;
    case kActivationU8:
    case kActivationS8:
      return 1;
  }
  return 0;
}

std::size_t starts_of_group(const LinearKernel& kernel) {
  return std::max<std::size_t>(kernel.group_starts, 1);
}

std::size_t starts_at(std::size_t k, const LinearKernel& kernel) {
  return base::round_up<std::size_t>(k, 64) * value_bytes(kernel.form);
}

PieceRows::PieceRows(const LinearKernel& kernel, const LinearPiece& piece, bool few)
    : kernel_(kernel),
      piece_(piece),
      w_(*piece.w),
      few_(few),
      k_padded_(base::round_up<std::size_t>(w_.k, kernel.k_multiple)),
      step_bytes_(std::size_t{kernel.panel} * kernel.unit_bytes),
      panel_bytes_(k_padded_ / kernel.unit_values * step_bytes_),
      n_groups_(kernel.group == 0 ? 0 : base::ceil_div<std::size_t>(w_.k, kernel.group)) {}

void PieceRows::multiply(const Panels& panels, const Sums& to) const {
  if (few_ || kernel_.chunk == nullptr) {
    for (std::size_t i = 0; i < panels.size(); ++i)
      multiply_tiles(panels[i], to, to.acc + i * to.acc_stride);
  } else if (to.n_rows > kernel_.row_tile) {
    multiply_blocks(panels, to);
  } else {
    multiply_streams(panels, to);
  }
}

// All of k of panel after panel.
void PieceRows::multiply_streams(const Panels& panels, const Sums& to) const {
  TileArgs chunk = chunk_of(to);
  chunk.k = k_padded_;
  chunk.first = true;
  chunk.n_panels = panels.each;
  chunk.panel_bytes = panel_bytes_;
  chunk.acc_bytes = to.acc_stride;
  for (std::size_t i = 0; i < panels.size(); i += panels.each) {
    chunk.w = w_.bytes.data() + panels[i] * panel_bytes_;
    chunk.acc = to.acc + i * to.acc_stride;
    kernel_.chunk(&chunk);
  }
}

// A block of k of every panel before the next: as much of the rows as the second-level cache keeps. While one is
// worked on, the next is asked for.
void PieceRows::multiply_blocks(const Panels& panels, const Sums& to) const {
  TileArgs chunk = chunk_of(to);
  const std::size_t n_blocks = base::ceil_div<std::size_t>(k_padded_, kernel_.k_block);
  const auto weights = [&](std::size_t i, std::size_t block) {
    return w_.bytes.data() + panels[i] * panel_bytes_ +
           block * kernel_.k_block / kernel_.unit_values * step_bytes_;
  };
  for (std::size_t block = 0; block < n_blocks; ++block) {
    const std::size_t k = block * kernel_.k_block;
    chunk.a = to.rows.data + k * value_bytes(kernel_.form);
    chunk.k = std::min<std::size_t>(kernel_.k_block, k_padded_ - k);
    chunk.first = block == 0;
    for (std::size_t i = 0; i < panels.size(); ++i) {
      const bool last = i + 1 == panels.size();
      const std::byte* const next = !last ? weights(i + 1, block)
                                    : block + 1 < n_blocks
                                        ? weights(0, block + 1)
                                        : w_.bytes.data() + panels.end() * panel_bytes_;
      chunk.w = weights(i, block);
      chunk.acc = to.acc + i * to.acc_stride;
      chunk.prefetch = reinterpret_cast<const char*>(next);
      kernel_.chunk(&chunk);
    }
  }
}

void PieceRows::multiply_tiles(std::size_t panel, const Sums& to, std::byte* acc) const {
  const ConvertedRows& rows = to.rows;
  const std::size_t n_rows = to.n_rows;
  const std::byte* w = w_.bytes.data() + panel * panel_bytes_;
  const std::size_t n_tiles =
      base::ceil_div<std::size_t>(n_rows, few_ ? kernel_.few_tile : kernel_.row_tile);
  const std::size_t unit = few_ || kernel_.row_unit == 0 ? 1 : kernel_.row_unit;
  const auto run_tile = few_ ? kernel_.tile_few : kernel_.tile;
  const std::size_t k_block = n_tiles == 1 ? k_padded_ : kernel_.k_block;
  const std::size_t value = value_bytes(kernel_.form);
  TileArgs tile{};
  tile.a_stride_bytes = rows.stride_bytes;
  for (std::size_t k = 0; k < k_padded_; k += k_block) {
    tile.k = std::min(k_block, k_padded_ - k);
    tile.w = w + k / kernel_.unit_values * step_bytes_;
    tile.first = k == 0;
    const std::size_t n_steps = tile.k / kernel_.unit_values;
    // While these rows are worked on, the next block comes nearer: each tile asks for its share.
    const char* next =
        n_tiles == 1 ? nullptr : static_cast<const char*>(tile.w) + n_steps * step_bytes_;
    tile.prefetch_step = n_tiles == 1 ? kernel_.stream_ahead : step_bytes_ / n_tiles;
    for (std::size_t t = 0; t < n_tiles; ++t) {
      const std::size_t first = base::round_up<std::size_t>(n_rows * t / n_tiles, unit);
      tile.rows =
          std::min(n_rows, base::round_up<std::size_t>(n_rows * (t + 1) / n_tiles, unit)) - first;
      const std::byte* const row = rows.data + first * rows.stride_bytes;
      tile.a = row + k * value;
      if (kernel_.group != 0) use_groups(panel, k / kernel_.group, row, tile);
      tile.acc = acc + first * kernel_.panel * 4;
      tile.prefetch = next;
      run_tile(&tile);
      if (next != nullptr) next += n_steps * tile.prefetch_step;
    }
  }
}

FinishArgs PieceRows::finish_args(std::size_t panel,
                                  const Sums& from,
                                  std::size_t i,
                                  const Place& to) const {
  const std::size_t column = panel * kernel_.panel;
  FinishArgs out{};
  out.acc = from.acc + i * from.acc_stride;
  out.tiled = kernel_.tiled && !few_;
  out.panel = kernel_.panel;
  out.rows = from.n_rows;
  out.n = std::min<std::size_t>(kernel_.panel, w_.n - column);
  out.y = to.y;
  out.y_stride = to.stride;
  out.bias = piece_.bias != nullptr ? piece_.bias + column : nullptr;
  out.accumulate = to.accumulate;
  out.row_scales = from.rows.scales;
  if (out.row_scales != nullptr && kernel_.group == 0) {
    const std::byte* const image = w_.bytes.data();
    out.scales = reinterpret_cast<const float*>(image + w_.scales_at) + column;
    out.column_sums = reinterpret_cast<const std::int32_t*>(image + w_.sums_at) + column;
    out.activation_offset = kernel_.form == kActivationU8 ? 128 : 0;
  }
  return out;
}

void PieceRows::finish(std::size_t panel, const Sums& from, std::size_t i, const Place& to) const {
  const FinishArgs args = finish_args(panel, from, i, to);
  kernel_.finish(&args);
}

void PieceRows::finish_gate(
    const Panels& panels, const Sums& from, std::size_t i, const Place& to, bool streams) const {
  const std::size_t beside = panels.each + i;
  GateArgs args{};
  args.gate = finish_args(panels[i], from, i, to);
  args.up = finish_args(panels[beside], from, beside, {});
  args.kind = static_cast<std::uint8_t>(*piece_.gate);
  args.streams = streams;
  kernel_.finish_gate(&args);
}

void PieceRows::use_groups(std::size_t panel,
                           std::size_t group,
                           const std::byte* row,
                           TileArgs& tile) const {
  const auto* scales = reinterpret_cast<const std::uint16_t*>(w_.bytes.data() + w_.scales_at);
  tile.scales = scales + (panel * n_groups_ + group) * kernel_.panel *
                             (w_.ops->format->scale_bytes / sizeof(std::uint16_t));
  tile.a_starts = reinterpret_cast<const std::int32_t*>(row + starts_at(w_.k, kernel_)) +
                  group * starts_of_group(kernel_);
}

}  // namespace coxswain::kernels
