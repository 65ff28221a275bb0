#ifndef COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_H_
// Attention of a few query rows and the heads that share a KV head, over a Vec of any set. A task of several KV heads
// works on a partition of all of them before the next.
//
// Positions are worked on in partitions of kPositionsMax absolute positions. For one (row, head) and partition:
//   score of a position: one chain over d, ascending;
//   highest score, then the sum of e^(score - highest): lanes by absolute position modulo kLanes;
//   weighted sum of values: one chain over the visible positions, ascending;
// and the partition is merged into what came before it (online softmax, Milakov and Gimelshein
// 2018). Sink tokens are partitions of their own, before the others: a row sees one stretch of each.
// None of this depends on the other rows of the task, so a prompt row gives the bits of a decode
// row. Tiles of rows only share loads.
//
// Keys and values of a partition are first laid out in scratch. How, and with which instruction
// they are multiplied, is a `Cache`:
//   kStep              values of a head, or positions, that one instruction takes
//   query_floats       room of a query row of so many steps
//   kPositionsAhead    how far ahead of their use keys and values of one KV head are asked for: a head's
//                      share of a block is too short a stretch for hardware to follow
//   ask_ahead          asks for them, or put_stretch does
//   key_rows           rows of keys in scratch, [position] each, and of what stands behind them
//   put_query          a query row in scratch
//   put_stretch        some positions in scratch: keys as [step of d][position], values as
//                      [step of positions][d], a float's room for each
//   start_partition    before the first stretch of positions [begin, end)
//   attend             all query rows against the partition; with attend_in_registers:
//   score_rows         products of some query rows with all keys of the partition
//   add_values         the weighted sums
// The last four of caches that are multiplied as floats are those of FloatTiles, which asks for
//   put_weights        e^(score - highest) of a row, in place: a float's room for each step
//   dot                the instruction
//   only               a step of values with the other position's taken out (kStep 2)
// Included inside an anonymous namespace of coxswain::kernels, after generic/math.h.

inline size_t round_up_16(size_t n) {
  return (n + 15) / 16 * 16;
}
inline size_t lesser(size_t a, size_t b) {
  return a < b ? a : b;
}
inline size_t greater(size_t a, size_t b) {
  return a > b ? a : b;
}

// Query rows in a task are (row, head) pairs, head fastest.
struct AttentionScratch {
  float* keys;     // at most [dk][kKeyStride]
  float* values;   // at most [kPositionsMax][dv_padded]
  float* q;        // [query rows][q_stride]
  float* out;      // [query rows][dv_padded], not yet divided by `total`
  float* highest;  // [query rows]
  float* total;    // [query rows]
  float* scores;   // [kScoreRows][kKeyStride]
  float* part;     // [kScoreRows][dv_padded]
  float* spare;    // [kScoreRows][kKeyStride], then [kScoreRows][kPositionsMax / 2]
};

struct AttentionWork {
  const AttentionShape* shape;
  const AttentionTask* task;
  AttentionScratch s;
  size_t dk;
  size_t dv_padded;
  // Of the KV head that is worked on: its query rows, whose places in scratch `s` has.
  size_t kv_head;
  size_t head;  // the first query head
  size_t n_q;
  size_t q_stride;
  size_t steps;  // of a head
  // The pass over positions [begin, end): the sink tokens and what is behind them are two, where there are such.
  size_t begin;
  size_t end;
  size_t window;  // of the pass
};

// The first position behind the window of `position`.
inline size_t window_begin(size_t window, size_t position) {
  return window != 0 && position + 1 > window ? position + 1 - window : 0;
}

// The visible positions of a query row within a pass and a partition, relative to the partition's begin.
struct Visible {
  size_t begin;
  size_t end;
};

inline Visible visible_of(const AttentionWork& w, size_t q, size_t partition_begin) {
  const size_t position = static_cast<size_t>(w.task->position) + q / w.task->n_heads;
  const size_t first = greater(window_begin(w.window, position), w.begin);
  const size_t begin = greater(first, partition_begin);
  const size_t end = lesser(lesser(position + 1, w.end), partition_begin + kPositionsMax);
  if (begin >= end) return {0, 0};
  return {begin - partition_begin, end - partition_begin};
}

// What a task reads of one block.
struct BlockHead {
  const char* k;
  const char* v;
};

