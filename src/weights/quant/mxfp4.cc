// MXFP4 (gpt-oss; OCP Microscaling Formats 1.0): NAME_blocks uint8 [.., N, K / 32, 16] and NAME_scales uint8
// [.., N, K / 32]; the low half of a byte is the even element.
//   W = value[code] * 2^(scale - 127); a scale of 255 is NaN

#include <array>
#include <bit>

#include "weights/quant/module.h"

namespace coxswain::weights::quant {
namespace {

constexpr std::array kUint8{StoredType::kU8};
constexpr std::uint64_t kBlock = 32;
constexpr std::uint64_t kBlockBytes = 16;

constexpr std::array<float, 16> kValues{0.0F,
                                        0.5F,
                                        1.0F,
                                        1.5F,
                                        2.0F,
                                        3.0F,
                                        4.0F,
                                        6.0F,
                                        -0.0F,
                                        -0.5F,
                                        -1.0F,
                                        -1.5F,
                                        -2.0F,
                                        -3.0F,
                                        -4.0F,
                                        -6.0F};

// 2^-127 is subnormal.
float power_of_two(std::uint32_t bits) {
  if (bits == 255) return std::bit_cast<float>(0x7FC00000U);
  return std::bit_cast<float>(bits == 0 ? 0x00400000U : bits << 23U);
}

struct Parts {
  StoredTensor blocks;
  StoredTensor scales;
  std::uint64_t row_blocks = 0;
};

class Rows final : public RowReader {
 public:
  Rows(const Parts& parts, const ReadBytes& read) : parts_(parts), read_(read) {}

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    const std::uint64_t at = first * parts_.row_blocks;
    const std::uint64_t n_blocks = n * parts_.row_blocks;
    scales_.resize(n_blocks);
    codes_.resize(n_blocks * kBlockBytes);
    COXSWAIN_RETURN_IF_ERROR(read_(parts_.scales, at, std::as_writable_bytes(std::span(scales_))));
    COXSWAIN_RETURN_IF_ERROR(
        read_(parts_.blocks, at * kBlockBytes, std::as_writable_bytes(std::span(codes_))));
    for (std::uint64_t b = 0; b < n_blocks; ++b) {
      const float scale = power_of_two(scales_[b]);
      for (std::uint64_t i = 0; i < kBlockBytes; ++i) {
        const unsigned byte = codes_[b * kBlockBytes + i];
        *out++ = kValues[byte & 15U] * scale;
        *out++ = kValues[byte >> 4U] * scale;
      }
    }
    return {};
  }

 private:
  Parts parts_;
  ReadBytes read_;
  std::vector<std::uint8_t> scales_;
  std::vector<std::uint8_t> codes_;
};

Result<DerivedTensor> derive(const Module& module, const StoredQuant& /*quant*/) {
  Parts parts;
  COXSWAIN_ASSIGN_OR_RETURN(parts.blocks, module.get("_blocks"));
  COXSWAIN_RETURN_IF_ERROR(expect_type(parts.blocks, kUint8));
  std::vector<std::uint64_t> shape = parts.blocks.info->shape;
  if (shape.size() < 3 || shape.back() != kBlockBytes || parts.blocks.info->n_bytes() == 0)
    return tensor_error(parts.blocks,
                        "has shape " + shape_text(shape) + ", not [.., outputs, blocks, 16]");
  shape.pop_back();
  COXSWAIN_ASSIGN_OR_RETURN(parts.scales, module.get("_scales", kUint8, shape));
  parts.row_blocks = shape.back();
  shape.back() *= kBlock;
  DerivedTensor out = module.derived("", std::move(shape));
  out.open = [parts](const ReadBytes& read) -> Result<std::unique_ptr<RowReader>> {
    return std::unique_ptr<RowReader>(std::make_unique<Rows>(parts, read));
  };
  return out;
}

constexpr std::array<std::string_view, 2> kSuffixes{"_blocks", "_scales"};

}  // namespace

const Form kMxfp4{StoredMethod::kMxfp4, "mxfp4", "_blocks", kSuffixes, derive};

}  // namespace coxswain::weights::quant
