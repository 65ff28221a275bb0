#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "kernels/cpu_features.h"
#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;

struct Case {
  const char* name;
  DType type = DType::kF32;
  std::size_t n_heads = 4, n_kv_heads = 2, dk = 64, dv = 64;
  std::size_t length = 300;
  std::size_t block_tokens = 16;
  float soft_cap = 0.0F;
  std::int32_t window = 0;
  std::int32_t sink_tokens = 0;
  bool sinks = false;
  bool alibi = false;
};

const Case kCases[] = {
    {.name = "plain"},
    {.name = "bf16 cache", .type = DType::kBf16, .n_heads = 8, .length = 530},
    {.name = "f16 cache", .type = DType::kF16, .n_heads = 3, .n_kv_heads = 1},
    {.name = "odd sizes", .n_heads = 5, .n_kv_heads = 5, .dk = 37, .dv = 19, .length = 257},
    {.name = "group of 7, blocks of 1",
     .type = DType::kBf16,
     .n_heads = 7,
     .n_kv_heads = 1,
     .dk = 96,
     .dv = 96,
     .length = 70,
     .block_tokens = 1},
    {.name = "window", .type = DType::kBf16, .length = 600, .window = 100},
    {.name = "odd sizes and window, blocks of 2, bf16 cache",
     .type = DType::kBf16,
     .n_heads = 5,
     .n_kv_heads = 5,
     .dk = 37,
     .dv = 19,
     .length = 290,
     .block_tokens = 2,
     .window = 33},
    {.name = "window of 1", .length = 40, .window = 1},
    {.name = "window and sink tokens", .length = 600, .window = 100, .sink_tokens = 4},
    {.name = "an odd number of sink tokens, bf16 cache",
     .type = DType::kBf16,
     .n_heads = 8,
     .length = 300,
     .window = 33,
     .sink_tokens = 21},
    {.name = "sink tokens of more than a partition, blocks of 1, f16 cache",
     .type = DType::kF16,
     .length = 640,
     .block_tokens = 1,
     .window = 65,
     .sink_tokens = 270},
    {.name = "more sink tokens than positions", .length = 40, .window = 5, .sink_tokens = 64},
    {.name = "sink tokens, soft cap and sinks",
     .type = DType::kBf16,
     .n_heads = 7,
     .n_kv_heads = 1,
     .dk = 37,
     .dv = 19,
     .length = 300,
     .soft_cap = 5.0F,
     .window = 40,
     .sink_tokens = 3,
     .sinks = true},
    {.name = "wide window, blocks of 256", .length = 700, .block_tokens = 256, .window = 300},
    {.name = "soft cap and sinks", .length = 290, .soft_cap = 5.0F, .sinks = true},
    {.name = "alibi",
     .n_heads = 4,
     .n_kv_heads = 4,
     .dk = 128,
     .dv = 128,
     .length = 280,
     .alibi = true},
    {.name = "int8 cache", .type = DType::kI8, .n_heads = 8, .length = 530},
    {.name = "int8 cache, odd sizes and window, blocks of 2",
     .type = DType::kI8,
     .n_heads = 5,
     .n_kv_heads = 5,
     .dk = 37,
     .dv = 19,
     .length = 290,
     .block_tokens = 2,
     .window = 33},
    {.name = "int8 cache, group of 7, blocks of 1",
     .type = DType::kI8,
     .n_heads = 7,
     .n_kv_heads = 1,
     .dk = 96,
     .dv = 130,
     .length = 70,
     .block_tokens = 1},
    {.name = "int8 cache, few values, window and an odd number of sink tokens",
     .type = DType::kI8,
     .n_heads = 8,
     .dk = 3,
     .dv = 8,
     .length = 300,
     .window = 33,
     .sink_tokens = 21},
    {.name = "int8 cache, soft cap, sinks and wide window, blocks of 256",
     .type = DType::kI8,
     .n_heads = 3,
     .n_kv_heads = 1,
     .length = 700,
     .block_tokens = 256,
     .soft_cap = 5.0F,
     .window = 300,
     .sinks = true},
    {.name = "int8 cache, alibi",
     .type = DType::kI8,
     .dk = 128,
     .dv = 128,
     .length = 280,
     .alibi = true},
    {.name = "e4m3 cache", .type = DType::kF8E4M3, .n_heads = 8, .length = 530},
    {.name = "e4m3 cache, odd sizes and window, blocks of 2",
     .type = DType::kF8E4M3,
     .n_heads = 5,
     .n_kv_heads = 5,
     .dk = 37,
     .dv = 19,
     .length = 290,
     .block_tokens = 2,
     .window = 33},
    {.name = "e5m2 cache and sink tokens",
     .type = DType::kF8E5M2,
     .length = 300,
     .window = 65,
     .sink_tokens = 7},
    {.name = "many heads",
     .type = DType::kBf16,
     .n_heads = 130,
     .n_kv_heads = 1,
     .dk = 16,
     .dv = 32,
     .length = 30},
};

