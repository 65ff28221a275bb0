// How rows come into an image: the bits of the format's own definition on every set, in whatever pieces and on however
// many threads they are packed.

#include "kernels/pack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/formats/widen.h"
#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;

constexpr DType kStored[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr std::size_t kWidths[] = {1, 7, 16, 33, 64, 172, 515};
constexpr std::size_t kRows = 37;

// Rows of random values, as `type` stores them; the first ones are what rounding and scales find hard.
std::vector<std::byte> stored_rows(DType type, std::size_t k) {
  std::vector<float> values = random_floats(kRows * k, static_cast<std::uint32_t>(k), 2.0F);
  const auto fill = [&](std::size_t row, float value) {
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * k), k, value);
  };
  fill(0, 0.0F);
  fill(1, -3.0F);
  fill(2, 1e-41F);                // no finite reciprocal of the scale
  values[3 * k + k / 2] = 1e30F;  // all others are nothing beside it
  values[4 * k] = std::numeric_limits<float>::infinity();
  values[5 * k + k - 1] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < k; ++i) values[6 * k + i] = static_cast<float>(i % 255) / 2 - 63.5F;
  values[6 * k] = 127.0F;  // codes are halves: ties
  std::vector<std::byte> out(kRows * k * tensor::size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = type == DType::kF32    ? std::bit_cast<std::uint32_t>(values[i])
                               : type == DType::kBf16 ? tensor::float_to_bf16(values[i])
                                                      : tensor::float_to_f16(values[i]);
    std::memcpy(out.data() + i * tensor::size_of(type), &bits, tensor::size_of(type));
  }
  return out;
}

// What the format itself makes of a row.
struct Definition {
  std::vector<float> values;
  std::int32_t sum = 0;

  Definition(const WeightFormat& format, const std::byte* row, DType type, std::size_t k)
      : values(k) {
    std::vector<float> wide(k);
    widen(row, type, k, wide.data());
    std::vector<std::byte> codes(k * 4 + kDecodeStep);
    std::vector<std::byte> scales(format.n_groups(k) * format.scale_bytes);
    const EncodedRow encoded{codes.data(), scales.data(), &sum};
    format.encode(wide.data(), k, encoded);
    format.decode(encoded, k, values.data());
  }
};

// NaNs of any kind are one number.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> out;
  out.reserve(values.size());
  for (const float value : values)
    out.push_back(std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value));
  return out;
}

void expect_definition(const KernelTable& table,
                       const WeightFormat& format,
                       DType type,
                       std::size_t k) {
  const std::vector<std::byte> stored = stored_rows(type, k);
  const DenseRows rows{stored.data(), type, kRows};
  const MatrixImage image = pack_matrix(table.ops(format), k, {&rows, 1}).value();
  std::vector<float> got(k);
  for (std::size_t row = 0; row < kRows; ++row) {
    const Definition want(format, stored.data() + row * k * tensor::size_of(type), type, k);
    image.ops->unpack_row(image, row, got.data());
    ASSERT_EQ(bits_of(got), bits_of(want.values))
        << table.id << " " << format.name << " k " << k << " row " << row << " " << name_of(type);
    if (!format.has_sums) continue;
    std::int32_t sum = 0;
    std::memcpy(&sum, image.bytes.data() + image.sums_at + row * sizeof(sum), sizeof(sum));
    ASSERT_EQ(sum, want.sum) << table.id << " k " << k << " row " << row << " " << name_of(type);
  }
}

TEST(Pack, EverySetHoldsWhatTheFormatMakesOfARow) {
  for (const KernelTable* table : runnable_tables()) {
    for (const DType type : kStored) {
      for (const std::size_t k : kWidths) {
        for (const WeightFormat* format : weight_formats())
          expect_definition(*table, *format, type, k);
      }
    }
  }
}

// Pieces that begin and end inside of panels, each a task of its own.
void expect_same_in_pieces(const LinearOps& ops, const std::vector<std::byte>& stored) {
  constexpr std::size_t kInputs = 172;
  constexpr std::size_t kRowBytes = kInputs * 2;
  const DenseRows all{stored.data(), DType::kBf16, stored.size() / kRowBytes};
  const MatrixImage want = pack_matrix(ops, kInputs, {&all, 1}).value();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, std::size_t{48}}) {
    ExecContext exec(3);
    exec.pool().shuffle_tasks(piece);
    MatrixImage got = make_image(ops, all.n_rows, kInputs).value();
    exec.pool().run((all.n_rows + piece - 1) / piece, [&](std::size_t i, std::size_t) {
      const std::size_t first = i * piece;
      ops.pack(
          got,
          first,
          {stored.data() + first * kRowBytes, DType::kBf16, std::min(piece, all.n_rows - first)});
    });
    ASSERT_TRUE(std::ranges::equal(got.bytes.bytes(), want.bytes.bytes()))
        << ops.format->name << ", layout " << ops.layout_id << ", " << piece << " rows at a time";
  }
}

TEST(Pack, ImagesAreTheSameWhateverTheThreadsAndPieces) {
  std::vector<std::byte> stored;
  for (int i = 0; i < 6; ++i) {
    const std::vector<std::byte> more = stored_rows(DType::kBf16, 172);
    stored.insert(stored.end(), more.begin(), more.end());
  }
  for (const KernelTable* table : runnable_tables()) {
    for (const WeightFormat* format : weight_formats())
      expect_same_in_pieces(table->ops(*format), stored);
  }
}

}  // namespace
}  // namespace coxswain::kernels
