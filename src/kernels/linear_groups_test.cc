// Formats whose codes share a scale in groups of inputs: what a row becomes, and that every set multiplies it to the
// same bits as the definition written out here.

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"
#include "tensor/quant.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;
using testing::same_numbers;
using testing::scalar_table;

std::vector<const WeightFormat*> group_formats() {
  std::vector<const WeightFormat*> out;
  for (const WeightFormat* format : weight_formats()) {
    if (format->scheme.group != 0) out.push_back(format);
  }
  return out;
}

// Rows as a checkpoint could hold them.
struct Codes {
  Codes(const WeightFormat& format, std::size_t n_rows, std::size_t inputs) : n(n_rows), k(inputs) {
    std::mt19937 generator(7);
    const std::size_t n_groups = format.scheme.n_groups(k);
    codes.resize(n * k);
    highest = (1U << format.scheme.bits) - 1;
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(generator() % (highest + 1));
    for (const float scale : random_floats(n * n_groups, 8))
      halves.push_back(tensor::float_to_f16(scale));
    if (format.scheme.offset == tensor::Offset::kZeroPoint) {
      for (std::size_t i = 0; i < halves.size(); ++i)
        offsets.push_back(static_cast<std::byte>(generator() % (highest + 1)));
    } else if (format.scheme.offset != tensor::Offset::kNone) {
      for (const float minimum : random_floats(n * n_groups, 9)) {
        const std::uint16_t bits = tensor::float_to_f16(minimum);
        offsets.push_back(static_cast<std::byte>(bits & 255U));
        offsets.push_back(static_cast<std::byte>(bits >> 8U));
      }
    }
    rows.scheme = format.scheme;
    rows.n_rows = n;
    rows.k = k;
    rows.codes = codes;
    rows.scales = std::as_bytes(std::span(halves));
    rows.offsets = offsets;
    const bool has_sub_minima = format.scheme.offset == tensor::Offset::kSubMinimum;
    sub_scales.resize(n * format.scheme.n_sub_groups(k) * (has_sub_minima ? 2 : 1));
    // All bytes of signed ones; unsigned ones have 6 bits.
    for (std::uint8_t& sub : sub_scales)
      sub = static_cast<std::uint8_t>(generator() % (has_sub_minima ? 64 : 256));
    rows.sub_scales = sub_scales;
  }
  // What codes of an input are multiplied by before the scale, and minima before they are added.
  int sub_scale(std::size_t row, std::size_t i) const {
    if (rows.scheme.sub_group == 0) return 1;
    const std::uint8_t sub = sub_scales[sub_group_of(row, i)];
    return rows.scheme.codes == tensor::Codes::kSigned ? static_cast<std::int8_t>(sub) : sub;
  }
  int sub_minimum(std::size_t row, std::size_t i) const {
    if (rows.scheme.offset != tensor::Offset::kSubMinimum) return 1;
    return -static_cast<int>(sub_scales[sub_scales.size() / 2 + sub_group_of(row, i)]);
  }
  bool has_minimum() const {
    return rows.scheme.offset == tensor::Offset::kMinimum ||
           rows.scheme.offset == tensor::Offset::kSubMinimum;
  }
  std::size_t sub_group_of(std::size_t row, std::size_t i) const {
    return row * rows.scheme.n_sub_groups(k) + i / rows.scheme.sub_group;
  }
  std::size_t group_of(std::size_t row, std::size_t i) const {
    return row * ((k + rows.scheme.group - 1) / rows.scheme.group) + i / rows.scheme.group;
  }
  // What a code counts from: a whole number.
  int zero(std::size_t row, std::size_t i) const {
    if (rows.scheme.offset == tensor::Offset::kZeroPoint)
      return std::to_integer<int>(offsets[group_of(row, i)]);
    return has_minimum() ? 0 : (static_cast<int>(highest) + 1) / 2;
  }
  // Added to a value, 0 without minima.
  float minimum(std::size_t row, std::size_t i) const {
    if (!has_minimum()) return 0.0F;
    const std::size_t at = group_of(row, i) * 2;
    return half_value(std::to_integer<std::uint16_t>(offsets[at]) |
                      std::to_integer<std::uint16_t>(offsets[at + 1]) << 8);
  }
  // Value of input i of row `row`, worked out without the code under test.
  float value(std::size_t row, std::size_t i) const {
    const float scale = half_value(halves[group_of(row, i)]);
    const int code = (static_cast<int>(codes[row * k + i]) - zero(row, i)) * sub_scale(row, i);
    const float product = scale * static_cast<float>(code);
    if (!has_minimum()) return product;
    const float least = minimum(row, i) * static_cast<float>(sub_minimum(row, i));
    return product + least;
  }
  static float half_value(int bits) {
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    const double scale =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return static_cast<float>((bits & 0x8000) != 0 ? -scale : scale);
  }

