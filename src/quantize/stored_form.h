#pragma once
// How quantised matrices are written into checkpoints: as GPTQ's files and as compressed-tensors have them. The layouts
// are those that src/weights/quant reads.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"
#include "quantize/matrix.h"
#include "weights/safetensors_writer.h"

namespace coxswain::quantize {

enum class StoredForm : std::uint8_t { kGptq, kCompressedTensors };

struct StoredOptions {
  StoredForm form = StoredForm::kGptq;
  NumberKind kind = NumberKind::kInt4;
  std::uint64_t group_size = 128;  // 0: all
  bool act_order = false;
  // Present compressed-tensors have no order of groups but that of the inputs.
  bool groups_in_order() const { return form == StoredForm::kCompressedTensors; }
  double percdamp = 0.01;
};

struct OutputTensor {
  weights::TensorDeclaration declaration;
  std::vector<std::byte> bytes;
};

// Whether a matrix [n, k] can be stored so. Errors: kInvalidArgument, naming `module` and the number at fault.
Status check_shape(const StoredOptions& options,
                   const std::string& module,
                   std::uint64_t n,
                   std::uint64_t k);

// The tensors of `matrix` under the names that follow from `module`.
std::vector<OutputTensor> stored_tensors(const StoredOptions& options,
                                         const std::string& module,
                                         const QuantisedMatrix& matrix);

// quantization_config of config.json. `ignored`: modules that stay as they are.
json::Value quantization_config(const StoredOptions& options,
                                const std::vector<std::string>& ignored);

}  // namespace coxswain::quantize
