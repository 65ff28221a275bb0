#pragma once
// GGUF files quantised: of one of floats, as converters make it, one whose matrices are blocks. Keys are copied.
//
// Thread rule: the calling thread, which is one of those of the pool.

#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "base/thread_pool.h"
#include "gguf/header.h"

namespace coxswain::quantize {

// Types of whole files: "Q8_0", "Q4_0", "Q4_K_M". In the last one llama.cpp's mix: what matters more has more bits.
bool is_gguf_mix(std::string_view name);

// The type that a tensor gets; its own where it is no matrix of weights.
std::string_view type_in_mix(std::string_view mix,
                             const gguf::Header& header,
                             const gguf::TensorInfo& tensor);

// Errors: kInvalidArgument, naming the tensor, for a source that is quantised already; kUnimplemented for one that is
// split over files; those of reading and writing.
Status write_gguf(const std::string& from,
                  const std::string& to,
                  std::string_view mix,
                  base::ThreadPool& pool);

}  // namespace coxswain::quantize
