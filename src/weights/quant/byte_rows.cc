#include "weights/quant/byte_rows.h"

#include <algorithm>
#include <array>
#include <bit>

namespace coxswain::weights::quant {
namespace {

constexpr std::uint64_t blocks_of(std::uint64_t n, std::uint64_t block) {
  return n / block + (n % block != 0 ? 1 : 0);
}

std::array<float, 256> value_table(StoredType type) {
  std::array<float, 256> out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = type == StoredType::kI8
                 ? static_cast<float>(static_cast<std::int8_t>(static_cast<std::uint8_t>(i)))
                 : e4m3_to_float(static_cast<std::uint8_t>(i));
  return out;
}

class ByteRows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const ByteMatrix& matrix, const ReadBytes& read) {
    auto out = std::make_unique<ByteRows>(matrix, read);
    COXSWAIN_ASSIGN_OR_RETURN(out->scales_, read_floats(read, matrix.scales));
    for (float& scale : out->scales_) scale /= matrix.scale_divisor;
    if (matrix.zeros) {
      COXSWAIN_ASSIGN_OR_RETURN(out->zeros_, read_all<std::int8_t>(read, matrix.zeros));
    }
    return std::unique_ptr<RowReader>(std::move(out));
  }

  ByteRows(const ByteMatrix& matrix, const ReadBytes& read)
      : matrix_(matrix), read_(read), values_(value_table(matrix.weight.info->type)) {}

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    const std::uint64_t k = matrix_.weight.info->shape[1];
    const std::uint64_t n_blocks = blocks_of(k, matrix_.block_inputs);
    bytes_.resize(n * k);
    COXSWAIN_RETURN_IF_ERROR(
        read_(matrix_.weight, first * k, std::as_writable_bytes(std::span(bytes_))));
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t line = (first + i) / matrix_.block_rows * n_blocks;
      for (std::uint64_t b = 0; b < n_blocks; ++b) {
        const float scale = scales_[line + b];
        const float zero = zeros_.empty() ? 0.0F : static_cast<float>(zeros_[line + b]);
        const std::uint64_t end = std::min(k, (b + 1) * matrix_.block_inputs);
        for (std::uint64_t j = b * matrix_.block_inputs; j < end; ++j)
          out[i * k + j] = (values_[bytes_[i * k + j]] - zero) * scale;
      }
    }
    return {};
  }

 private:
  ByteMatrix matrix_;
  ReadBytes read_;
  std::array<float, 256> values_;
  std::vector<float> scales_;
  std::vector<std::int8_t> zeros_;
  std::vector<std::uint8_t> bytes_;
};

std::uint64_t n_values(const StoredTensor& part) {
  std::uint64_t n = 1;
  // Proven not to overflow when the file was opened.
  for (const std::uint64_t extent : part.info->shape) n *= extent;
  return n;
}

}  // namespace

float e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24U;
  const std::uint32_t exponent = bits >> 3U & 15U;
  const std::uint32_t mantissa = bits & 7U;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(sign | 0x7FC00000U);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-9F;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 120) << 23U | mantissa << 20U);
}

Result<ByteMatrix> byte_matrix(const Module& module, std::span<const StoredType> types) {
  ByteMatrix out;
  COXSWAIN_ASSIGN_OR_RETURN(out.weight, module.get(".weight"));
  COXSWAIN_RETURN_IF_ERROR(extents(out.weight, types).status());
  return out;
}

Status fit_plain_scales(ByteMatrix& matrix) {
  COXSWAIN_RETURN_IF_ERROR(expect_type(matrix.scales, kScaleTypes));
  const std::vector<std::uint64_t>& shape = matrix.scales.info->shape;
  const std::uint64_t n = matrix.weight.info->shape[0];
  matrix.block_inputs = matrix.weight.info->shape[1];
  const bool is_line = shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  if (is_line && shape[0] == n) {
    matrix.block_rows = 1;
  } else if (shape.size() <= 2 && n_values(matrix.scales) == 1) {
    matrix.block_rows = n;
  } else {
    return tensor_error(
        matrix.scales,
        "has shape " + shape_text(shape) + ", not that of one scale or of " + std::to_string(n));
  }
  return {};
}

Status fit_block_scales(ByteMatrix& matrix) {
  COXSWAIN_RETURN_IF_ERROR(expect_type(matrix.scales, kScaleTypes));
  const std::vector<std::uint64_t>& shape = matrix.weight.info->shape;
  return expect_shape(
      matrix.scales,
      {blocks_of(shape[0], matrix.block_rows), blocks_of(shape[1], matrix.block_inputs)});
}

Result<std::unique_ptr<RowReader>> open_byte_rows(const ByteMatrix& matrix, const ReadBytes& read) {
  return ByteRows::open(matrix, read);
}

}  // namespace coxswain::weights::quant
