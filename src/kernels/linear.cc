#include "kernels/linear.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace coxswain::kernels {
namespace {

// Rows that share one visit of a panel: accumulators of 24 to 64 KiB. Multiples of every row_tile,
// the larger one of those with chunk_bytes.
constexpr std::size_t kRowChunk = 96;
constexpr std::size_t kRowChunkMax = 256;
// Tasks per thread and row chunk: enough to even out a disturbed core, few enough to read long
// stretches.
constexpr std::size_t kTasksPerThread = 8;
// Values below which converting activations is not worth waking a thread.
constexpr std::size_t kParallelValues = std::size_t{1} << 16;

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}
constexpr std::size_t round_up(std::size_t a, std::size_t b) {
  return ceil_div(a, b) * b;
}

constexpr std::size_t kConvertedBytesMax = 2;
// Not a multiple of 4 KiB apart, so that rows do not meet in one set of the first-level cache.
constexpr std::size_t row_bytes(std::size_t k, std::size_t value_bytes) {
  return round_up(k, 64) * value_bytes + 64;
}

std::size_t value_bytes(ActivationForm form) {
  switch (form) {
    case kActivationF32:
      return 4;
    case kActivationBf16:
      return 2;
    case kActivationU8:
      return 1;
    case kActivationS16:
      return 2;
  }
  return 0;
}

// Converted activations, or x itself.
struct Rows {
  const std::byte* data = nullptr;
  std::size_t stride_bytes = 0;
  const float* scales = nullptr;
};

Rows convert(ThreadPool& pool, const LinearArgs& args, const LinearKernel& kernel) {
  const std::size_t k = args.w->k;
  if (kernel.form == kActivationF32) {
    return {reinterpret_cast<const std::byte*>(args.x), args.x_stride * sizeof(float), nullptr};
  }
  assert(args.scratch.size() >= linear_scratch_bytes(args.m, k));
  auto* scales = reinterpret_cast<float*>(args.scratch.data());
  std::byte* rows = args.scratch.data() + round_up(args.m * sizeof(float), 64);
  const std::size_t stride = row_bytes(k, value_bytes(kernel.form));
  const std::size_t k_padded = round_up(k, kernel.k_multiple);
  const auto convert_rows = [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      kernel.convert_row(
          rows + row * stride, args.x + row * args.x_stride, k, k_padded, scales + row);
    }
  };
  if (args.m * k < kParallelValues) {
    convert_rows(0, args.m);
  } else {
    const std::size_t n_tasks = std::min(args.m, pool.n_threads() * 2);
    pool.run(n_tasks, [&](std::size_t i, std::size_t) {
      convert_rows(args.m * i / n_tasks, args.m * (i + 1) / n_tasks);
    });
  }
  return {rows, stride, scales};
}

// One call, seen by its tasks.
class LinearCall {
 public:
  LinearCall(const LinearArgs& args, const LinearKernel& kernel, const Rows& rows)
      : args_(args),
        kernel_(kernel),
        rows_(rows),
        few_(kernel.few_rows != 0 && args.m <= kernel.few_rows),
        k_padded_(round_up(args.w->k, kernel.k_multiple)),
        panel_bytes_(k_padded_ * kernel.panel * kernel.weight_bytes) {}

  // Rows [row, row + n_rows) of panels [begin, end).
  void compute(std::size_t begin, std::size_t end, std::size_t row, std::size_t n_rows) const {
    alignas(64) std::byte acc[kRowChunkMax * kPanelMax * 4];
    for (std::size_t panel = begin; panel < end; ++panel) {
      multiply(panel, row, n_rows, acc);
      finish(panel, row, n_rows, acc);
    }
  }

