#pragma once
// One Request of generate.v3 as a sequence that a StepRunner can run: text to ids, truncation,
// parameters, block and slot checks.
//
// Thread rule: pure functions, but for the grammars that are kept.

#include <cstdint>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "grammar/compiler.h"

namespace generate::v3 {
class Request;
}  // namespace generate::v3

namespace coxswain::rpc {

struct StockRequest {
  std::uint64_t request_id = 0;
  SequenceSpec spec;              // without an id
  std::vector<BlockId> blocks;    // of KV group 0; empty: the caller leaves the choice to us
  std::uint32_t n_positions = 0;  // that the sequence can write: prompt + max_new_tokens - 1
  std::uint32_t cache_len = 0;    // positions that are in the cache already
  std::uint32_t first_chunk = 0;  // prompt tokens of the first step
};

enum class StockUse : std::uint8_t {
  kGenerate,
  kWarmup,  // only measures memory: without blocks, the prompt cut to what the model has positions for
};

// Errors: kInvalidArgument with the field named, in the words of text-generation-inference where it has some;
// kResourceExhausted for a grammar that is too large.
Result<StockRequest> read_stock_request(const generate::v3::Request& request,
                                        const TextCodec& codec,
                                        const RunnerInfo& info,
                                        StockUse use,
                                        grammar::Compiler& grammars);

}  // namespace coxswain::rpc
