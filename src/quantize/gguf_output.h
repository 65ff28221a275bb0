#pragma once
// GGUF files quantised: one whose matrices are blocks, of a source of floats (gguf_source.h). Keys are the source's.
//
// Thread rule: the calling thread, which is one of those of the pool.

#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "base/thread_pool.h"
#include "gguf/writer.h"
#include "quantize/gguf_source.h"

namespace coxswain::quantize {

// Types of whole files: "Q8_0", "Q4_0", "Q4_K_M", "F16", "BF16". Q4_K_M is llama.cpp's mix: what matters more has more
// bits than the rest.
bool is_gguf_mix(std::string_view name);

// The type that a tensor gets; its own where it is no matrix of weights.
std::string_view type_in_mix(std::string_view mix,
                             const GgufSource& source,
                             const gguf::NewTensor& tensor);

// Errors: kInvalidArgument, naming the tensor, for a source that is quantised already; those of reading and writing.
Status write_gguf(const GgufSource& source,
                  const std::string& to,
                  std::string_view mix,
                  base::ThreadPool& pool);

}  // namespace coxswain::quantize
