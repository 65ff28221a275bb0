#ifndef COXSWAIN_KERNELS_CPU_AMX_ATTENTION_ROWS_H_
#define COXSWAIN_KERNELS_CPU_AMX_ATTENTION_ROWS_H_
// Softmax of the 16 query rows that tiles work on at once, and what else attention on tiles shares. Included inside an
// anonymous namespace of coxswain::kernels, after tiles.h and generic/attention.h.

static_assert(kTileRows == kScoreRows);
static_assert(kTileRows == Vec::kLanes);
constexpr size_t kSpan = 32;  // positions whose weights are made together

// Tiles 0 to 4 are of query rows, or of two rows of bytes for each: sums, and in 4 what is multiplied. 5 is a matrix. 6
// holds queries and 7 scores where keys are the rows.
inline TileConfig config_for(size_t n_rows) {
  return config_of({n_rows, n_rows, n_rows, n_rows, n_rows, kTileRows, kTileRows, kTileRows});
}

// Few query rows, as where sequences decode: laying keys out would take longer than the products. Keys are the rows of
// products where they lie in the cache, queries the matrix, so scores come by position.
inline bool are_few(const AttentionShape& shape, const AttentionTask& task) {
  return task.n_rows * task.n_heads <= kTileRows && shape.block_tokens % kTileRows == 0;
}

// A matrix in scratch: rows of floats, or of as many bytes of steps. A stride of zero makes all rows the same one.
struct Matrix {
  float* data;
  size_t stride;  // floats

  float* at(size_t row, size_t column) const { return data + row * stride + column; }
};

// c = a * b for kWidth times 16 columns. Product::add<kColumn>(tiles) adds that of tiles 4 and 5 to tile kColumn.
template <typename Product, int kWidth>
inline void multiply_columns(Matrix a, Matrix b, Matrix c, size_t n_steps) {
  const TileUnit tiles;
  const auto each = [&](auto&& body) __attribute__((always_inline)) {
    body.template operator()<0>();
    if constexpr (kWidth > 1) body.template operator()<1>();
    if constexpr (kWidth > 2) body.template operator()<2>();
    if constexpr (kWidth > 3) body.template operator()<3>();
  };
  each([&]<int kColumn>() __attribute__((always_inline)) { tiles.zero<kColumn>(); });
  for (size_t i = 0; i < n_steps; ++i) {
    tiles.load<4>(a.at(0, i * 16), a.stride * sizeof(float));
    const float* from = b.at(i * 16, 0);
    each([&]<int kColumn>() __attribute__((always_inline)) {
      tiles.load<5>(from + kColumn * 16, b.stride * sizeof(float));
      Product::template add<kColumn>(tiles);
    });
  }
  each([&]<int kColumn>() __attribute__((always_inline)) {
    tiles.store<kColumn>(c.at(0, kColumn * 16), c.stride * sizeof(float));
  });
}

// c[rows, n] = a[rows, n_steps * 64 bytes] * b, n a multiple of 16.
template <typename Product>
inline void multiply(Matrix a, Matrix b, Matrix c, size_t n_steps, size_t n) {
  for (size_t column = 0; column < n;) {
    if (n - column >= 64) {
      multiply_columns<Product, 4>(a, b, c, n_steps);
      column += 64, b.data += 64, c.data += 64;
    } else {
      multiply_columns<Product, 1>(a, b, c, n_steps);
      column += 16, b.data += 16, c.data += 16;
    }
  }
}

// 2^x for x up to about 0, to about 1 unit in the last place: 2^floor(x) times a polynomial in the rest, fitted to
// the least relative error on [0, 1] with 1 at 0. Zero below -126, where the result would be subnormal; NaN stays NaN.
inline Vec::Reg exp2_of(Vec::Reg x) {
  const Vec::Reg r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vec::Reg p = Vec::set1(1.86713005e-3F);
  p = Vec::fmadd(p, r, Vec::set1(9.01703071e-3F));
  p = Vec::fmadd(p, r, Vec::set1(5.57999127e-2F));
  p = Vec::fmadd(p, r, Vec::set1(2.40164444e-1F));
  p = Vec::fmadd(p, r, Vec::set1(6.93151295e-1F));
  p = Vec::fmadd(p, r, Vec::set1(1.0F));
  const __mmask16 normal = _mm512_cmp_ps_mask(x, Vec::set1(-126.0F), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, p, x);
}

struct Sum {
  static Vec::Reg of(Vec::Reg a, Vec::Reg b) { return Vec::add(a, b); }
  static float of(Vec::Reg a) { return Vec::sum(a); }
};
struct Greatest {
  static Vec::Reg of(Vec::Reg a, Vec::Reg b) { return Vec::max(a, b); }
  static float of(Vec::Reg a) { return Vec::highest(a); }
};