  std::size_t n, k;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> halves;
  std::vector<std::byte> offsets;
  std::vector<std::uint8_t> sub_scales;
  std::uint32_t highest = 0;
  tensor::QuantRows rows;
};

MatrixImage image_of(const KernelTable& table, const WeightFormat& format, const Codes& codes) {
  MatrixImage image = make_image(table.ops(format), codes.n, codes.k).value();
  image.ops->pack_codes(image, 0, codes.rows);
  return image;
}

std::vector<float> product(const KernelTable& table,
                           const MatrixImage& w,
                           const float* x,
                           std::size_t m,
                           std::size_t n_threads) {
  ExecContext exec(n_threads);
  std::vector<float> y(m * w.n);
  testing::run_linear(table, exec, {x, w.k, m, w.k}, {&w, y.data(), w.n});
  return y;
}

// The rule of weight_format.h, one output at a time.
float defined_product(const Codes& w, std::size_t row, const float* x) {
  float absmax = 0.0F;
  for (std::size_t i = 0; i < w.k; ++i) absmax = std::max(absmax, std::fabs(x[i]));
  const float inverse = absmax == 0.0F ? 0.0F : 127.0F / absmax;
  const std::size_t group = w.rows.scheme.group;
  float acc = 0.0F;
  for (std::size_t begin = 0; begin < w.k; begin += group) {
    int sum = 0;
    int all = 0;
    for (std::size_t i = begin; i < std::min(w.k, begin + group); ++i) {
      const int activation = static_cast<int>(std::nearbyint(x[i] * inverse));
      sum += activation * (static_cast<int>(w.codes[row * w.k + i]) - w.zero(row, i)) *
             w.sub_scale(row, i);
      all += activation * w.sub_minimum(row, i);
    }
    const float scale =
        tensor::f16_to_float(w.halves[row * w.rows.scheme.n_groups(w.k) + begin / group]);
    const float term = static_cast<float>(sum) * scale;
    acc = acc + term;
    if (w.has_minimum()) {
      const float least = static_cast<float>(all) * w.minimum(row, begin);
      acc = acc + least;
    }
  }
  return acc * (absmax / 127.0F);
}

// What is checked of one set.
void expect_rows_read_back(const MatrixImage& image, const Codes& codes) {
  std::vector<float> row(codes.k);
  std::vector<float> defined(codes.k);
  for (std::size_t r = 0; r < codes.n; ++r) {
    image.ops->unpack_row(image, r, row.data());
    tensor::decode_row(codes.rows, r, defined.data());
    for (std::size_t i = 0; i < codes.k; ++i) {
      ASSERT_EQ(defined[i], codes.value(r, i)) << r << "," << i;
      ASSERT_EQ(row[i], defined[i]) << r << "," << i;
    }
  }
}

void expect_defined_products(const KernelTable& table,
                             const MatrixImage& w,
                             const Codes& codes,
                             std::size_t m) {
  const std::vector<float> x = random_floats(m * w.k, 3);
  const std::vector<float> bias = random_floats(w.n, 4);
  const std::vector<float> y0 = random_floats(m * w.n, 5);
  const std::vector<float> plain = product(table, w, x.data(), m, 2);
  ExecContext exec(2);
  std::vector<float> all = y0;
  testing::run_linear(
      table, exec, {x.data(), w.k, m, w.k}, {&w, all.data(), w.n, bias.data()}, true);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const float want = defined_product(codes, i % w.n, x.data() + i / w.n * w.k);
    ASSERT_EQ(plain[i], want) << "at " << i;
    ASSERT_EQ(all[i], y0[i] + (want + bias[i % w.n])) << "at " << i;
  }
}

// `want` has rows 0 to 64 and the last of 300.
void expect_the_same_rows(const KernelTable& table,
                          const MatrixImage& w,
                          const std::vector<float>& x,
                          const std::vector<float>& want) {
  const std::size_t n = w.n;
  for (std::size_t m = 1; m <= 65; ++m) {
    const std::vector<float> y = product(table, w, x.data(), m, 1 + m % 3);
    ASSERT_TRUE(std::equal(y.begin(), y.end(), want.begin())) << "m " << m;
  }
  const std::vector<float> y = product(table, w, x.data(), 300, 3);
  const auto size = static_cast<std::ptrdiff_t>(n);
  EXPECT_TRUE(std::equal(y.end() - size, y.end(), want.end() - size));
  EXPECT_TRUE(std::equal(y.begin(), y.begin() + 65 * size, want.begin()));
}

