#include "kernels/pack.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

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

float load_float(const std::byte* source, DType type, std::size_t i) {
  float value = 0.0F;
  switch (type) {
    case DType::kF32:
      std::memcpy(&value, source + i * 4, 4);
      break;
    case DType::kBf16:
      value = tensor::bf16_to_float(load16(source, i));
      break;
    case DType::kF16:
      value = tensor::f16_to_float(load16(source, i));
      break;
    case DType::kI8:
      assert(false && "int8 is no source type");
      break;
  }
  return value;
}

// Writes one output's k values, each made by `convert(i)`, into its column of the panel.
template <typename T, typename Convert>
void scatter(T* column, std::size_t k, const LinearKernel& kernel, Convert convert) {
  const std::size_t group = kernel.k_group;
  const std::size_t step = std::size_t{kernel.panel} * group;
  for (std::size_t i = 0; i < k; i += group, column += step) {
    const std::size_t count = std::min(group, k - i);
    for (std::size_t j = 0; j < count; ++j) column[j] = convert(i + j);
  }
}

struct Quantised {
  float scale = 0.0F;
  std::int32_t sum = 0;
};

Quantised scatter_int8(std::int8_t* column,
                       const std::byte* row,
                       DType type,
                       std::size_t k,
                       const LinearKernel& kernel) {
  float absmax = 0.0F;
  for (std::size_t i = 0; i < k; ++i)
    absmax = std::max(absmax, std::fabs(load_float(row, type, i)));
  const float inverse = absmax > 0.0F ? 127.0F / absmax : 0.0F;
  Quantised out{absmax / 127.0F, 0};
  scatter(column, k, kernel, [&](std::size_t i) {
    const float scaled = std::clamp(load_float(row, type, i) * inverse, -127.0F, 127.0F);
    const auto value = static_cast<std::int8_t>(std::lrintf(scaled));
    out.sum += value;
    return value;
  });
  return out;
}

}  // namespace

std::size_t packed_size_bytes(const LinearKernel& kernel, std::size_t n, std::size_t k) {
  return round_up(n, kernel.panel) * round_up(k, kernel.k_multiple) * kernel.weight_bytes;
}

void pack_rows(PackedMatrix& matrix,
               std::size_t row_begin,
               const PackSource& source,
               const LinearKernel& kernel) {
  const std::size_t k = matrix.k;
  const std::size_t panel_values = round_up(k, kernel.k_multiple) * kernel.panel;
  for (std::size_t i = 0; i < source.n_rows; ++i) {
    const std::size_t n = row_begin + i;
    const std::byte* row = source.data + i * k * tensor::size_of(source.type);
    const std::size_t at = n / kernel.panel * panel_values + n % kernel.panel * kernel.k_group;
    std::byte* column = matrix.data.data() + at * kernel.weight_bytes;
    const auto value = [&](std::size_t j) { return load_float(row, source.type, j); };
    switch (matrix.type) {
      case WeightType::kF32:
        scatter(reinterpret_cast<float*>(column), k, kernel, value);
        break;
      case WeightType::kBf16:
        if (source.type == DType::kBf16) {
          scatter(reinterpret_cast<std::uint16_t*>(column), k, kernel, [&](std::size_t j) {
            return load16(row, j);
          });
        } else {
          scatter(reinterpret_cast<std::uint16_t*>(column), k, kernel, [&](std::size_t j) {
            return tensor::float_to_bf16(value(j));
          });
        }
        break;
      case WeightType::kF16:
        if (source.type == DType::kF16) {
          scatter(reinterpret_cast<std::uint16_t*>(column), k, kernel, [&](std::size_t j) {
            return load16(row, j);
          });
        } else {
          scatter(reinterpret_cast<std::uint16_t*>(column), k, kernel, [&](std::size_t j) {
            return tensor::float_to_f16(value(j));
          });
        }
        break;
      case WeightType::kInt8: {
        const Quantised q =
            scatter_int8(reinterpret_cast<std::int8_t*>(column), row, source.type, k, kernel);
        matrix.scales[n] = q.scale;
        matrix.column_sums[n] = q.sum;
        break;
      }
    }
  }
}

}  // namespace coxswain::kernels