inline BlockHead block_head(const AttentionWork& w, size_t position, size_t kv_head) {
  const AttentionShape& shape = *w.shape;
  const uint32_t block = w.task->blocks[position / shape.block_tokens];
  return {static_cast<const char*>(shape.k) + block * shape.k_block_stride_bytes +
              kv_head * shape.k_head_bytes,
          static_cast<const char*>(shape.v) + block * shape.v_block_stride_bytes +
              kv_head * shape.v_head_bytes};
}

// A KV head's share of positions from one on.
struct Share {
  size_t position;
  size_t kv_head;
};

// What to ask for while the share of `position` is worked on. A task of one KV head asks `distance` positions ahead.
// One of several asks for the next partition, the heads of a position after one another, as they lie in memory: long
// runs, where a head's share of a block is a short one.
inline Share share_ahead(const AttentionWork& w, size_t position, size_t distance) {
  const size_t n = w.task->n_kv_heads;
  if (n == 1) return {position + distance, w.kv_head};
  const size_t i =
      (w.kv_head - w.task->kv_head) * (kPositionsMax / 16) + position % kPositionsMax / 16;
  const size_t next = (position / kPositionsMax + 1) * kPositionsMax;
  return {next + i / n * 16 + position % 16, w.task->kv_head + i % n};
}

inline void prefetch_bytes(const char* p, size_t n) {
  // g++ 12 takes a function that only prefetches with its builtin for one without effect, and drops the calls.
  for (size_t i = 0; i < n; i += 64) asm volatile("prefetcht2 %0" : : "m"(p[i]));
}

// Asks for `count` positions of one block.
inline void prefetch_positions(const AttentionWork& w, Share share, size_t count) {
  const AttentionShape& shape = *w.shape;
  const size_t position = share.position;
  if (position >= w.end) return;
  const BlockHead from = block_head(w, position, share.kv_head);
  const size_t tokens = shape.block_tokens;
  const size_t slot = position % tokens;
  const size_t rows = lesser(count, tokens - slot);
  const size_t k_bytes = vector_bytes(shape.type, w.dk);
  const size_t v_bytes = vector_bytes(shape.type, shape.v_head_dim);
  prefetch_bytes(from.k + slot * k_bytes, rows * k_bytes);
  prefetch_bytes(from.v + slot * v_bytes, rows * v_bytes);
  if (slot != 0) return;
  prefetch_bytes(from.k + tokens * k_bytes, shape.k_head_bytes - tokens * k_bytes);
  prefetch_bytes(from.v + tokens * v_bytes, shape.v_head_bytes - tokens * v_bytes);
}

// Positions that lie side by side in a block, and in one group of 16 of the partition.
struct Stretch {
  size_t position;
  size_t begin;  // of the partition
  size_t count;
  const char* k;
  const char* v;
  // Of codes: the first one's scale; zeros are block_tokens floats further.
  const char* k_scales;
  const char* v_scales;
};

// Codes d to d + n of a vector of 4-bit codes; d is a multiple of 64 and n at most that. Up to 64 bytes are written.
inline void unpack_codes(uint8_t* to, const char* vector, size_t d, size_t n) {
  const char* from = vector + d / 2;
  const size_t half = (n + 1) / 2;
  for (size_t i = 0; i < half; ++i) {
    const uint8_t pair = static_cast<uint8_t>(from[i]);
    to[i] = pair & 15U;
    to[half + i] = pair >> 4;
  }
}

// Lays positions [begin, end) of the partition out. Lanes of keys beside them, up to the next
// multiple of 16, become zero.
template <typename Cache>
inline void load_partition(const AttentionWork& w,
                           size_t partition_begin,
                           size_t begin,
                           size_t end) {
  const AttentionShape& shape = *w.shape;
  const size_t k_bytes = vector_bytes(shape.type, w.dk);
  const size_t v_bytes = vector_bytes(shape.type, shape.v_head_dim);
  const size_t tokens = shape.block_tokens;
  const size_t lanes_end = round_up_16(end);
  const size_t rows = Cache::key_rows(w.steps);
  for (size_t d = 0; d < rows && (begin % 16 != 0 || end % 16 != 0); ++d) {
    float* lane = w.s.keys + d * kKeyStride;
    for (size_t j = begin / 16 * 16; j < begin; ++j) lane[j] = 0.0F;
    for (size_t j = end; j < lanes_end; ++j) lane[j] = 0.0F;
  }
  for (size_t j = begin; j < end;) {
    const size_t position = partition_begin + j;
    const BlockHead from = block_head(w, position, w.kv_head);
    const size_t slot = position % tokens;
    const size_t count = lesser(lesser(tokens - slot, end - j), 16 - j % 16);
    Cache::ask_ahead(w, share_ahead(w, position, Cache::kPositionsAhead), count);
    Cache::put_stretch(w,
                       {position,
                        j,
                        count,
                        from.k + slot * k_bytes,
                        from.v + slot * v_bytes,
                        from.k + tokens * k_bytes + slot * sizeof(float),
                        from.v + tokens * v_bytes + slot * sizeof(float)});
    j += count;
  }
}

