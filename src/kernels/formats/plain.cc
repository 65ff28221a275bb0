// float32, bfloat16 and float16: values as they are, or rounded to the type.

#include <cstring>

#include "kernels/formats/all.h"
#include "kernels/formats/widen.h"

namespace coxswain::kernels {
namespace {

using tensor::DType;

template <DType kType>
void encode(const float* x, std::size_t k, const EncodedRow& out) {
  if constexpr (kType == DType::kF32) {
    std::memcpy(out.values, x, k * sizeof(float));
  } else {
    for (std::size_t i = 0; i < k; ++i) {
      const std::uint16_t bits =
          kType == DType::kBf16 ? tensor::float_to_bf16(x[i]) : tensor::float_to_f16(x[i]);
      std::memcpy(out.values + i * 2, &bits, 2);
    }
  }
}

template <DType kType>
void decode(const EncodedRow& in, std::size_t count, float* out) {
  widen(in.values, kType, count, out);
}

template <DType kType>
constexpr WeightFormat make_format(FormatId id) {
  WeightFormat out;
  out.id = id;
  out.name = tensor::name_of(kType);
  out.bits = static_cast<std::uint32_t>(tensor::size_of(kType)) * 8;
  out.plain = kType;
  out.encode = encode<kType>;
  out.decode = decode<kType>;
  return out;
}

}  // namespace

constinit const WeightFormat formats::kFloat32 = make_format<DType::kF32>(1);
constinit const WeightFormat formats::kBfloat16 = make_format<DType::kBf16>(2);
constinit const WeightFormat formats::kFloat16 = make_format<DType::kF16>(3);

}  // namespace coxswain::kernels