// Those, and those of int8 once more in int4.
std::vector<Case> all_cases() {
  std::vector<Case> out(std::begin(kCases), std::end(kCases));
  for (const Case& c : kCases) {
    if (c.type == DType::kI8) out.emplace_back(c).type = DType::kI4;
  }
  return out;
}

// One sequence in a shuffled block table.
class Cache {
 public:
  explicit Cache(const Case& c)
      : c_(c), n_blocks_((c.length + c.block_tokens - 1) / c.block_tokens) {
    view_.type = c.type;
    view_.n_kv_heads = c.n_kv_heads;
    view_.block_tokens = c.block_tokens;
    view_.k_head_dim = c.dk;
    view_.v_head_dim = c.dv;
    view_.k_block_stride_bytes = c.n_kv_heads * kv_head_bytes(c.type, c.block_tokens, c.dk) + 64;
    view_.v_block_stride_bytes = c.n_kv_heads * kv_head_bytes(c.type, c.block_tokens, c.dv);
    // NaN where nothing is written: reading it would show.
    k_.assign(view_.k_block_stride_bytes * n_blocks_, std::byte{0xFF});
    v_.assign(view_.v_block_stride_bytes * n_blocks_, std::byte{0xFF});
    view_.k = k_.data();
    view_.v = v_.data();
    blocks_.resize(n_blocks_);
    std::iota(blocks_.rbegin(), blocks_.rend(), BlockId{0});
  }

  const KvLayerView& view() const { return view_; }
  AttentionSequence rows(std::size_t first_row, std::size_t position, std::size_t n) const {
    AttentionSequence s;
    s.first_row = first_row;
    s.n_rows = n;
    s.first_position = static_cast<std::int32_t>(position);
    s.blocks = blocks_;
    return s;
  }
  // Blocks that no row from `position` on can see.
  void release_before(std::size_t position) {
    if (c_.window == 0) return;
    const auto window = static_cast<std::size_t>(c_.window);
    const std::size_t first = position + 1 > window ? position + 1 - window : 0;
    const auto n_sinks = static_cast<std::size_t>(c_.sink_tokens);
    for (std::size_t b = (n_sinks + c_.block_tokens - 1) / c_.block_tokens;
         b < first / c_.block_tokens;
         ++b)
      blocks_[b] = kReleasedBlock;
  }

 private:
  Case c_;
  std::size_t n_blocks_;
  std::vector<std::byte> k_, v_;
  std::vector<BlockId> blocks_;
  KvLayerView view_;
};

struct Inputs {
  explicit Inputs(const Case& c)
      : q(random_floats(c.length * c.n_heads * c.dk, 1, 2.0F)),
        k(random_floats(c.length * c.n_kv_heads * c.dk, 2, 2.0F)),
        v(random_floats(c.length * c.n_kv_heads * c.dv, 3)),
        sinks(random_floats(c.n_heads, 4, 3.0F)),
        slopes(random_floats(c.n_heads, 5, 0.05F)) {}
  std::vector<float> q, k, v, sinks, slopes;
};

