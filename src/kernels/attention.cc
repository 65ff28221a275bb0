#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "base/numbers.h"
#include "kernels/cache_type.h"
#include "kernels/for_rows.h"

namespace coxswain::kernels {
namespace {

static_assert(kAttentionPartition == kPositionsMax);

using base::ceil_div;

AttentionShape shape_of(const AttentionArgs& args) {
  AttentionShape shape{};
  shape.k = args.cache.k;
  shape.v = args.cache.v;
  shape.k_block_stride_bytes = args.cache.k_block_stride_bytes;
  shape.v_block_stride_bytes = args.cache.v_block_stride_bytes;
  shape.k_head_bytes =
      kv_head_bytes(args.cache.type, args.cache.block_tokens, args.cache.k_head_dim);
  shape.v_head_bytes =
      kv_head_bytes(args.cache.type, args.cache.block_tokens, args.cache.v_head_dim);
  shape.type = cache_type(args.cache.type);
  shape.block_tokens = args.cache.block_tokens;
  shape.k_head_dim = args.cache.k_head_dim;
  shape.v_head_dim = args.cache.v_head_dim;
  shape.q = args.q;
  shape.q_stride = args.q_stride;
  shape.out = args.out;
  shape.out_stride = args.out_stride;
  shape.scale = args.scale;
  shape.soft_cap = args.soft_cap;
  shape.window = args.window;
  shape.sink_tokens = args.window > 0 ? args.sink_tokens : 0;
  shape.sinks = args.sinks;
  shape.alibi_slopes = args.alibi_slopes;
  return shape;
}

// How a call is cut: heads of a group and rows of a sequence per task.
struct Cut {
  std::size_t heads = 1;
  std::size_t head_pieces = 1;  // per KV head
  std::size_t rows = 1;
  // Of sequences of few rows: what a task may read, in positions of one KV head.
  std::size_t positions = 0;
};

// Where rows are few, reading the cache is what takes time.
bool are_few(const AttentionSequence& sequence, const Cut& cut) {
  return cut.head_pieces == 1 && sequence.n_rows * cut.heads <= kScoreRows;
}

// Positions that a sequence reads, at least 1.
std::size_t positions_of(const AttentionSequence& sequence, const AttentionArgs& args) {
  const auto end = static_cast<std::size_t>(sequence.first_position) + sequence.n_rows;
  const auto window = static_cast<std::size_t>(args.window);
  const auto seen =
      window == 0 ? end : window + sequence.n_rows + static_cast<std::size_t>(args.sink_tokens);
  return std::max<std::size_t>(1, std::min(end, seen));
}

// KV heads of a task. Of what a partition holds of them, the one worked on and the next lie in the second-level cache,
// beside all else.
std::size_t kv_heads_of(const AttentionSequence& sequence,
                        const AttentionArgs& args,
                        const Cut& cut) {
  constexpr std::size_t kBytesMax = std::size_t{288} << 10U;
  if (!are_few(sequence, cut)) return 1;
  const std::size_t positions = positions_of(sequence, args);
  const std::size_t held = std::min(positions, kPositionsMax);
  const std::size_t bytes = kv_head_bytes(args.cache.type, held, args.cache.k_head_dim) +
                            kv_head_bytes(args.cache.type, held, args.cache.v_head_dim);
  const std::size_t most = std::min({args.cache.n_kv_heads,
                                     kAttentionTaskRows / kScoreRows,
                                     kBytesMax / bytes,
                                     cut.positions / positions});
  return std::bit_floor(std::max<std::size_t>(1, most));
}

// Tasks of the same rows.
std::size_t tasks_of_rows(const AttentionSequence& sequence,
                          const AttentionArgs& args,
                          const Cut& cut) {
  return ceil_div(args.cache.n_kv_heads, kv_heads_of(sequence, args, cut)) * cut.head_pieces;
}

std::size_t tasks_of(const AttentionSequence& sequence, const AttentionArgs& args, const Cut& cut) {
  return ceil_div(sequence.n_rows, cut.rows) * tasks_of_rows(sequence, args, cut);
}

std::size_t n_tasks(const AttentionArgs& args, const Cut& cut) {
  std::size_t n = 0;
  for (const AttentionSequence& sequence : args.sequences) n += tasks_of(sequence, args, cut);
  return n;
}

Cut cut_of(const AttentionArgs& args, std::size_t n_threads) {
  const std::size_t group = args.n_heads / args.cache.n_kv_heads;
  std::size_t pieces = ceil_div(group, kAttentionTaskRows);
  // One decoding sequence over few KV heads: give every thread some heads.
  if (args.sequences.size() == 1 && args.sequences[0].n_rows == 1) {
    while (pieces * args.cache.n_kv_heads < n_threads && pieces < group) pieces *= 2;
  }
  Cut cut;
  cut.heads = ceil_div(group, pieces);
  cut.head_pieces = ceil_div(group, cut.heads);
  cut.rows = std::max<std::size_t>(1, kAttentionTaskRows / cut.heads);
  // Keys and values are laid out once a task: few large ones, but enough of them for all threads to end together.
  while (cut.rows > 1 && cut.rows * cut.heads > kScoreRows && n_tasks(args, cut) < 4 * n_threads)
    cut.rows /= 2;
  // All threads end together where none of these tasks is longer than a quarter of a thread's share of them.
  std::size_t positions = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    if (are_few(sequence, cut)) positions += positions_of(sequence, args);
  }
  cut.positions = positions * args.cache.n_kv_heads / (4 * n_threads);
  return cut;
}

// Finds the sequence of a task. Tasks of all sequences are numbered through; marks at some
// sequences keep the look-up short where there are many, without memory that grows with them.
class TaskIndex {
 public:
  TaskIndex(const AttentionArgs& args, const Cut& cut)
      : args_(args), cut_(cut), stride_(ceil_div(args.sequences.size(), kMarks)) {
    for (std::size_t i = 0; i < args.sequences.size(); ++i) {
      if (i % stride_ == 0) marks_[n_marks_++] = n_tasks_;
      n_tasks_ += tasks_of(args.sequences[i], args, cut);
    }
  }