using LanesOfRows = float[kTileRows][Vec::kLanes];

// Lane r: Op over all lanes of rows[r], for r below n: halves of lanes first, then quarters, as Vec::sum does.
template <typename Op>
inline Vec::Reg fold_rows(const LanesOfRows& rows, size_t n) {
  if (n <= 4) {
    alignas(64) float folded[Vec::kLanes] = {};
    for (size_t r = 0; r < n; ++r) folded[r] = Op::of(Vec::load(rows[r]));
    return Vec::load(folded);
  }
  Vec::Reg v[kTileRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kTileRows; ++r) v[r] = r < n ? Vec::load(rows[r]) : Vec::zero();
  Vec::transpose(v);
#pragma GCC unroll 4
  for (size_t step = 8; step > 0; step /= 2) {
#pragma GCC unroll 8
    for (size_t r = 0; r < step; ++r) v[r] = Op::of(v[r], v[r + step]);
  }
  return v[0];
}

// What up to 16 query rows see of a partition.
struct RowsSeen {
  size_t q;  // the first of them
  size_t n;
  Visible visible[kTileRows];
  size_t lowest = kPositionsMax;
  size_t highest = 0;  // 0: nothing

  bool any(size_t r) const { return visible[r].begin != visible[r].end; }
  size_t begin() const { return lowest / kSpan * kSpan; }
  size_t end() const { return (highest + kSpan - 1) / kSpan * kSpan; }

  // Calls span(j) for the spans of [begin(), end()) of which row r sees nothing.
  template <typename Span>
  void for_unseen_spans(size_t r, const Span& span) const {
    const Visible v = any(r) ? visible[r] : Visible{end(), end()};
    for (size_t j = begin(); j < v.begin / kSpan * kSpan; j += kSpan) span(j);
    for (size_t j = (v.end + kSpan - 1) / kSpan * kSpan; j < end(); j += kSpan) span(j);
  }
};

inline RowsSeen rows_seen(const AttentionWork& w, size_t q, size_t partition_begin) {
  RowsSeen rows{};
  rows.q = q;
  rows.n = lesser(w.n_q - q, kTileRows);
  for (size_t r = 0; r < rows.n; ++r) {
    rows.visible[r] = visible_of(w, q + r, partition_begin);
    if (!rows.any(r)) continue;
    rows.lowest = lesser(rows.lowest, rows.visible[r].begin);
    rows.highest = greater(rows.highest, rows.visible[r].end);
  }
  return rows;
}

// What 16 positions of keys and values lie in further on, asked for in pieces between other work: all of it at once
// would hold everything up.
class Ahead {
 public:
  // REQUIRES: the position and 15 further ones in one block.
  Ahead(const AttentionWork& w, Share share, size_t n_parts)
      : k_bytes_(vector_bytes(w.shape->type, w.dk) * kTileRows / n_parts),
        v_bytes_(vector_bytes(w.shape->type, w.shape->v_head_dim) * kTileRows / n_parts) {
    const BlockHead from = block_head(w, share.position, share.kv_head);
    slot_ = share.position % w.shape->block_tokens;
    k_ = from.k + slot_ * vector_bytes(w.shape->type, w.dk);
    v_ = from.v + slot_ * vector_bytes(w.shape->type, w.shape->v_head_dim);
  }

  // What stands behind the codes of a block.
  void ask_parameters(const AttentionWork& w) const {
    if (slot_ != 0) return;
    const size_t k_bytes = w.shape->block_tokens * vector_bytes(w.shape->type, w.dk);
    const size_t v_bytes = w.shape->block_tokens * vector_bytes(w.shape->type, w.shape->v_head_dim);
    prefetch_bytes(k_ + k_bytes, w.shape->k_head_bytes - k_bytes);
    prefetch_bytes(v_ + v_bytes, w.shape->v_head_bytes - v_bytes);
  }

  void ask(size_t part) const {
    prefetch_bytes(k_ + part * k_bytes_, k_bytes_);
    prefetch_bytes(v_ + part * v_bytes_, v_bytes_);
  }

 private:
  const char* k_;
  const char* v_;
  size_t slot_;
  size_t k_bytes_;
  size_t v_bytes_;
};

// e^(scale * (score - highest)) with factor = scale * log2 e and shift = highest * factor. Not fused: the highest score
// has to give 1, however large it is.
struct Power {
  Vec::Reg factor;
  Vec::Reg shift;

  Vec::Reg of(Vec::Reg scores) const { return exp2_of(Vec::sub(Vec::mul(scores, factor), shift)); }
};

