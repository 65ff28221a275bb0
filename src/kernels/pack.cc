#include "kernels/pack.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

namespace coxswain::kernels {
namespace {

using tensor::DType;

constexpr std::size_t round_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b * b;
}

std::uint16_t load16(const std::byte* source, std::size_t i) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, source + i * 2, 2);
  return bits;
}

void widen(const std::byte* source, DType type, std::size_t n, float* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, source, n * sizeof(float));
      break;
    case DType::kBf16:
      for (std::size_t i = 0; i < n; ++i) out[i] = tensor::bf16_to_float(load16(source, i));
      break;
    case DType::kF16:
      for (std::size_t i = 0; i < n; ++i) out[i] = tensor::f16_to_float(load16(source, i));
      break;
    case DType::kI8:
      assert(false && "int8 is no source type");
      break;
  }
}

DType stored_type(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return DType::kF32;
    case WeightType::kBf16:
      return DType::kBf16;
    case WeightType::kF16:
      return DType::kF16;
    case WeightType::kInt8:
      return DType::kI8;
  }
  return DType::kF32;
}

struct Quantised {
  float scale = 0.0F;
  std::int32_t sum = 0;
};

// Largest magnitude; NaN if there is one. As integers, so that the loop has no order to keep.
float largest_magnitude(const float* x, std::size_t k) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < k; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu);
  return std::bit_cast<float>(largest);
}

Quantised quantise(const float* x, std::size_t k, std::byte* out) {
  // Adding and subtracting this rounds to a whole number, ties to even.
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23
  const float absmax = largest_magnitude(x, k);
  Quantised result{absmax / 127.0F, 0};
  const float inverse = 127.0F / absmax;
  // A scale that is not finite makes every output of a broken row NaN; a row of values too small to
  // have a reciprocal counts as zero.
  if (!std::isfinite(absmax) || !std::isfinite(inverse)) {
    std::memset(out, 0, k);
    return result;
  }
  for (std::size_t i = 0; i < k; ++i) {
    const float scaled = std::clamp(x[i] * inverse, -127.0F, 127.0F);
    const auto value =
        static_cast<std::int8_t>(static_cast<std::int32_t>((scaled + kRound) - kRound));
    result.sum += value;
    out[i] = static_cast<std::byte>(value);
  }
  return result;
}

// Copies `n_rows` rows of `n_units` units each into neighbouring places of a panel, unit by unit,
// so that stores are in order.
template <std::size_t kUnitBytes>
void interleave(std::byte* panel,
                std::size_t panel_rows,
                const std::vector<const std::byte*>& rows,
                std::size_t n_units) {
  for (std::size_t i = 0; i < n_units; ++i) {
    std::byte* out = panel + i * panel_rows * kUnitBytes;
    for (const std::byte* row : rows) {
      std::memcpy(out, row + i * kUnitBytes, kUnitBytes);
      out += kUnitBytes;
    }
  }
}

// The same for units of any size; the usual ones have a loop of their own.
void interleave_units(std::byte* panel,
                      std::size_t panel_rows,
                      const std::vector<const std::byte*>& rows,
                      std::size_t n_units,
                      std::size_t unit_bytes) {
  if (unit_bytes == 2) return interleave<2>(panel, panel_rows, rows, n_units);
  if (unit_bytes == 4) return interleave<4>(panel, panel_rows, rows, n_units);
  for (std::size_t u = 0; u < n_units; ++u) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(panel + (u * panel_rows + r) * unit_bytes, rows[r] + u * unit_bytes, unit_bytes);
    }
  }
}

// The values of one panel's rows in their final type, row after row, ready to be interleaved.
class PanelRows {
 public:
  PanelRows(PackedMatrix& matrix, const PackSource& source, const LinearKernel& kernel)
      : matrix_(matrix),
        source_(source),
        padded_bytes_(round_up(matrix.k, kernel.k_group) * kernel.weight_bytes),
        wide_(matrix.k),
        converted_(kernel.panel * padded_bytes_) {}

  // Rows [first, first + count) of the source, which are row `n` on of the matrix.
  const std::vector<const std::byte*>& get(std::size_t first, std::size_t count, std::size_t n) {
    rows_.clear();
    for (std::size_t i = 0; i < count; ++i)
      rows_.push_back(row(first + i, n + i, converted_.data() + i * padded_bytes_));
    return rows_;
  }