 private:
  void multiply(std::size_t panel, std::size_t row, std::size_t n_rows, std::byte* acc) const {
    const std::byte* w = args_.w->data.data() + panel * panel_bytes_;
    const std::size_t n_tiles = ceil_div(n_rows, few_ ? kernel_.few_rows : kernel_.row_tile);
    const std::size_t unit = few_ || kernel_.row_unit == 0 ? 1 : kernel_.row_unit;
    const auto run_tile = few_ ? kernel_.tile_few : kernel_.tile;
    const std::size_t k_block = n_tiles == 1 ? k_padded_ : kernel_.k_block;
    const std::size_t value = value_bytes(kernel_.form);
    const std::size_t step_bytes = kernel_.panel * kernel_.weight_bytes;  // per value of k
    TileArgs tile{};
    tile.a_stride_bytes = rows_.stride_bytes;
    for (std::size_t k = 0; k < k_padded_; k += k_block) {
      tile.k = std::min(k_block, k_padded_ - k);
      tile.w = w + k * step_bytes;
      tile.first = k == 0;
      // While these rows are worked on, the next block comes nearer: each tile asks for its share.
      const char* next =
          n_tiles == 1 ? nullptr : static_cast<const char*>(tile.w) + tile.k * step_bytes;
      tile.prefetch_step =
          n_tiles == 1 ? kernel_.stream_ahead : step_bytes * kernel_.k_group / n_tiles;
      for (std::size_t t = 0; t < n_tiles; ++t) {
        const std::size_t first = round_up(n_rows * t / n_tiles, unit);
        tile.rows = std::min(n_rows, round_up(n_rows * (t + 1) / n_tiles, unit)) - first;
        tile.a = rows_.data + (row + first) * rows_.stride_bytes + k * value;
        tile.acc = acc + first * kernel_.panel * 4;
        tile.prefetch = next;
        run_tile(&tile);
        if (next != nullptr) next += tile.k / kernel_.k_group * tile.prefetch_step;
      }
    }
  }

  void finish(std::size_t panel, std::size_t row, std::size_t n_rows, const std::byte* acc) const {
    const PackedMatrix& w = *args_.w;
    const std::size_t column = panel * kernel_.panel;
    FinishArgs out{};
    out.acc = acc;
    out.panel = kernel_.panel;
    out.rows = n_rows;
    out.n = std::min<std::size_t>(kernel_.panel, w.n - column);
    out.y = args_.y + row * args_.y_stride + column;
    out.y_stride = args_.y_stride;
    out.bias = args_.bias != nullptr ? args_.bias + column : nullptr;
    out.accumulate = args_.accumulate;
    if (rows_.scales != nullptr && !w.scales.empty()) {
      out.row_scales = rows_.scales + row;
      out.scales = w.scales.data() + column;
      out.column_sums = w.column_sums.data() + column;
      out.activation_offset = kernel_.form == kActivationU8 ? 128 : 0;
    }
    kernel_.finish(&out);
  }

  const LinearArgs& args_;
  const LinearKernel& kernel_;
  const Rows rows_;
  const bool few_;
  const std::size_t k_padded_;
  const std::size_t panel_bytes_;
};

// Chunks of about the same size, of whole tiles.
std::size_t rows_of_chunk(std::size_t m, std::size_t stride_bytes, const LinearKernel& kernel) {
  const std::size_t most =
      kernel.chunk_bytes == 0
          ? kRowChunk
          : std::clamp(kernel.chunk_bytes / stride_bytes, kRowChunk, kRowChunkMax);
  return round_up(ceil_div(m, ceil_div(m, most)), kernel.row_tile);
}

}  // namespace

std::size_t linear_scratch_bytes(std::size_t m, std::size_t k) {
  return round_up(m * sizeof(float), 64) + m * row_bytes(k, kConvertedBytesMax);
}

void run_linear(ThreadPool& pool, const LinearArgs& args, const LinearKernel& kernel) {
  const PackedMatrix& w = *args.w;
  if (args.m == 0 || w.n == 0) return;
  assert(w.layout_id == kernel.layout_id);
  const Rows rows = convert(pool, args, kernel);
  const LinearCall call(args, kernel, rows);
  const std::size_t n_panels = ceil_div(w.n, kernel.panel);
  const std::size_t chunk_rows = rows_of_chunk(args.m, rows.stride_bytes, kernel);
  const std::size_t n_chunks = ceil_div(args.m, chunk_rows);
  const std::size_t n_threads = pool.n_threads();
  // Within a chunk each thread walks its own long stretch of panels, as memory and the prefetches
  // of the next panel want it, cut into pieces that another thread may take over.
  const std::size_t pieces = std::clamp<std::size_t>(n_panels / n_threads, 1, kTasksPerThread);
  const std::size_t n_slots = std::min(n_panels, n_threads * pieces);
  pool.run(n_slots * n_chunks, [&](std::size_t i, std::size_t) {
    const std::size_t chunk = i / n_slots;  // its rows stay near while panels pass by
    const std::size_t in_chunk = i % n_slots;
    const std::size_t slot = n_slots == n_threads * pieces
                                 ? in_chunk % n_threads * pieces + in_chunk / n_threads
                                 : in_chunk;
    const std::size_t row = chunk * chunk_rows;
    call.compute(n_panels * slot / n_slots,
                 n_panels * (slot + 1) / n_slots,
                 row,
                 std::min(chunk_rows, args.m - row));
  });
}

}  // namespace coxswain::kernels
