#pragma once
// The kind "quant" of coxswain-conformance: weights that are stored quantised, below the data folder.
//
//   DIR/goldens/quant/*/expected.json
//     Checkpoints with a quantization_config: values of their weights, logits and greedy ids computed from them.
//
//   DIR/goldens/quant/layers.{json,safetensors}
//     Single layers of GPTQ, bit for bit: a case for each.
//
//   DIR/goldens/quant/gguf/*.gguf
//     Whole models: logits and greedy ids, computed from the dequantised weights.
//
// Whole models are run twice: with float32 weights, and with weights held as they are stored (quant_as_stored.h).
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