class Runner {
 public:
  Runner(const KernelTable& table, const Case& c, const Inputs& in, std::size_t n_threads)
      : table_(table),
        c_(c),
        in_(in),
        exec_(n_threads),
        cache_(c),
        scratch_(testing::scratch_of(
            attention_scratch_bytes(n_threads, c.n_heads, std::max(c.dk, c.dv)))) {}

  // Writes and attends rows [position, position + n).
  std::vector<float> step(std::size_t position, std::size_t n) {
    cache_.release_before(position);
    const AttentionSequence rows = cache_.rows(0, position, n);
    KvWriteArgs write;
    write.cache = cache_.view();
    write.k = in_.k.data() + position * c_.n_kv_heads * c_.dk;
    write.k_stride = c_.n_kv_heads * c_.dk;
    write.v = in_.v.data() + position * c_.n_kv_heads * c_.dv;
    write.v_stride = c_.n_kv_heads * c_.dv;
    write.sequences = {&rows, 1};
    table_.kv_write(exec_, write);
    std::vector<float> out(n * c_.n_heads * c_.dv);
    AttentionArgs args;
    args.cache = cache_.view();
    args.q = in_.q.data() + position * c_.n_heads * c_.dk;
    args.q_stride = c_.n_heads * c_.dk;
    args.out = out.data();
    args.out_stride = c_.n_heads * c_.dv;
    args.n_heads = c_.n_heads;
    args.scale = scale();
    args.soft_cap = c_.soft_cap;
    args.window = c_.window;
    args.sink_tokens = c_.sink_tokens;
    args.sinks = c_.sinks ? in_.sinks.data() : nullptr;
    args.alibi_slopes = c_.alibi ? in_.slopes.data() : nullptr;
    args.sequences = {&rows, 1};
    args.scratch = scratch_.bytes();
    table_.attention(exec_, args);
    return out;
  }

  std::vector<float> chunked(std::size_t chunk) {
    std::vector<float> all;
    for (std::size_t p = 0; p < c_.length; p += chunk) {
      const auto part = step(p, std::min(chunk, c_.length - p));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(c_.dk)); }

 private:
  const KernelTable& table_;
  const Case& c_;
  const Inputs& in_;
  ExecContext exec_;
  Cache cache_;
  tensor::AlignedBuffer scratch_;
};

