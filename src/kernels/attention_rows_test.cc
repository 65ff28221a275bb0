// Attention over rows of a step, on every set: every number of rows gives each the bits of it alone, whether they are
// a chunk across the border of a partition or sequences beside each other, with gaps between rows; and what is broken
// in q, K or V reaches no row that does not see it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;

constexpr std::size_t kLength = 320;  // positions of each sequence; the border at 256 is inside
constexpr std::size_t kSequences = 2;
constexpr std::size_t kBlockTokens = 16;
constexpr std::size_t kBlocks = kLength / kBlockTokens;
constexpr std::size_t kRowsMax = 65;

struct Case {
  const char* name;
  DType type = DType::kF32;
  std::size_t n_heads = 6;
  std::size_t n_kv_heads = 2;
  std::size_t dim = 32;
  float soft_cap = 0.0F;
  std::int32_t window = 0;
  bool sinks = false;
  bool alibi = false;

  std::size_t q_width() const { return n_heads * dim; }
  std::size_t kv_width() const { return n_kv_heads * dim; }
  // Whether a row at `position` sees `other`.
  bool sees(std::size_t position, std::size_t other) const {
    return other <= position &&
           (window == 0 || other + static_cast<std::size_t>(window) > position);
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

constexpr Case kCases[] = {
    {.name = "float32", .n_heads = 5, .n_kv_heads = 1, .dim = 37},
    {.name = "bfloat16", .type = DType::kBf16},
    {.name = "float16_sinks_soft_cap", .type = DType::kF16, .soft_cap = 5.0F, .sinks = true},
    {.name = "bfloat16_window", .type = DType::kBf16, .n_kv_heads = 6, .window = 41},
    {.name = "float32_wide_window_alibi", .window = 270, .alibi = true},
    {.name = "int8", .type = DType::kI8},
    {.name = "int8_window",
     .type = DType::kI8,
     .n_heads = 5,
     .n_kv_heads = 1,
     .dim = 37,
     .window = 41},
    {.name = "int4", .type = DType::kI4},
    {.name = "int4_window",
     .type = DType::kI4,
     .n_heads = 5,
     .n_kv_heads = 1,
     .dim = 37,
     .window = 41},
    {.name = "fp8_e4m3fn", .type = DType::kF8E4M3},
    {.name = "fp8_e5m2", .type = DType::kF8E5M2, .dim = 37},
};

// n consecutive positions of a sequence.
struct Stretch {
  std::size_t sequence = 0;
  std::size_t position = 0;
  std::size_t n = 1;
};

struct Inputs {
  explicit Inputs(const Case& c)
      : q(random_floats(kSequences * kLength * c.q_width(), 1, 2.0F)),
        k(random_floats(kSequences * kLength * c.kv_width(), 2, 2.0F)),
        v(random_floats(kSequences * kLength * c.kv_width(), 3)) {}
  std::vector<float> q, k, v;  // [sequences, positions, ..]
};

// A cache that holds all positions of the sequences.
class Attention {
 public:
  Attention(const KernelTable& table, const Case& c, const Inputs& in)
      : table_(table),
        c_(c),
        in_(in),
        sinks_(random_floats(c.n_heads, 4, 3.0F)),
        slopes_(random_floats(c.n_heads, 5, 0.05F)),
        blocks_(kSequences * kBlocks) {
    std::iota(blocks_.rbegin(), blocks_.rend(), BlockId{0});
    const std::size_t block_bytes = c.n_kv_heads * kv_head_bytes(c.type, kBlockTokens, c.dim);
    cache_.assign(2 * blocks_.size() * block_bytes, std::byte{0xFF});
    view_ = {.k = cache_.data(),
             .v = cache_.data() + blocks_.size() * block_bytes,
             .k_block_stride_bytes = block_bytes,
             .v_block_stride_bytes = block_bytes,
             .type = c.type,
             .n_kv_heads = c.n_kv_heads,
             .block_tokens = kBlockTokens,
             .k_head_dim = c.dim,
             .v_head_dim = c.dim};
    std::vector<AttentionSequence> all;
    for (std::size_t s = 0; s < kSequences; ++s) all.push_back(rows(s * kLength, {s, 0, kLength}));
    ExecContext exec(1);
    table.kv_write(exec, {view_, in.k.data(), c.kv_width(), in.v.data(), c.kv_width(), all});
  }

  // The rows of all stretches, side by side.
  std::vector<float> run(std::span<const Stretch> stretches, std::size_t n_threads) {
    constexpr std::size_t kGap = 3;
    const std::size_t width = c_.q_width();
    const std::size_t stride = width + kGap;
    std::vector<float> q(1);  // rows lie at odd addresses
    std::vector<AttentionSequence> sequences;
    std::size_t m = 0;
    for (const Stretch& s : stretches) {
      sequences.push_back(rows(m, s));
      for (std::size_t i = 0; i < s.n; ++i) {
        const float* from = in_.q.data() + (s.sequence * kLength + s.position + i) * width;
        q.insert(q.end(), from, from + width);
        q.insert(q.end(), kGap, NAN);
      }
      m += s.n;
    }
    std::vector<float> out(1 + m * stride, kMark);
    ExecContext exec(n_threads);
    exec.pool().shuffle_tasks(m);
    auto scratch = testing::scratch_of(attention_scratch_bytes(n_threads, c_.n_heads, c_.dim));
    table_.attention(exec,
                     {.cache = view_,
                      .q = q.data() + 1,
                      .q_stride = stride,
                      .out = out.data() + 1,
                      .out_stride = stride,
                      .n_heads = c_.n_heads,
                      .scale = 0.2F,
                      .soft_cap = c_.soft_cap,
                      .window = c_.window,
                      .sinks = c_.sinks ? sinks_.data() : nullptr,
                      .alibi_slopes = c_.alibi ? slopes_.data() : nullptr,
                      .sequences = sequences,
                      .scratch = scratch.bytes()});
    std::vector<float> packed;
    for (std::size_t i = 0; i < m; ++i) {
      const auto row = out.begin() + static_cast<std::ptrdiff_t>(1 + i * stride);
      packed.insert(packed.end(), row, row + static_cast<std::ptrdiff_t>(width));
      for (std::size_t gap = 0; gap < kGap; ++gap)
        EXPECT_EQ(row[static_cast<std::ptrdiff_t>(width + gap)], kMark) << "behind row " << i;
    }
    return packed;
  }

  std::vector<float> alone(std::size_t sequence, std::size_t position) {
    const Stretch one{sequence, position, 1};
    return run({&one, 1}, 1);
  }

 private:
  static constexpr float kMark = -7.0F;

  AttentionSequence rows(std::size_t first_row, const Stretch& s) const {
    return {.first_row = first_row,
            .n_rows = s.n,
            .first_position = static_cast<std::int32_t>(s.position),
            .blocks = std::span(blocks_).subspan(s.sequence * kBlocks, kBlocks)};
  }

  const KernelTable& table_;
  const Case& c_;
  const Inputs& in_;
  std::vector<float> sinks_, slopes_;
  std::vector<BlockId> blocks_;
  std::vector<std::byte> cache_;
  KvLayerView view_;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

std::span<const float> row_of(const Case& c, const std::vector<float>& out, std::size_t row) {
  return std::span(out).subspan(row * c.q_width(), c.q_width());
}

class AttentionRows : public ::testing::TestWithParam<Case> {};

constexpr std::size_t kChunkBegin = 230;

void expect_chunks(const KernelTable& table, const Case& c) {
  const Inputs in(c);
  Attention attention(table, c, in);
  std::vector<float> alone;
  for (std::size_t i = 0; i < kRowsMax; ++i) {
    const auto row = attention.alone(0, kChunkBegin + i);
    alone.insert(alone.end(), row.begin(), row.end());
  }
  for (std::size_t m = 1; m <= kRowsMax; ++m) {
    // From the left, and to the right end.
    for (const std::size_t first : {std::size_t{0}, kRowsMax - m}) {
      const Stretch chunk{0, kChunkBegin + first, m};
      const auto want = std::span(alone).subspan(first * c.q_width(), m * c.q_width());
      ASSERT_TRUE(same_bits(attention.run({&chunk, 1}, 1 + m % 3), want))
          << table.id << ", " << m << " rows from " << chunk.position;
    }
  }
}

TEST_P(AttentionRows, AChunkOfEveryLengthHasTheBitsOfItsRowsAlone) {
  for (const KernelTable* table : runnable_tables()) expect_chunks(*table, GetParam());
}

// A row of its own for each m: decode steps of sequences that begin alike or not, and short chunks between them.
std::vector<Stretch> beside_each_other(std::size_t m) {
  std::vector<Stretch> out;
  for (std::size_t i = 0; i < m; ++i) out.push_back({i % 2, 190 + 2 * i, 1 + i % 5 / 4});
  return out;
}

void expect_sequences(const KernelTable& table, const Case& c) {
  const Inputs in(c);
  Attention attention(table, c, in);
  std::vector<float> alone;
  for (const Stretch& s : beside_each_other(kRowsMax - 1)) {
    const auto rows = attention.run({&s, 1}, 1);
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  for (std::size_t m = 1; m < kRowsMax; ++m) {
    const std::vector<float> out = attention.run(beside_each_other(m), 1 + m % 3);
    ASSERT_TRUE(same_bits(out, std::span(alone).first(out.size())))
        << table.id << ", " << m << " sequences";
  }
}

TEST_P(AttentionRows, EveryNumberOfSequencesGivesTheBitsOfEachAlone) {
  for (const KernelTable* table : runnable_tables()) expect_sequences(*table, GetParam());
}

// Two chunks and some single rows; the broken position is in the middle of the first.
const std::vector<Stretch> kStep = {
    {0, 240, 40}, {1, 240, 40}, {0, 100, 1}, {0, 319, 1}, {1, 319, 1}, {0, 290, 3}};
constexpr std::size_t kBroken = 255;

enum class Part { kQuery, kKey, kValue };

// Whether a row depends on `part` of position kBroken of sequence 0.
bool depends(const Case& c, Part part, std::size_t sequence, std::size_t position) {
  if (sequence != 0) return false;
  return part == Part::kQuery ? position == kBroken : c.sees(position, kBroken);
}

void expect_contained(const KernelTable& table, const Case& c, Part part, float value) {
  Inputs in(c);
  const std::vector<float> clean = Attention(table, c, in).run(kStep, 2);
  std::vector<float>& broken = part == Part::kQuery ? in.q : part == Part::kKey ? in.k : in.v;
  const std::size_t width = part == Part::kQuery ? c.q_width() : c.kv_width();
  // In the first head.
  broken[kBroken * width + 5] = value;
  const std::vector<float> out = Attention(table, c, in).run(kStep, 2);
  std::size_t row = 0;
  for (const Stretch& s : kStep) {
    for (std::size_t i = 0; i < s.n; ++i, ++row) {
      const bool same = same_bits(row_of(c, out, row), row_of(c, clean, row));
      const bool may_differ = depends(c, part, s.sequence, s.position + i);
      ASSERT_TRUE(same || may_differ) << table.id << " " << value << " at " << s.position + i;
      ASSERT_FALSE(same && may_differ && std::isnan(value)) << table.id << " nothing was broken";
      // Other heads of the row.
      const std::size_t last = (c.n_heads - c.n_heads / c.n_kv_heads) * c.dim;
      if (part == Part::kQuery || c.n_kv_heads == 1) continue;
      ASSERT_TRUE(same_bits(row_of(c, out, row).subspan(last), row_of(c, clean, row).subspan(last)))
          << table.id << " another head at " << s.position + i;
    }
  }
}

TEST_P(AttentionRows, WhatIsBrokenReachesNoRowThatDoesNotSeeIt) {
  for (const KernelTable* table : runnable_tables()) {
    for (const float value : {NAN, INFINITY, -INFINITY}) {
      for (const Part part : {Part::kQuery, Part::kKey, Part::kValue})
        expect_contained(*table, GetParam(), part, value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionRows, ::testing::ValuesIn(kCases), [](const auto& c) {
  return std::string(c.param.name);
});

}  // namespace
}  // namespace coxswain::kernels
