#pragma once
// The kind "quant" of coxswain-conformance: weights that are stored quantised, below the data folder.
//
//   DIR/goldens/quant/gguf/*.gguf
//     Whole models: logits and greedy ids, computed from the dequantised weights.
//
//   DIR/goldens/quant/gguf/blocks.{json,safetensors}
//     Blocks of every type, decoded bit for bit: a case for each type.
//
// Formats: the README files beside the data.
//
// Thread rule: one thread; the kernels' pool is inside.

#include "conformance/conformance.h"

namespace coxswain::conformance {

ConformanceCounts run_quant_conformance(const ConformanceOptions& options);

}  // namespace coxswain::conformance
