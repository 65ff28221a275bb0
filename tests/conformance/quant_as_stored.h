#pragma once
// Models whose weights stay what the file stores (codes where a weight format takes them): what differs from the
// reference then is that rows of activations are rounded to 8 bits.
//
// Thread rule: one thread; the kernels' pool is inside.

#include <string>

#include "conformance/conformance.h"
#include "json/json.h"

namespace coxswain::conformance {

struct AsStored {
  std::string format;        // of most bytes
  double bytes_share = 0.0;  // of what float32 weights take
  // Root mean square of the differences of logits, over that of the logits.
  double worst_error = 0.0;
};

// Against the logits of `expected`, and prompts at once against token by token, bit for bit.
Result<AsStored> check_as_stored(const ConformanceOptions& options,
                                 const std::string& path,
                                 const json::Value& expected,
                                 std::uint32_t tokens_max);

}  // namespace coxswain::conformance