 private:
  const std::byte* row(std::size_t from, std::size_t n, std::byte* to) {
    const std::size_t k = matrix_.k;
    const std::byte* const source = source_.data + from * k * tensor::size_of(source_.type);
    const DType type = stored_type(matrix_.type);
    const std::size_t bytes = k * tensor::size_of(type);
    if (source_.type == type) {
      if (bytes == padded_bytes_) return source;
      std::memcpy(to, source, bytes);
    } else {
      widen(source, source_.type, k, wide_.data());
      convert(n, to);
    }
    std::memset(to + bytes, 0, padded_bytes_ - bytes);
    return to;
  }

  void convert(std::size_t n, std::byte* to) {
    switch (matrix_.type) {
      case WeightType::kF32:
        std::memcpy(to, wide_.data(), wide_.size() * sizeof(float));
        break;
      case WeightType::kBf16:
      case WeightType::kF16:
        for (std::size_t j = 0; j < wide_.size(); ++j) {
          const std::uint16_t bits = matrix_.type == WeightType::kBf16
                                         ? tensor::float_to_bf16(wide_[j])
                                         : tensor::float_to_f16(wide_[j]);
          std::memcpy(to + j * 2, &bits, 2);
        }
        break;
      case WeightType::kInt8: {
        const Quantised q = quantise(wide_.data(), wide_.size(), to);
        matrix_.scales[n] = q.scale;
        matrix_.column_sums[n] = q.sum;
        break;
      }
    }
  }

  PackedMatrix& matrix_;
  const PackSource& source_;
  std::size_t padded_bytes_;
  std::vector<float> wide_;
  std::vector<std::byte> converted_;
  std::vector<const std::byte*> rows_;
};

}  // namespace

std::size_t packed_size_bytes(const LinearKernel& kernel, std::size_t n, std::size_t k) {
  return round_up(n, kernel.panel) * round_up(k, kernel.k_multiple) * kernel.weight_bytes;
}

void pack_rows(PackedMatrix& matrix,
               std::size_t row_begin,
               const PackSource& source,
               const LinearKernel& kernel) {
  const std::size_t unit_bytes = std::size_t{kernel.k_group} * kernel.weight_bytes;
  const std::size_t panel_bytes =
      round_up(matrix.k, kernel.k_multiple) * kernel.panel * kernel.weight_bytes;
  const std::size_t n_units = round_up(matrix.k, kernel.k_group) / kernel.k_group;
  PanelRows values(matrix, source, kernel);
  for (std::size_t i = 0; i < source.n_rows;) {
    const std::size_t n = row_begin + i;
    const std::size_t in_panel = n % kernel.panel;
    const std::size_t count = std::min(kernel.panel - in_panel, source.n_rows - i);
    std::byte* const panel =
        matrix.data.data() + n / kernel.panel * panel_bytes + in_panel * unit_bytes;
    const auto& rows = values.get(i, count, n);
    interleave_units(panel, kernel.panel, rows, n_units, unit_bytes);
    i += count;
  }
}

void unpack_row(const PackedMatrix& matrix,
                std::size_t row,
                float* out,
                const LinearKernel& kernel) {
  const std::size_t panel_values = round_up(matrix.k, kernel.k_multiple) * kernel.panel;
  const std::size_t first = row / kernel.panel * panel_values + row % kernel.panel * kernel.k_group;
  const std::byte* column = matrix.data.data() + first * kernel.weight_bytes;
  const std::size_t step_bytes = std::size_t{kernel.panel} * kernel.k_group * kernel.weight_bytes;
  for (std::size_t i = 0; i < matrix.k; i += kernel.k_group, column += step_bytes) {
    const std::size_t count = std::min<std::size_t>(kernel.k_group, matrix.k - i);
    if (matrix.type == WeightType::kInt8) {
      for (std::size_t j = 0; j < count; ++j) {
        out[i + j] = matrix.scales[row] * static_cast<float>(static_cast<std::int8_t>(column[j]));
      }
    } else {
      widen(column, stored_type(matrix.type), count, out + i);
    }
  }
}

}  // namespace coxswain::kernels