// Softmax of up to 16 query rows over a partition. Powers are of 2; what a row's are relative to is its highest score
// of the partition. Sums and highest scores cross lanes for all rows at once.
class RowsSoftmax {
 public:
  // Scores are products already, in s.scores.
  RowsSoftmax(const AttentionWork& w, const RowsSeen& rows, size_t partition_begin)
      : RowsSoftmax(w, rows) {
    if (takes_products_) {
      find_highest();
    } else {
      finish_scores(partition_begin, [&](size_t r, size_t j) { return Vec::load(scores(r) + j); });
    }
  }

  // `product`(r, j): of row r and the 16 positions from j on.
  template <typename Product>
  RowsSoftmax(const AttentionWork& w,
              const RowsSeen& rows,
              size_t partition_begin,
              const Product& product)
      : RowsSoftmax(w, rows) {
    finish_scores(partition_begin, product);
  }

  // Calls put(r, begin, end, power) for rows that see something: weights of their spans [begin, end) are
  // power.of(scores), zero where the row sees nothing. Takes their sums by lanes. Spans beside them are the caller's.
  template <typename Put>
  void weigh(const Put& put) {
    const Vec::Reg factor = Vec::set1(scale_ * kLog2E);
    for (size_t r = 0; r < rows_.n; ++r) {
      Vec::Reg sum = Vec::zero();
      if (rows_.any(r)) {
        const Visible v = rows_.visible[r];
        sum = put(r, begin_of(v), end_of(v), Power{factor, Vec::set1(shifts_[r])});
      }
      Vec::store(sums_[r], sum);
    }
  }

  // Takes the parts in: out and total of what came before and of the partition, relative to the higher score.
  // `part`(r, d): 16 values of row r.
  template <typename Part>
  void merge(const Part& part) const {
    const AttentionScratch& s = w_.s;
    const __mmask16 lanes = Vec::first_n(rows_.n);
    const Vec::Reg before = _mm512_mask_loadu_ps(Vec::set1(-INFINITY), lanes, s.highest + rows_.q);
    const Vec::Reg fresh = Vec::load(highest_);
    const Vec::Reg top = Vec::max(before, fresh);
    const Vec::Reg shift = shift_of_lanes(top);
    const Vec::Reg keep = exp_of(Vec::sub(before, shift));
    const Vec::Reg take = exp_of(Vec::sub(fresh, shift));
    const Vec::Reg total = _mm512_maskz_loadu_ps(lanes, s.total + rows_.q);
    const Vec::Reg sum = Vec::fmadd(total, keep, Vec::mul(fold_rows<Sum>(sums_, rows_.n), take));
    _mm512_mask_storeu_ps(s.highest + rows_.q, lanes, top);
    _mm512_mask_storeu_ps(s.total + rows_.q, lanes, sum);
    float keeps[kTileRows];
    float takes[kTileRows];
    Vec::store(keeps, keep);
    Vec::store(takes, take);
    for (size_t r = 0; r < rows_.n; ++r) {
      if (!rows_.any(r)) continue;
      float* const out = s.out + (rows_.q + r) * w_.dv_padded;
      for (size_t d = 0; d < w_.dv_padded; d += Vec::kLanes) {
        const Vec::Reg taken = Vec::mul(part(r, d), Vec::set1(takes[r]));
        Vec::store(out + d, Vec::fmadd(Vec::load(out + d), Vec::set1(keeps[r]), taken));
      }
    }
  }

 private:
  static constexpr float kLog2E = 1.44269504F;

  RowsSoftmax(const AttentionWork& w, const RowsSeen& rows)
      : w_(w),
        rows_(rows),
        takes_products_(w.shape->soft_cap == 0.0F && w.shape->alibi_slopes == nullptr &&
                        w.shape->scale > 0.0F),
        scale_(takes_products_ ? w.shape->scale : 1.0F) {}