// Rows 0, 6 and 7 of 8 are `want`'s; 1 to 3 are broken, 4 and 5 nothing.
void expect_contained(const std::vector<float>& y, const std::vector<float>& want, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    for (const std::size_t row : {0U, 6U, 7U}) ASSERT_EQ(y[row * n + j], want[row * n + j]);
    for (const std::size_t row : {1U, 2U, 3U}) ASSERT_TRUE(std::isnan(y[row * n + j]));
    for (const std::size_t row : {4U, 5U}) ASSERT_EQ(y[row * n + j], 0.0F);
  }
}

TEST(LinearGroups, RowsReadBackCodeByCode) {
  for (const WeightFormat* format : group_formats()) {
    for (const auto& [n, k] : {std::pair{1, 1}, {3, 7}, {71, 172}, {64, 192}, {130, 1025}}) {
      const Codes codes(*format, static_cast<std::size_t>(n), static_cast<std::size_t>(k));
      ASSERT_TRUE(tensor::check(codes.rows).ok());
      for (const KernelTable* table : runnable_tables()) {
        SCOPED_TRACE(::testing::Message() << table->id << " " << format->name << " k " << k);
        expect_rows_read_back(image_of(*table, *format, codes), codes);
      }
    }
  }
}

TEST(LinearGroups, EverySetGivesTheBitsOfTheDefinition) {
  struct Shape {
    std::size_t m, n, k;
  };
  for (const WeightFormat* format : group_formats()) {
    for (const Shape& s : {Shape{1, 1, 1},
                           {2, 3, 5},
                           {5, 64, 128},
                           {7, 65, 172},
                           {9, 131, 192},
                           {13, 70, 512},
                           {6, 33, 2088},
                           {40, 20, 9001}}) {
      const Codes codes(*format, s.n, s.k);
      for (const KernelTable* table : runnable_tables()) {
        SCOPED_TRACE(::testing::Message() << table->id << " " << format->name << " k " << s.k);
        expect_defined_products(*table, image_of(*table, *format, codes), codes, s.m);
      }
    }
  }
}

// Codes in groups of `group` inputs (0: of the whole row) in a format of smaller ones.
void expect_larger_groups_read_back(const WeightFormat& format, std::uint32_t group) {
  WeightFormat wide = format;
  wide.scheme.group = group == 0 ? 600 : group;
  Codes codes(wide, 71, 600);
  codes.rows.scheme.group = group;
  ASSERT_TRUE(format.takes(codes.rows.scheme));
  std::vector<float> row(codes.k);
  std::vector<float> defined(codes.k);
  for (const KernelTable* table : runnable_tables()) {
    const MatrixImage image = image_of(*table, format, codes);
    for (std::size_t r = 0; r < codes.n; ++r) {
      image.ops->unpack_row(image, r, row.data());
      tensor::decode_row(codes.rows, r, defined.data());
      ASSERT_EQ(row, defined) << table->id << " row " << r;
    }
  }
}

// Scales and offsets of larger groups are repeated, those of the whole row too.
TEST(LinearGroups, LargerGroupsReadBackCodeByCode) {
  for (const WeightFormat* format : group_formats()) {
    if (format->scheme.sub_group != 0) continue;
    SCOPED_TRACE(format->name);
    expect_larger_groups_read_back(*format, format->scheme.group * 2);
    expect_larger_groups_read_back(*format, 0);
  }
}

// Law 1: rows alone, rows together, any number of them, threads.
TEST(LinearGroups, EveryNumberOfRowsGivesTheSameBits) {
  for (const WeightFormat* format : group_formats()) {
    for (const std::size_t k : {172U, 2088U}) {
      const std::size_t n = 131;
      const Codes codes(*format, n, k);
      const std::vector<float> x = random_floats(300 * k, 3);
      std::vector<float> want;
      for (std::size_t row = 0; row < 300; ++row) {
        for (std::size_t j = 0; j < n; ++j)
          want.push_back(row < 65 || row == 299 ? defined_product(codes, j, x.data() + row * k)
                                                : 0.0F);
      }
      for (const KernelTable* table : runnable_tables()) {
        SCOPED_TRACE(::testing::Message() << table->id << " " << format->name << " k " << k);
        expect_the_same_rows(*table, image_of(*table, *format, codes), x, want);
      }
    }
  }
}

TEST(LinearGroups, BadRowsAndRowsOfNothingStayByThemselves) {
  const std::size_t n = 70;
  const std::size_t k = 172;
  for (const WeightFormat* format : group_formats()) {
    const Codes codes(*format, n, k);
    const std::vector<float> clean = random_floats(8 * k, 3);
    std::vector<float> x = clean;
    x[k + 5] = NAN;
    x[2 * k + 171] = INFINITY;
    x[3 * k] = -INFINITY;
    std::fill(x.begin() + 4 * k, x.begin() + 5 * k, 0.0F);
    for (std::size_t i = 5 * k; i < 6 * k; ++i) x[i] = 1e-44F;
    for (const KernelTable* table : runnable_tables()) {
      const MatrixImage w = image_of(*table, *format, codes);
      SCOPED_TRACE(::testing::Message() << table->id << " " << format->name);
      expect_contained(
          product(*table, w, x.data(), 8, 2), product(*table, w, clean.data(), 8, 1), n);
    }
  }
}