// scores[r][j .. j + kVectors lanes) = q[r] . keys[.][j ..]
template <typename Cache, int kRows, int kVectors>
inline void score_tile(const AttentionWork& w, const float* q, size_t j) {
  Vec::Reg sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vec::zero();
  }
  const float* keys = w.s.keys + j;
  for (size_t d = 0; d < w.steps; ++d, keys += kKeyStride) {
    Vec::Reg key[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      key[v] = Vec::load(keys + static_cast<size_t>(v) * Vec::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec::Reg x = Vec::set1(q[static_cast<size_t>(r) * w.q_stride + d]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) Cache::dot(sum[r][v], x, key[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      Vec::store(w.s.scores + static_cast<size_t>(r) * kKeyStride + j +
                     static_cast<size_t>(v) * Vec::kLanes,
                 sum[r][v]);
  }
}

// part[r][d] += weight[r][j] * values[j][d] for j in [begin, end), ascending. Only the first and
// the last step may hold a position outside.
template <typename Cache, int kRows, int kVectors>
inline void value_tile(const AttentionWork& w, size_t row, size_t d, size_t begin, size_t end) {
  Vec::Reg sum[kRows][kVectors];
  float* part = w.s.part + row * w.dv_padded + d;
  const float* weights = w.s.scores + row * kKeyStride;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = Vec::load(part + static_cast<size_t>(r) * w.dv_padded +
                            static_cast<size_t>(v) * Vec::kLanes);
  }
  const auto step = [&](size_t j, auto form) __attribute__((always_inline)) {
    const float* values = w.s.values + j * w.dv_padded + d;
    Vec::Reg value[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      value[v] = form(Vec::load(values + static_cast<size_t>(v) * Vec::kLanes));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec::Reg x = Vec::set1(weights[static_cast<size_t>(r) * kKeyStride + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) Cache::dot(sum[r][v], x, value[v]);
    }
  };
  if (begin % Cache::kStep != 0) {
    step(begin / Cache::kStep, [](Vec::Reg value) { return Cache::only(value, 1); });
    ++begin;
  }
  for (size_t j = begin / Cache::kStep; j < end / Cache::kStep; ++j)
    step(j, [](Vec::Reg value) { return value; });
  if (begin < end && end % Cache::kStep != 0)
    step(end / Cache::kStep, [](Vec::Reg value) { return Cache::only(value, 0); });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      Vec::store(part + static_cast<size_t>(r) * w.dv_padded + static_cast<size_t>(v) * Vec::kLanes,
                 sum[r][v]);
  }
}

// Adds the values of positions [begin, end) to the rows' parts.
template <typename Cache, int kRows>
inline void value_rows(const AttentionWork& w, size_t row, size_t begin, size_t end) {
  if (begin >= end) return;
  constexpr size_t kWide = size_t{Vec::kScoreVectors} * Vec::kLanes;
  size_t d = 0;
  for (; d + kWide <= w.dv_padded; d += kWide)
    value_tile<Cache, kRows, Vec::kScoreVectors>(w, row, d, begin, end);
  for (; d < w.dv_padded; d += Vec::kLanes) value_tile<Cache, kRows, 1>(w, row, d, begin, end);
}

template <typename Cache>
inline void attend_in_registers(const AttentionWork& w, size_t partition_begin);

struct AsksAtOnce {
  static void ask_ahead(const AttentionWork& w, Share share, size_t count) {
    prefetch_positions(w, share, count);
  }
};

template <typename Cache>
struct FloatTiles : AsksAtOnce {
  static constexpr size_t kPositionsAhead = 32;
  static size_t key_rows(size_t steps) { return steps; }
  static size_t query_floats(size_t steps) { return steps; }
  static void start_partition(const AttentionWork&, size_t, size_t) {}
  static void attend(const AttentionWork& w, size_t partition_begin) {
    attend_in_registers<Cache>(w, partition_begin);
  }

  // Scores of positions [begin, end), and of their neighbours within a vector.
  template <int kRows>
  static void score_rows(const AttentionWork& w, const float* q, size_t begin, size_t end) {
    constexpr size_t kWide = size_t{Vec::kScoreVectors} * Vec::kLanes;
    size_t j = begin / Vec::kLanes * Vec::kLanes;
    for (; j + kWide <= round_up_16(end); j += kWide)
      score_tile<Cache, kRows, Vec::kScoreVectors>(w, q, j);
    for (; j < end; j += Vec::kLanes) score_tile<Cache, kRows, 1>(w, q, j);
  }

  // What all rows see is worked on together, the rest of each row before and behind it.
  template <int kRows>
  static void add_values(const AttentionWork& w, const Visible (&visible)[kRows], size_t, size_t) {
    size_t common_begin = 0;
    size_t common_end = kPositionsMax;
    for (const Visible& v : visible) {
      common_begin = greater(common_begin, v.begin);
      common_end = lesser(common_end, v.end);
    }
    common_begin = (common_begin + Cache::kStep - 1) / Cache::kStep * Cache::kStep;
    common_end = common_end / Cache::kStep * Cache::kStep;
    if (common_end < common_begin) common_end = common_begin;  // nothing in common
    for (size_t r = 0; r < kRows; ++r) {
      if (visible[r].begin == visible[r].end) continue;
      Cache::put_weights(w.s.scores + r * kKeyStride, visible[r]);
      for (size_t d = 0; d < w.dv_padded; ++d) w.s.part[r * w.dv_padded + d] = 0.0F;
      value_rows<Cache, 1>(w, r, visible[r].begin, lesser(common_begin, visible[r].end));
    }
    value_rows<Cache, kRows>(w, 0, common_begin, common_end);
    for (size_t r = 0; r < kRows; ++r) {
      if (visible[r].begin == visible[r].end) continue;
      value_rows<Cache, 1>(w, r, greater(common_end, visible[r].begin), visible[r].end);
    }
  }
};

// The scores of one row, as far as visible, to e^(score - highest); zero beside them within their
// vectors. Returns highest and sum.
struct Softmax {
  float highest;
  float total;
};

// What is taken off scores whose highest is `top`. Where all are -infinity there is nothing to bring near zero: every
// e^score is zero then, where -infinity less -infinity would be NaN.
inline float shift_of(float top) {
  return top == -INFINITY ? 0.0F : top;
}

// What the products of a query with a vector of keys from `position` on score.
inline Vec::Reg score_of(const AttentionShape& shape,
                         Vec::Reg product,
                         float slope,
                         size_t position) {
  Vec::Reg x = Vec::mul(product, Vec::set1(shape.scale));
  if (shape.soft_cap != 0.0F)
    x = Vec::mul(tanh_of(Vec::div(x, Vec::set1(shape.soft_cap))), Vec::set1(shape.soft_cap));
  if (shape.alibi_slopes == nullptr) return x;
  const Vec::Reg p = Vec::add(Vec::iota(), Vec::set1(static_cast<float>(position)));
  return Vec::fmadd(Vec::set1(slope), p, x);
}

inline Softmax softmax_row(
    const AttentionWork& w, size_t q, float* scores, Visible visible, size_t partition_begin) {
  const AttentionShape& shape = *w.shape;
  const size_t head = w.head + q % w.task->n_heads;
  const Vec::Reg lowest = Vec::set1(-INFINITY);
  const float slope = shape.alibi_slopes != nullptr ? shape.alibi_slopes[head] : 0.0F;
  const size_t first = visible.begin / Vec::kLanes * Vec::kLanes;
  Vec::Reg highest = lowest;
  for (size_t j = first; j < visible.end; j += Vec::kLanes) {
    Vec::Reg x = score_of(shape, Vec::load(scores + j), slope, partition_begin + j);
    if (visible.begin > j || visible.end - j < Vec::kLanes) {
      const size_t lane = visible.begin > j ? visible.begin - j : 0;
      x = Vec::select(x, lowest, lane, lesser(visible.end - j, Vec::kLanes));
    }
    Vec::store(scores + j, x);
    highest = Vec::max(highest, x);
  }
  const float top = Vec::highest(highest);
  const Vec::Reg shift = Vec::set1(shift_of(top));
  Vec::Reg sum = Vec::zero();
  for (size_t j = first; j < visible.end; j += Vec::kLanes) {
    const Vec::Reg e = exp_of(Vec::sub(Vec::load(scores + j), shift));
    Vec::store(scores + j, e);
    sum = Vec::add(sum, e);
  }
  return {top, Vec::sum(sum)};
}

// One lane of exp_of: the same operations, so the same bits as in a vector.
inline float exp_float(float x) {
  float lanes[Vec::kLanes];
  Vec::store(lanes, exp_of(Vec::set1(x)));
  return lanes[0];
}

inline void merge_row(const AttentionWork& w, size_t q, const float* part, Softmax fresh) {
  float* out = w.s.out + q * w.dv_padded;
  const float before = w.s.highest[q];
  const float top = before > fresh.highest ? before : fresh.highest;
  const float keep = exp_float(before - shift_of(top));
  const float take = exp_float(fresh.highest - shift_of(top));
  w.s.highest[q] = top;
  w.s.total[q] = w.s.total[q] * keep + fresh.total * take;
  const Vec::Reg a = Vec::set1(keep);
  const Vec::Reg b = Vec::set1(take);
  for (size_t d = 0; d < w.dv_padded; d += Vec::kLanes) {
    Vec::store(out + d, Vec::fmadd(Vec::load(out + d), a, Vec::mul(Vec::load(part + d), b)));
  }
}

// kRows query rows from q on, against one partition.
template <typename Cache, int kRows>
inline void attend_tile(const AttentionWork& w, size_t q, size_t partition_begin) {
  Visible visible[kRows];
  size_t lowest = kPositionsMax;
  size_t highest = 0;
  for (int r = 0; r < kRows; ++r) {
    const Visible v = visible_of(w, q + static_cast<size_t>(r), partition_begin);
    visible[r] = v;
    if (v.begin == v.end) continue;
    lowest = lesser(lowest, v.begin);
    highest = greater(highest, v.end);
  }
  if (highest == 0) return;
  Cache::template score_rows<kRows>(w, w.s.q + q * w.q_stride, lowest, highest);
  Softmax softmax[kRows];
  for (int r = 0; r < kRows; ++r) {
    const size_t row = static_cast<size_t>(r);
    if (visible[r].begin == visible[r].end) continue;
    softmax[r] =
        softmax_row(w, q + row, w.s.scores + row * kKeyStride, visible[r], partition_begin);
  }
  Cache::template add_values<kRows>(w, visible, lowest, highest);
  for (int r = 0; r < kRows; ++r) {
    const size_t row = static_cast<size_t>(r);
    if (visible[r].begin == visible[r].end) continue;
    merge_row(w, q + row, w.s.part + row * w.dv_padded, softmax[r]);
  }
}

template <typename Cache, int kRows>
inline void attend_remainder(const AttentionWork& w, size_t q, size_t n, size_t partition_begin) {
  if constexpr (kRows > 0) {
    if (n == kRows) return attend_tile<Cache, kRows>(w, q, partition_begin);
    attend_remainder<Cache, kRows - 1>(w, q, n, partition_begin);
  }
}

// All query rows against one partition, kTileRows at a time.
template <typename Cache>
inline void attend_in_registers(const AttentionWork& w, size_t partition_begin) {
  for (size_t q = 0; q < w.n_q; q += Vec::kTileRows) {
    attend_remainder<Cache, Vec::kTileRows>(
        w, q, lesser(w.n_q - q, Vec::kTileRows), partition_begin);
  }
}

template <typename Cache>
inline void attend_partition(const AttentionWork& w,
                             size_t partition_begin,
                             size_t first,
                             size_t last) {
  const size_t begin = greater(first, partition_begin) - partition_begin;
  const size_t end = lesser(last, partition_begin + kPositionsMax) - partition_begin;
  Cache::start_partition(w, begin, end);
  load_partition<Cache>(w, partition_begin, begin, end);
  Cache::attend(w, partition_begin);
}

template <typename Cache>
inline void start_rows(const AttentionWork& w) {
  const AttentionTask& task = *w.task;
  for (size_t q = 0; q < w.n_q; ++q) {
    const size_t head = w.head + q % task.n_heads;
    const float* x = w.shape->q + (task.row + q / task.n_heads) * w.shape->q_stride + head * w.dk;
    Cache::put_query(w.s.q + q * w.q_stride, x, w.dk);
    memset(w.s.out + q * w.dv_padded, 0, w.dv_padded * sizeof(float));
    // A sink is a position that was there first and has no value.
    w.s.highest[q] = w.shape->sinks != nullptr ? w.shape->sinks[head] : -INFINITY;
    w.s.total[q] = w.shape->sinks != nullptr ? 1.0F : 0.0F;
  }
}

inline void finish_rows(const AttentionWork& w) {
  const AttentionTask& task = *w.task;
  const size_t dv = w.shape->v_head_dim;
  for (size_t q = 0; q < w.n_q; ++q) {
    const size_t head = w.head + q % task.n_heads;
    float* y = w.shape->out + (task.row + q / task.n_heads) * w.shape->out_stride + head * dv;
    // Zero: every score was -infinity, and the values take no part.
    const Vec::Reg total = Vec::set1(w.s.total[q] == 0.0F ? 1.0F : w.s.total[q]);
    const float* out = w.s.out + q * w.dv_padded;
    for_vectors(dv, [&](size_t i, size_t n) {
      Vec::store_n(y + i, Vec::div(Vec::load_n(out + i, n), total), n);
    });
  }
}

// Calls body() for each KV head of the task, with what `w` says of one.
template <typename Body>
inline void for_kv_heads(AttentionWork& w, const Body& body) {
  const AttentionScratch first = w.s;
  for (size_t i = 0; i < w.task->n_kv_heads; ++i) {
    w.kv_head = w.task->kv_head + i;
    w.head = w.task->head + i * w.task->n_heads;
    const size_t row = i * w.n_q;
    w.s.q = first.q + row * w.q_stride;
    w.s.out = first.out + row * w.dv_padded;
    w.s.highest = first.highest + row;
    w.s.total = first.total + row;
    body();
  }
  w.s = first;
}

template <typename Cache>
inline void attend_positions(AttentionWork& w, size_t first, size_t last) {
  for (size_t p = first / kPositionsMax * kPositionsMax; p < last; p += kPositionsMax)
    for_kv_heads(w, [&] { attend_partition<Cache>(w, p, first, last); });
}

template <typename Cache>
inline void attention_over(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  AttentionWork w{};
  w.shape = shape;
  w.task = task;
  w.dk = shape->k_head_dim;
  w.dv_padded = round_up_16(shape->v_head_dim);
  w.n_q = task->n_rows * task->n_heads;
  w.steps = (w.dk + Cache::kStep - 1) / Cache::kStep;
  w.q_stride = Cache::query_floats(w.steps);
  // Every piece starts at a multiple of 16 floats.
  w.s.keys = scratch;
  w.s.values = w.s.keys + round_up_16(w.dk) * kKeyStride;
  w.s.scores = w.s.values + kPositionsMax * w.dv_padded;
  w.s.part = w.s.scores + kScoreRows * kKeyStride;
  w.s.spare = w.s.part + kScoreRows * w.dv_padded;
  w.s.out = w.s.spare + kScoreRows * (kKeyStride + kPositionsMax / 2);
  w.s.highest = w.s.out + kAttentionTaskRows * w.dv_padded;
  w.s.total = w.s.highest + kAttentionTaskRows;
  w.s.q = w.s.total + kAttentionTaskRows;
  for_kv_heads(w, [&] { start_rows<Cache>(w); });
  const size_t position = static_cast<size_t>(task->position);
  const size_t last = position + task->n_rows;
  w.end = lesser(static_cast<size_t>(shape->sink_tokens), last);
  if (w.end > 0) attend_positions<Cache>(w, 0, w.end);
  w.begin = w.end;
  w.end = last;
  w.window = static_cast<size_t>(shape->window);
  attend_positions<Cache>(w, greater(window_begin(w.window, position), w.begin), last);
  for_kv_heads(w, [&] { finish_rows(w); });
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_H_
