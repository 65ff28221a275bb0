// Scores of -infinity: they have no weight, alone, in whole partitions and in whole rows, on every set by equality.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;

constexpr std::size_t kLength = 3 * kAttentionPartition - 20;
constexpr std::size_t kHeads = 2;
constexpr std::size_t kDim = 32;
constexpr std::size_t kRow = kHeads * kDim;
constexpr float kHuge = 3e38F;
constexpr float kFar = -1e4F;  // kHuge * kFar is -infinity, and float16 can hold it

struct Masked {
  DType type = DType::kF32;
  std::function<bool(std::size_t position)> hides;  // scores of head 0 that are -infinity
  bool sinks = false;
  std::int32_t window = 0;
  std::size_t nan_at = kLength;  // a position whose key is NaN
  std::size_t top_at = kLength;  // a position whose score of head 0 is far above all others'
  float query = kHuge;           // the first value of head 0's
};

// One sequence of kLength positions over one KV head, in one block per partition. The first value of a key decides
// whether head 0, and it alone, scores -infinity.
class Sequence {
 public:
  Sequence(const KernelTable& table, const Masked& masked, std::size_t n_threads)
      : table_(table),
        masked_(masked),
        exec_(n_threads),
        q_(random_floats(kLength * kRow, 1, 2.0F)),
        k_(random_floats(kLength * kDim, 2, 2.0F)),
        v_(random_floats(kLength * kDim, 3)),
        scratch_(testing::scratch_of(attention_scratch_bytes(n_threads, kHeads, kDim))) {
    for (std::size_t p = 0; p < kLength; ++p) {
      q_[p * kRow] = masked.query;
      q_[p * kRow + kDim] = 0.0F;
      k_[p * kDim] = masked.hides(p) ? kFar : 0.0F;
      if (p == masked.top_at) k_[p * kDim] = -kFar;
      if (p == masked.nan_at) k_[p * kDim + 1] = std::numeric_limits<float>::quiet_NaN();
    }
    view_.type = masked.type;
    view_.n_kv_heads = 1;
    view_.block_tokens = kAttentionPartition;
    view_.k_head_dim = view_.v_head_dim = kDim;
    view_.k_block_stride_bytes = view_.v_block_stride_bytes =
        kv_head_bytes(masked.type, view_.block_tokens, kDim);
    keys_.resize(3 * view_.k_block_stride_bytes);
    values_.resize(3 * view_.v_block_stride_bytes);
    view_.k = keys_.data();
    view_.v = values_.data();
    const AttentionSequence all = rows(0, kLength);
    table_.kv_write(exec_,
                    {.cache = view_,
                     .k = k_.data(),
                     .k_stride = kDim,
                     .v = v_.data(),
                     .v_stride = kDim,
                     .sequences = {&all, 1}});
  }

  const float* value(std::size_t position) const { return v_.data() + position * kDim; }

  // Outputs [n, kRow] of rows [position, position + n), with the queries from row `query` on.
  std::vector<float> attend(std::size_t position, std::size_t n, std::size_t query) {
    std::vector<float> out(n * kRow);
    const AttentionSequence sequence = rows(position, n);
    AttentionArgs args;
    args.cache = view_;
    args.q = q_.data() + query * kRow;
    args.q_stride = kRow;
    args.out = out.data();
    args.out_stride = kRow;
    args.n_heads = kHeads;
    args.scale = 0.2F;
    args.window = masked_.window;
    args.sinks = masked_.sinks ? sinks_ : nullptr;
    args.sequences = {&sequence, 1};
    args.scratch = scratch_.bytes();
    table_.attention(exec_, args);
    return out;
  }
  std::vector<float> attend(std::size_t position, std::size_t n = 1) {
    return attend(position, n, position);
  }

 private:
  AttentionSequence rows(std::size_t position, std::size_t n) const {
    return {
        .n_rows = n, .first_position = static_cast<std::int32_t>(position), .blocks = {blocks_, 3}};
  }

  const KernelTable& table_;
  Masked masked_;
  ExecContext exec_;
  std::vector<float> q_, k_, v_;
  std::vector<std::byte> keys_, values_;
  tensor::AlignedBuffer scratch_;
  KvLayerView view_;
  const float sinks_[kHeads] = {0.5F, -0.25F};
  const BlockId blocks_[3] = {2, 0, 1};
};

std::vector<float> head(const std::vector<float>& out, std::size_t head) {
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(head * kDim);
  return {begin, begin + kDim};
}

std::size_t partition_of(std::size_t position) {
  return position / kAttentionPartition;
}

// Runs body(table, cache type) for every set and type.
void for_each_set(const std::function<void(const KernelTable&, DType)>& body) {
  for (const KernelTable* table : runnable_tables()) {
    for (const DType type : tensor::kCacheTypes) {
      SCOPED_TRACE(std::string(table->id) + " " + std::string(tensor::name_of(type)));
      body(*table, type);
    }
  }
}