  std::size_t n_tasks() const { return n_tasks_; }

  struct Place {
    const AttentionSequence* sequence;
    std::size_t index;  // of the sequence's tasks
  };
  // REQUIRES: task < n_tasks().
  Place find(std::size_t task) const {
    const auto* const end = marks_.data() + n_marks_;
    const auto mark =
        static_cast<std::size_t>(std::upper_bound(marks_.data(), end, task) - marks_.data()) - 1;
    const AttentionSequence* sequence = args_.sequences.data() + mark * stride_;
    std::size_t index = task - marks_[mark];
    for (std::size_t n = tasks_of(*sequence, args_, cut_); index >= n;
         n = tasks_of(*sequence, args_, cut_)) {
      index -= n;
      ++sequence;
    }
    return {sequence, index};
  }

 private:
  static constexpr std::size_t kMarks = 64;

  const AttentionArgs& args_;
  const Cut& cut_;
  const std::size_t stride_;                    // sequences from mark to mark
  std::array<std::size_t, kMarks> marks_ = {};  // tasks before each
  std::size_t n_marks_ = 0;
  std::size_t n_tasks_ = 0;
};

// Task `index` of a sequence; the last rows, which see the most keys, come first.
AttentionTask task_of(const AttentionSequence& sequence,
                      const AttentionArgs& args,
                      const Cut& cut,
                      std::size_t index) {
  const std::size_t per_rows = tasks_of_rows(sequence, args, cut);
  const std::size_t kv_heads = kv_heads_of(sequence, args, cut);
  const std::size_t row_piece = ceil_div(sequence.n_rows, cut.rows) - 1 - index / per_rows;
  const std::size_t group = args.n_heads / args.cache.n_kv_heads;
  const std::size_t in_group = index % cut.head_pieces * cut.heads;
  const std::size_t row = row_piece * cut.rows;
  AttentionTask task{};
  task.blocks = sequence.blocks.data();
  task.row = sequence.first_row + row;
  task.n_rows = std::min(cut.rows, sequence.n_rows - row);
  task.position = sequence.first_position + static_cast<std::int32_t>(row);
  task.kv_head = index % per_rows / cut.head_pieces * kv_heads;
  task.n_kv_heads = std::min(kv_heads, args.cache.n_kv_heads - task.kv_head);
  task.head = task.kv_head * group + in_group;
  task.n_heads = std::min(cut.heads, group - in_group);
  return task;
}

std::size_t scratch_floats(std::size_t dk, std::size_t dv) {
  return attention_task_floats(base::round_up(dk, std::size_t{16}),
                               base::round_up(dv, std::size_t{16}));
}

// Puts keys and values into the cache.
class KvWriter {
 public:
  KvWriter(const KvWriteArgs& args, const VectorOps& ops)
      : args_(args), ops_(ops), type_(cache_type(args.cache.type)) {}