// Scales as a checkpoint could hold them: half floats that are not numbers.
TEST(LinearGroups, ABrokenScaleStaysInItsOutput) {
  const std::size_t n = 70;
  const std::size_t k = 172;
  const std::vector<float> x = random_floats(9 * k, 3);
  for (const WeightFormat* format : group_formats()) {
    Codes codes(*format, n, k);
    for (const KernelTable* table : runnable_tables()) {
      const auto clean = product(*table, image_of(*table, *format, codes), x.data(), 9, 2);
      for (const std::uint16_t bits : std::to_array<std::uint16_t>({0x7C00, 0xFC00, 0x7E00})) {
        std::uint16_t& scale = codes.halves[34 * format->scheme.n_groups(k) - 1];
        const std::uint16_t before = std::exchange(scale, bits);
        const auto y = product(*table, image_of(*table, *format, codes), x.data(), 9, 2);
        scale = before;
        for (std::size_t i = 0; i < y.size(); ++i)
          ASSERT_TRUE(i % n == 33 ? !std::isfinite(y[i]) : y[i] == clean[i])
              << table->id << " " << format->name << " at " << i;
      }
    }
  }
}

// Weights that are quantised at load.
TEST(LinearGroups, QuantisedWeightsAreNearWhatTheyWere) {
  const std::size_t n = 64;
  const std::size_t k = 2000;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> weights(n * k);
  for (float& weight : weights) weight = normal(generator);
  for (const auto& [format, most] :
       {std::pair{&formats::kInt4, 0.086}, {&formats::kInt4G128, 0.101}}) {
    const DenseRows rows{reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, n};
    const MatrixImage w = pack_matrix(scalar_table().ops(*format), k, {&rows, 1}).value();
    double left = 0.0;
    double all = 0.0;
    std::vector<float> row(k);
    for (std::size_t r = 0; r < n; ++r) {
      w.ops->unpack_row(w, r, row.data());
      for (std::size_t i = 0; i < k; ++i) {
        const double weight = weights[r * k + i];
        left += (weight - row[i]) * (weight - row[i]);
        all += weight * weight;
      }
    }
    EXPECT_LT(std::sqrt(left / all), most) << format->name;
  }
}

TEST(LinearGroups, EverySetHoldsTheSameCodes) {
  const std::size_t n = 70;
  const std::size_t k = 172;
  const std::vector<float> weights = random_floats(n * k, 1, 0.1F);
  const DenseRows rows{reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, n};
  for (const WeightFormat* format : group_formats()) {
    const MatrixImage want = pack_matrix(scalar_table().ops(*format), k, {&rows, 1}).value();
    std::vector<float> a(k);
    std::vector<float> b(k);
    for (const KernelTable* table : runnable_tables()) {
      const MatrixImage w = pack_matrix(table->ops(*format), k, {&rows, 1}).value();
      for (std::size_t r = 0; r < n; ++r) {
        want.ops->unpack_row(want, r, a.data());
        w.ops->unpack_row(w, r, b.data());
        ASSERT_EQ(a, b) << table->id << " " << format->name;
      }
    }
  }
}

TEST(LinearGroups, BrokenAndTinyWeightsStayInTheirGroups) {
  const std::size_t k = 300;
  for (const WeightFormat* format : group_formats()) {
    std::vector<float> weights = random_floats(6 * k, 1);
    weights[40] = NAN;
    weights[k + 299] = INFINITY;
    weights[2 * k + 3] = 3e38F;  // no float16 scale
    std::fill(weights.begin() + 3 * k, weights.begin() + 4 * k, 1e-30F);
    std::fill(weights.begin() + 4 * k, weights.begin() + 5 * k, 0.0F);
    const std::vector<float> x = random_floats(k, 2);
    const DenseRows rows{reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, 6};
    for (const KernelTable* table : runnable_tables()) {
      const MatrixImage w = pack_matrix(table->ops(*format), k, {&rows, 1}).value();
      const std::vector<float> y = product(*table, w, x.data(), 1, 1);
      for (std::size_t j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(y[j])) << table->id << " " << j;
      EXPECT_EQ(y[3], 0.0F);
      EXPECT_EQ(y[4], 0.0F);
      EXPECT_TRUE(std::isfinite(y[5]));
      std::vector<float> row(k);
      w.ops->unpack_row(w, 0, row.data());
      EXPECT_TRUE(std::isfinite(row[k - 1]));
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