// The nearest of the numbers with so many bits behind the point, the even one of two.
double nearest(double value, int mantissa_bits, int least_exponent) {
  if (value == 0.0) return 0.0;
  const int exponent = std::max(std::ilogb(value), least_exponent) - mantissa_bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

float stored(float value, DType type) {
  if (type == DType::kBf16) return tensor::bf16_to_float(tensor::float_to_bf16(value));
  if (type == DType::kF16) return tensor::f16_to_float(tensor::float_to_f16(value));
  if (type == DType::kF8E4M3)
    return static_cast<float>(std::clamp(nearest(value, 3, -6), -448.0, 448.0));
  if (type == DType::kF8E5M2)
    return static_cast<float>(std::clamp(nearest(value, 2, -14), -57344.0, 57344.0));
  return value;
}

bool has_codes(DType type) {
  return type == DType::kI8 || type == DType::kI4;
}

// Vectors of n values as they come back.
std::vector<double> stored_rows(std::span<const float> values, std::size_t n, DType type) {
  std::vector<double> out(values.size());
  for (std::size_t row = 0; row < values.size(); row += n) {
    const auto [least, most] = std::ranges::minmax(values.subspan(row, n));
    const float steps = type == DType::kI4 ? 15.0F : 255.0F;
    const float scale = most / steps - least / steps;
    for (std::size_t i = row; i < row + n; ++i) {
      const auto code = static_cast<double>(std::nearbyint((values[i] - least) * (1.0F / scale)));
      out[i] = has_codes(type) ? (scale == 0.0F ? 0.0 : code * static_cast<double>(scale)) +
                                     static_cast<double>(least)
                               : static_cast<double>(stored(values[i], type));
    }
  }
  return out;
}

// Whether the set multiplies with vdpbf16ps or tiles: queries and weights are then rounded to bf16.
bool rounds_to_bf16(const KernelTable& table, const Case& c) {
  if (c.type != DType::kBf16) return false;
  if (table.isa == Isa::kAmx) return c.dk % 32 == 0 && c.dv % 16 == 0;
  return table.isa == Isa::kAvx512 && cpu_features().avx512_bf16;
}

struct StoredInputs {
  StoredInputs(const Case& c, const Inputs& in, DType q_type)
      : k(stored_rows(in.k, c.dk, c.type)),
        v(stored_rows(in.v, c.dv, c.type)),
        q(stored_rows(in.q, c.dk, q_type)),
        sinks(in.sinks),
        slopes(in.slopes) {}
  std::vector<double> k, v, q;
  std::span<const float> sinks, slopes;
};

std::vector<double> definition(const Case& c,
                               const StoredInputs& in,
                               std::size_t row,
                               std::size_t head) {
  const std::size_t kv = head / (c.n_heads / c.n_kv_heads);
  const std::size_t window = static_cast<std::size_t>(c.window);
  const std::size_t first = window != 0 && row + 1 > window ? row + 1 - window : 0;
  std::vector<std::size_t> visible;
  std::vector<double> scores;
  for (std::size_t p = 0; p <= row; ++p) {
    if (p < first && p >= static_cast<std::size_t>(c.sink_tokens)) continue;
    visible.push_back(p);
    double score = 0.0;
    for (std::size_t d = 0; d < c.dk; ++d) {
      score += in.q[(row * c.n_heads + head) * c.dk + d] * in.k[(p * c.n_kv_heads + kv) * c.dk + d];
    }
    score /= std::sqrt(static_cast<double>(c.dk));
    if (c.soft_cap != 0.0F) score = c.soft_cap * std::tanh(score / c.soft_cap);
    if (c.alibi) score += static_cast<double>(in.slopes[head]) * static_cast<double>(p);
    scores.push_back(score);
  }
  double highest = *std::max_element(scores.begin(), scores.end());
  if (c.sinks) highest = std::max<double>(highest, in.sinks[head]);
  double total = c.sinks ? std::exp(static_cast<double>(in.sinks[head]) - highest) : 0.0;
  std::vector<double> out(c.dv, 0.0);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(scores[i] - highest);
    total += weight;
    for (std::size_t d = 0; d < c.dv; ++d)
      out[d] += weight * in.v[(visible[i] * c.n_kv_heads + kv) * c.dv + d];
  }
  for (double& value : out) value /= total;
  return out;
}

void expect_definition(const KernelTable& table,
                       const Case& c,
                       const StoredInputs& in,
                       std::span<const float> out,
                       std::size_t row) {
  const double dk = static_cast<double>(c.dk);
  // A score is a sum of dk products of at most 4, scaled; its error moves a weight by as much,
  // relatively. |v| <= 1.
  const double score_error = dk * 4.0 / std::sqrt(dk) * dk * 0x1p-24 + 20.0 * 0x1p-24;
  // Over codes queries and weights may be rounded to 16 bits of the greatest: of a query, half a step by 2.
  const double rounded_query = has_codes(c.type) ? std::sqrt(dk) * 2.0 * 2.0 / 65024.0 : 0.0;
  const double weight_error = rounds_to_bf16(table, c) || has_codes(c.type) ? 0x1p-9 : 0.0;
  const double tolerance = 2.0 * (score_error + rounded_query) + 64.0 * 0x1p-22 + weight_error;
  for (std::size_t head = 0; head < c.n_heads; ++head) {
    const std::vector<double> want = definition(c, in, row, head);
    for (std::size_t d = 0; d < c.dv; ++d) {
      ASSERT_NEAR(out[(row * c.n_heads + head) * c.dv + d], want[d], tolerance)
          << table.id << " " << c.name << " row " << row << " head " << head << " d " << d;
    }
  }
}