  static Vec::Reg shift_of_lanes(Vec::Reg top) {
    return Vec::if_less(Vec::set1(-INFINITY), top, top, nan_or_zero(top));
  }
  // Of what is not above -infinity: zero for that itself, NaN for NaN.
  static Vec::Reg nan_or_zero(Vec::Reg top) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(top, top, _CMP_UNORD_Q), top);
  }

  float* scores(size_t r) const { return w_.s.scores + r * kKeyStride; }
  static size_t begin_of(Visible v) { return v.begin / kSpan * kSpan; }
  static size_t end_of(Visible v) { return (v.end + kSpan - 1) / kSpan * kSpan; }

  template <typename Product>
  void finish_scores(size_t partition_begin, const Product& product) {
    const AttentionShape& shape = *w_.shape;
    for (size_t r = 0; r < rows_.n; ++r) {
      const size_t head = w_.head + (rows_.q + r) % w_.task->n_heads;
      const float slope = shape.alibi_slopes != nullptr ? shape.alibi_slopes[head] : 0.0F;
      const Visible v = rows_.visible[r];
      for (size_t j = v.begin / 16 * 16; j < v.end; j += 16) {
        const Vec::Reg x = product(r, j);
        Vec::store(scores(r) + j,
                   takes_products_ ? x : score_of(shape, x, slope, partition_begin + j));
      }
    }
    find_highest();
  }

  void find_highest() {
    LanesOfRows lanes;
    for (size_t r = 0; r < rows_.n; ++r) {
      Vec::Reg top = Vec::set1(-INFINITY);
      if (rows_.any(r)) {
        const Visible v = rows_.visible[r];
        hide_others(scores(r), v);
        Vec::Reg odd = top;
        for (size_t j = begin_of(v); j < end_of(v); j += kSpan) {
          top = Vec::max(top, Vec::load(scores(r) + j));
          odd = Vec::max(odd, Vec::load(scores(r) + j + 16));
        }
        top = Vec::max(top, odd);
      }
      Vec::store(lanes[r], top);
    }
    const Vec::Reg top = fold_rows<Greatest>(lanes, rows_.n);
    Vec::store(highest_, Vec::mul(top, Vec::set1(scale_)));
    Vec::store(shifts_, Vec::mul(shift_of_lanes(top), Vec::set1(scale_ * kLog2E)));
  }

  // -infinity beside the positions that a row sees, within its spans.
  static void hide_others(float* scores, Visible v) {
    const Vec::Reg nothing = Vec::set1(-INFINITY);
    for (size_t j = begin_of(v); j < v.begin; j += 16)
      Vec::store_n(scores + j, nothing, lesser(v.begin - j, 16));
    for (size_t j = v.end / 16 * 16; j < end_of(v); j += 16) {
      const __mmask16 seen = Vec::first_n(v.end > j ? v.end - j : 0);
      _mm512_mask_storeu_ps(scores + j, _knot_mask16(seen), nothing);
    }
  }

  const AttentionWork& w_;
  const RowsSeen& rows_;
  const bool takes_products_;  // scores need but the scale, which the exponents take
  const float scale_;
  alignas(64) float highest_[kTileRows];  // scores, -infinity where a row sees nothing
  alignas(64) float shifts_[kTileRows];   // of exponents
  alignas(64) LanesOfRows sums_;
};

// A row of 16 positions for each of n query rows, from rows of 16 query rows for each position.
inline void turn_scores(const Vec::Reg (&by_position)[kTileRows], size_t n, float* out) {
  Vec::Reg rows[kTileRows];
#pragma GCC unroll 16
  for (size_t j = 0; j < kTileRows; ++j) rows[j] = by_position[j];
  Vec::transpose(rows);
#pragma GCC unroll 16
  for (size_t r = 0; r < kTileRows; ++r) {
    if (r < n) Vec::store(out + r * kKeyStride, rows[r]);
  }
}

// The first 4 of 16 query rows: v[i] has them for positions i, 4 + i, 8 + i and 12 + i.
inline __m512i first_4(const float* by_position, size_t i) {
  const auto row = [&](size_t j) { return _mm_loadu_ps(by_position + j * kTileRows); };
  Vec::Reg v = _mm512_castps128_ps512(row(i));
  v = _mm512_insertf32x4(v, row(4 + i), 1);
  v = _mm512_insertf32x4(v, row(8 + i), 2);
  return _mm512_castps_si512(_mm512_insertf32x4(v, row(12 + i), 3));
}

// The same as turn_scores of at most 4 query rows, each v[i] in that order.
inline void turn_scores_of_4(const Vec::Reg (&v)[4], size_t n, float* out) {
  const auto pair = [](Vec::Reg a, Vec::Reg b, bool high) {
    const __m512d x = _mm512_castps_pd(a);
    const __m512d y = _mm512_castps_pd(b);
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
  };
  const Vec::Reg low[2] = {_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpacklo_ps(v[2], v[3])};
  const Vec::Reg high[2] = {_mm512_unpackhi_ps(v[0], v[1]), _mm512_unpackhi_ps(v[2], v[3])};
  Vec::store(out, pair(low[0], low[1], false));
  if (n > 1) Vec::store(out + kKeyStride, pair(low[0], low[1], true));
  if (n > 2) Vec::store(out + 2 * kKeyStride, pair(high[0], high[1], false));
  if (n > 3) Vec::store(out + 3 * kKeyStride, pair(high[0], high[1], true));
}

#endif  // COXSWAIN_KERNELS_CPU_AMX_ATTENTION_ROWS_H_
