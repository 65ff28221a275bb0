#pragma once
// Perplexity of a model on a text, computed as the server computes: the exponential of the mean negative logarithm of
// the probability of each token behind those before it, in windows.
//
// Thread rule: one thread, which is one of those of the context.

#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "kernels/kernel_table.h"
#include "quantize/layer_walk.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::quantize {

// Windows of `tokens_max` tokens; a last one of a single token is left out. Errors: kInvalidArgument, naming `what`,
// for a text of fewer than two tokens.
Result<Samples> samples_of(const tokenizer::Tokenizer& tokenizer,
                           std::string_view text,
                           std::string_view what,
                           std::size_t tokens_max,
                           std::size_t samples_max);

// Of the model in `path`, a folder or a GGUF file, with its weights as they are stored.
Result<double> perplexity(const std::string& path,
                          const Samples& samples,
                          const kernels::KernelTable& table,
                          kernels::ExecContext& exec);

}  // namespace coxswain::quantize