  // Rows [row, end) of a sequence. What one head has of a block lies side by side, so all of its rows are written
  // before the next head's.
  void write(const AttentionSequence& sequence, std::size_t row, std::size_t end) const {
    const KvLayerView& cache = args_.cache;
    const std::size_t k_head = kv_head_bytes(cache.type, cache.block_tokens, cache.k_head_dim);
    const std::size_t v_head = kv_head_bytes(cache.type, cache.block_tokens, cache.v_head_dim);
    while (row < end) {
      const std::size_t position = static_cast<std::size_t>(sequence.first_position) + row;
      const std::size_t block = sequence.blocks[position / cache.block_tokens];
      const std::size_t slot = position % cache.block_tokens;
      const std::size_t count = std::min(end - row, cache.block_tokens - slot);
      const float* k = args_.k + (sequence.first_row + row) * args_.k_stride;
      const float* v = args_.v + (sequence.first_row + row) * args_.v_stride;
      for (std::size_t head = 0; head < cache.n_kv_heads; ++head) {
        std::byte* k_out = cache.k + block * cache.k_block_stride_bytes + head * k_head;
        std::byte* v_out = cache.v + block * cache.v_block_stride_bytes + head * v_head;
        for (std::size_t i = 0; i < count; ++i) {
          store(k_out, slot + i, k + i * args_.k_stride, cache.k_head_dim);
          store(v_out, slot + i, v + i * args_.v_stride, cache.v_head_dim);
        }
        k += cache.k_head_dim;
        v += cache.v_head_dim;
      }
      row += count;
    }
  }

 private:
  // A vector of the head at `base`.
  void store(std::byte* base, std::size_t slot, const float* x, std::size_t n) const {
    std::byte* out = base + slot * vector_bytes(type_, n);
    if (!has_codes(type_)) return ops_.store_row(out, type_, x, n);
    float scale = 0.0F;
    float zero = 0.0F;
    ops_.store_codes(reinterpret_cast<std::uint8_t*>(out), type_, &scale, &zero, x, n);
    const std::size_t tokens = args_.cache.block_tokens;
    std::byte* const scales = base + tokens * vector_bytes(type_, n);
    std::memcpy(scales + slot * sizeof(float), &scale, sizeof scale);
    std::memcpy(scales + (tokens + slot) * sizeof(float), &zero, sizeof zero);
  }

  const KvWriteArgs& args_;
  const VectorOps& ops_;
  const CacheType type_;
};

}  // namespace

std::size_t attention_scratch_bytes(std::size_t n_threads,
                                    std::size_t n_heads,
                                    std::size_t head_dim_max) {
  static_cast<void>(n_heads);  // a task's share of heads is bounded
  return n_threads * scratch_floats(head_dim_max, head_dim_max) * sizeof(float);
}

void run_attention(ExecContext& exec, const AttentionArgs& args, const VectorOps& ops) {
  const AttentionShape shape = shape_of(args);
  const Cut cut = cut_of(args, exec.n_threads());
  const std::size_t floats = scratch_floats(shape.k_head_dim, shape.v_head_dim);
  assert(args.n_heads % args.cache.n_kv_heads == 0);
  assert(args.scratch.size() >= exec.n_threads() * floats * sizeof(float));
  auto* scratch = reinterpret_cast<float*>(args.scratch.data());
  const TaskIndex tasks(args, cut);
  const auto attend = has_codes(shape.type) ? ops.attention_codes : ops.attention;
  exec.pool().run(tasks.n_tasks(), [&](std::size_t i, std::size_t worker) {
    const TaskIndex::Place place = tasks.find(i);
    const AttentionTask task = task_of(*place.sequence, args, cut, place.index);
    attend(&shape, &task, scratch + worker * floats);
  });
}

void run_kv_write(ExecContext& exec, const KvWriteArgs& args, const VectorOps& ops) {
  const KvLayerView& cache = args.cache;
  const KvWriter writer(args, ops);
  std::size_t n_rows = 0;
  for (const AttentionSequence& sequence : args.sequences) n_rows += sequence.n_rows;
  const std::size_t values = n_rows * cache.n_kv_heads * (cache.k_head_dim + cache.v_head_dim);
  const std::size_t n_tasks = values < kParallelValues ? 1 : std::min(n_rows, exec.n_threads() * 2);
  exec.pool().run(n_tasks, [&](std::size_t task, std::size_t) {
    std::size_t begin = n_rows * task / n_tasks;
    std::size_t left = n_rows * (task + 1) / n_tasks - begin;
    for (const AttentionSequence& sequence : args.sequences) {
      if (begin >= sequence.n_rows) {
        begin -= sequence.n_rows;
        continue;
      }
      const std::size_t count = std::min(left, sequence.n_rows - begin);
      writer.write(sequence, begin, begin + count);
      left -= count;
      begin = 0;
      if (left == 0) break;
    }
  });
}

}  // namespace coxswain::kernels