TEST(Attention, AgreesWithTheDefinition) {
  for (const KernelTable* table : runnable_tables()) {
    for (const Case& c : all_cases()) {
      const Inputs in(c);
      const StoredInputs stored(c, in, rounds_to_bf16(*table, c) ? DType::kBf16 : DType::kF32);
      const std::vector<float> out = Runner(*table, c, in, 2).step(0, c.length);
      for (std::size_t row = 0; row < c.length; row += row < 5 || row + 5 > c.length ? 1 : 13)
        expect_definition(*table, c, stored, out, row);
    }
  }
}

void expect_chunks_are_the_whole(const KernelTable& table, const Case& c) {
  const Inputs in(c);
  const std::vector<float> whole = Runner(table, c, in, 2).step(0, c.length);
  for (const std::size_t chunk :
       {std::size_t{1}, std::size_t{16}, std::size_t{100}, std::size_t{256}, c.length}) {
    for (const std::size_t n_threads : {1U, 2U, 3U}) {
      if (n_threads != 1 && chunk < 100) continue;
      ASSERT_EQ(Runner(table, c, in, n_threads).chunked(chunk), whole)
          << table.id << " " << c.name << " chunk " << chunk << " threads " << n_threads;
    }
  }
}

// Law 1: whole prompt, chunks of any size, one row at a time, any number of threads; blocks that
// left the window are released on the way.
TEST(Attention, ChunksAndThreadsDoNotChangeARow) {
  for (const KernelTable* table : runnable_tables()) {
    for (const Case& c : all_cases()) expect_chunks_are_the_whole(*table, c);
  }
}

// What a row cannot see takes no part, not even as a product with zero: the value of position `bad` is NaN.
void expect_nan_stays_where_seen(const KernelTable& table, const Case& c, std::size_t bad) {
  Inputs in(c);
  const std::vector<float> clean = Runner(table, c, in, 1).step(0, c.length);
  const std::size_t width = c.n_kv_heads * c.dv;
  for (std::size_t i = 0; i < width; ++i) in.v[bad * width + i] = NAN;
  const std::vector<float> out = Runner(table, c, in, 1).step(0, c.length);
  const std::size_t row_values = c.n_heads * c.dv;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t row = i / row_values;
    const bool sees = row >= bad && (row < bad + static_cast<std::size_t>(c.window) ||
                                     bad < static_cast<std::size_t>(c.sink_tokens));
    ASSERT_EQ(std::isnan(out[i]), sees) << table.id << " row " << row;
    ASSERT_TRUE(sees || out[i] == clean[i]) << table.id << " row " << row;
  }
}

TEST(Attention, ValuesThatARowCannotSeeMayBeNan) {
  for (const KernelTable* table : runnable_tables()) {
    for (const DType type :
         {DType::kBf16, DType::kI8, DType::kI4, DType::kF8E4M3, DType::kF8E5M2}) {
      const Case c{.name = "NaN", .type = type, .n_heads = 4, .length = 64, .window = 21};
      for (const std::size_t bad : {30U, 31U}) expect_nan_stays_where_seen(*table, c, bad);
      Case sinks = c;
      sinks.sink_tokens = 9;
      for (const std::size_t bad : {8U, 9U, 10U}) expect_nan_stays_where_seen(*table, sinks, bad);
    }
  }
}