constexpr std::size_t kLast = kLength - 1;

TEST(MaskedAttention, PartitionsBeforeTheFirstVisibleOneLeaveNoTrace) {
  for_each_set([](const KernelTable& table, DType type) {
    for (const bool sinks : {false, true}) {
      const auto early = [](std::size_t p) { return partition_of(p) < 2; };
      Sequence masked(table, {.type = type, .hides = early, .sinks = sinks}, 1);
      // A window that begins with the third partition never looks at the others.
      const auto window = static_cast<std::int32_t>(kLength - 2 * kAttentionPartition);
      Sequence windowed(table, {.type = type, .hides = early, .sinks = sinks, .window = window}, 1);
      EXPECT_EQ(head(masked.attend(kLast), 0), head(windowed.attend(kLast), 0));
      EXPECT_NE(head(masked.attend(kLast), 0), std::vector<float>(kDim, 0.0F));
    }
  });
}

TEST(MaskedAttention, PartitionsBehindTheLastVisibleOneLeaveNoTrace) {
  for_each_set([](const KernelTable& table, DType type) {
    for (const bool sinks : {false, true}) {
      const auto late = [](std::size_t p) { return partition_of(p) == 2; };
      Sequence masked(table, {.type = type, .hides = late, .sinks = sinks}, 1);
      EXPECT_EQ(head(masked.attend(kLast), 0),
                head(masked.attend(2 * kAttentionPartition - 1, 1, kLast), 0));
    }
  });
}

TEST(MaskedAttention, ARowOfNothingElseIsZero) {
  for_each_set([](const KernelTable& table, DType type) {
    for (const bool sinks : {false, true}) {
      Sequence all(
          table, {.type = type, .hides = [](std::size_t) { return true; }, .sinks = sinks}, 1);
      Sequence none(
          table, {.type = type, .hides = [](std::size_t) { return false; }, .sinks = sinks}, 1);
      for (const std::size_t row : {std::size_t{0}, std::size_t{300}, kLast}) {
        EXPECT_EQ(head(all.attend(row), 0), std::vector<float>(kDim, 0.0F)) << row;
        // The key's other values share its scale.
        if (type == DType::kI8 || type == DType::kI4) continue;
        EXPECT_EQ(head(all.attend(row), 1), head(none.attend(row), 1)) << row;  // its neighbour
      }
    }
  });
}

void expect_rows_alone(const KernelTable& table, const Masked& masked) {
  Sequence alone(table, masked, 1);
  for (const std::size_t n_threads : {1U, 3U}) {
    const auto rows = Sequence(table, masked, n_threads).attend(0, kLength);
    for (std::size_t p = 0; p < kLength; p += 37) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(p * kRow);
      ASSERT_EQ(alone.attend(p), (std::vector<float>{begin, begin + kRow})) << p;
    }
  }
}

TEST(MaskedAttention, RowsTogetherAreRowsAlone) {
  for_each_set([&](const KernelTable& table, DType type) {
    const auto expect_of = [&](const std::function<bool(std::size_t)>& hides) {
      expect_rows_alone(table, {.type = type, .hides = hides});
    };
    expect_of([](std::size_t p) { return partition_of(p) == 1; });
    expect_of([](std::size_t p) { return p % 3 != 0; });
    expect_of([](std::size_t p) { return partition_of(p) == 0; });
  });
}

// Its weight is 1 and theirs 0: what remains of rounding so large a score reaches no exponent.
TEST(MaskedAttention, AHugeScoreTakesAll) {
  for_each_set([](const KernelTable& table, DType type) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{5}, std::size_t{300}}) {
      const auto none = [](std::size_t) { return false; };
      Sequence sequence(table, {.type = type, .hides = none, .top_at = at, .query = 1e30F}, 1);
      const std::vector<float> got = head(sequence.attend(kLast), 0);
      // Codes of 4 bits are 0.13 apart.
      for (std::size_t d = 0; d < kDim; ++d)
        ASSERT_NEAR(got[d], sequence.value(at)[d], 0.07F) << at;
    }
  });
}

TEST(MaskedAttention, NanAmongThemIsNotLost) {
  for_each_set([](const KernelTable& table, DType type) {
    for (const std::size_t at : {std::size_t{3}, std::size_t{260}, kLast}) {
      const auto others = [&](std::size_t p) { return p != at; };
      Sequence sequence(table, {.type = type, .hides = others, .nan_at = at}, 1);
      for (const float value : sequence.attend(kLast)) ASSERT_TRUE(std::isnan(value)) << at;
    }
  });
}

}  // namespace
}  // namespace coxswain::kernels
