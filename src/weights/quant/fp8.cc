// fp8 (transformers' "fp8" and "fbgemm_fp8"): weight e4m3fn [N, K] and weight_scale, one for the tensor or for each
// output; or weight_scale_inv [ceil(N / b0), ceil(K / b1)] for blocks of weight_block_size.
//   W = w * scale
// Scales of activations are not used: activations are not rounded to 8 bits here.

#include <array>

#include "weights/quant/byte_rows.h"

namespace coxswain::weights::quant {
namespace {

constexpr std::array kTypes{StoredType::kF8E4M3};

Result<DerivedTensor> derive(const Module& module, const StoredQuant& quant) {
  COXSWAIN_ASSIGN_OR_RETURN(ByteMatrix matrix, byte_matrix(module, kTypes));
  if (quant.block_rows != 0) {
    COXSWAIN_ASSIGN_OR_RETURN(matrix.scales, module.get(".weight_scale_inv"));
    matrix.block_rows = quant.block_rows;
    matrix.block_inputs = quant.block_inputs;
    COXSWAIN_RETURN_IF_ERROR(fit_block_scales(matrix));
  } else {
    COXSWAIN_ASSIGN_OR_RETURN(matrix.scales, module.get(".weight_scale"));
    COXSWAIN_RETURN_IF_ERROR(fit_plain_scales(matrix));
  }
  const StoredTensor surplus =
      module.find(quant.block_rows != 0 ? ".weight_scale" : ".weight_scale_inv");
  if (surplus) return tensor_error(surplus, "is not what weight_block_size asks for");
  DerivedTensor out = module.derived(".weight", matrix.weight.info->shape);
  out.open = [matrix](const ReadBytes& read) { return open_byte_rows(matrix, read); };
  return out;
}

constexpr std::array<std::string_view, 5> kSuffixes{
    ".weight", ".weight_scale", ".weight_scale_inv", ".input_scale", ".input_scale_ub"};

}  // namespace

const Form kFp8{StoredMethod::kFp8, "fp8", ".weight_scale", kSuffixes, derive};

}  // namespace coxswain::weights::quant