// Law 1: several sequences of one step against each alone, rows beside each other in one buffer.
TEST(Attention, SequencesOfAStepDoNotTouchEachOther) {
  Case c{.name = "ragged",
         .type = DType::kBf16,
         .n_heads = 8,
         .n_kv_heads = 2,
         .dk = 64,
         .dv = 64,
         .length = 400};
  const Inputs in(c);
  ExecContext exec(2);
  for (const KernelTable* table : runnable_tables()) {
    const std::vector<float> whole = Runner(*table, c, in, 1).step(0, c.length);
    Cache cache(c);
    const std::size_t kv_row = c.n_kv_heads * c.dk;
    const AttentionSequence everything = cache.rows(0, 0, c.length);
    table->kv_write(exec,
                    {cache.view(), in.k.data(), kv_row, in.v.data(), kv_row, {&everything, 1}});
    // Views of the same cache as sequences: a decode row, a chunk, and so many more rows and pairs
    // of rows that tasks are found by marks.
    std::vector<AttentionSequence> sequences{cache.rows(0, 399, 1), cache.rows(1, 200, 50)};
    for (std::size_t i = 0, row = 51; i < 150; row += 1 + i % 2, ++i)
      sequences.push_back(cache.rows(row, 5 + 2 * i, 1 + i % 2));
    const std::size_t width = c.n_heads * c.dk;
    std::vector<float> q;
    for (const AttentionSequence& s : sequences) {
      const auto begin = in.q.begin() + static_cast<std::ptrdiff_t>(
                                            static_cast<std::size_t>(s.first_position) * width);
      q.insert(q.end(), begin, begin + static_cast<std::ptrdiff_t>(s.n_rows * width));
    }
    std::vector<float> out(q.size());
    auto scratch = testing::scratch_of(attention_scratch_bytes(2, c.n_heads, c.dk));
    AttentionArgs args;
    args.cache = cache.view();
    args.q = q.data();
    args.q_stride = width;
    args.out = out.data();
    args.out_stride = width;
    args.n_heads = c.n_heads;
    args.scale = 0.125F;
    args.sequences = sequences;
    args.scratch = scratch.bytes();
    table->attention(exec, args);
    for (const AttentionSequence& s : sequences) {
      const auto got = out.begin() + static_cast<std::ptrdiff_t>(s.first_row * width);
      EXPECT_TRUE(std::equal(
          got,
          got + static_cast<std::ptrdiff_t>(s.n_rows * width),
          whole.begin() +
              static_cast<std::ptrdiff_t>(static_cast<std::size_t>(s.first_position) * width)))
          << table->id;
    }
  }
}

TEST(KvWrite, EverySetStoresTheSameBits) {
  for (const DType type : tensor::kCacheTypes) {
    Case c{.name = "store",
           .type = type,
           .n_heads = 3,
           .n_kv_heads = 3,
           .dk = 19,
           .dv = 33,
           .length = 50};
    Inputs in(c);
    in.k[0] = 1e-6F;
    in.k[1] = -1e-7F;
    in.k[2] = 70000.0F;
    in.k[3] = INFINITY;
    in.v[5] = 65519.0F;
    // Vectors of one value, of zeros of both signs, of the least and the greatest numbers.
    std::fill_n(in.k.begin() + 19, 19, -0.3F);
    for (std::size_t i = 38; i < 57; ++i) in.k[i] = i % 3 == 0 ? -0.0F : 0.0F;
    for (std::size_t i = 57; i < 76; ++i) in.k[i] = i % 2 == 0 ? -3e38F : 3e38F;
    for (std::size_t i = 76; i < 95; ++i) in.k[i] = i % 2 == 0 ? -1e-45F : 1e-45F;
    in.v[70] = NAN;
    std::optional<std::vector<std::byte>> want;
    for (const KernelTable* table : runnable_tables()) {
      ExecContext exec(2);
      Cache cache(c);
      const AttentionSequence rows = cache.rows(0, 0, c.length);
      table->kv_write(exec,
                      {cache.view(),
                       in.k.data(),
                       c.n_kv_heads * c.dk,
                       in.v.data(),
                       c.n_kv_heads * c.dv,
                       {&rows, 1}});
      const KvLayerView& view = cache.view();
      std::vector<std::byte> bytes(view.k, view.k + view.k_block_stride_bytes * 4);
      bytes.insert(bytes.end(), view.v, view.v + view.v_block_stride_bytes * 4);
      if (!want) want = bytes;
      EXPECT_EQ(bytes, *want) << table->id << " " << tensor::name_of(type);
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
