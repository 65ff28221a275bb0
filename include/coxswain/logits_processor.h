#pragma once
// LogitsProcessor: a program's own hand in how tokens are chosen: it changes the logits of a position before anything
// else looks at them. What TensorRT-LLM calls a logits post-processor.
//
// Processors are given to a runner in this process when it is made, each under a name, and a request asks for one by
// name (SamplingParams::logits_processor). One that is given under an empty name is for all requests that name none. No
// other process has them: a shard refuses the name.
//
// Called once for each token, after the forward pass and before the penalties (docs/sampling.md), also where the row
// lists candidates. For a repeatable answer the result is a function of `input` and the logits alone: a sequence that
// was paused or moved is not asked again for tokens that it has, and its other positions may come in any grouping.
//
// Thread rule: process() is called by the runner's pool threads, for several sequences at once, never twice at once for
// the same one. What a processor keeps beyond one call, it guards itself. It must not call the engine or the runner; a
// step waits for it.

#include <cstdint>
#include <span>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

// Spans are valid during the call.
struct LogitsInput {
  SequenceId sequence{};
  std::uint64_t tag = 0;  // SamplingParams::logits_processor_tag of the request
  std::span<const TokenId> prompt = {};
  std::span<const TokenId> output = {};  // chosen so far
};

class LogitsProcessor {
 public:
  virtual ~LogitsProcessor() = default;
  // `logits` [vocab_size], to be changed in place; -infinity forbids an id. An error, or an exception, ends this
  // sequence alone; so does a NaN left behind.
  virtual Status process(const LogitsInput& input, std::span<float> logits) = 0;
};

}  // namespace coxswain
