#pragma once
// Checkpoints that are stored quantised: their weights beside the reference's, and single layers.
//
// Thread rule: one thread.

#include <cstddef>
#include <string>

#include <coxswain/status.h>

#include "conformance/conformance.h"
#include "json/json.h"

namespace coxswain::conformance {

// Every tensor that `expected` lists as dequantised: the hash of its values; of bitsandbytes, whose reference rounds
// otherwise, its first rows and its sums within 1e-6. Returns how many.
Result<std::size_t> check_weights(const std::string& folder, const json::Value& expected);

// The GPTQ layers of layers.{json,safetensors}, bit for bit.
void run_layers(const std::string& folder, ConformanceReport& report);

}  // namespace coxswain::conformance
