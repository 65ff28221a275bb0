#pragma once
// Named tensors -> request: what a program wrote for TensorRT-LLM's batch manager becomes what our engine takes.
//
// Every tensor of docs/batch-manager.md is a row of one table here: its name, type and shape, and what becomes of it.
// A tensor that is not honoured is refused by name, with the reason.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>

#include <coxswain/named_tensor.h>
#include <coxswain/status.h>

#include "batch/engine.h"

namespace coxswain::manager {

struct TensorRules {
  std::uint32_t vocab_size = 0;        // V: width of the logits
  std::uint32_t sequences_max = 1;     // num_return_sequences
  std::uint32_t input_tokens_max = 0;  // where prompts are not divided; 0 = they are
  bool streaming_allowed = true;
  std::int32_t max_beam_width = 1;
};

// What the response shall have.
struct OutputWishes {
  bool streaming = false;
  bool log_probs = false;
  std::uint32_t n_beams = 1;
  TokenId pad_id = 0;  // fills up beams that are shorter than others

  friend bool operator==(const OutputWishes&, const OutputWishes&) = default;
};

struct ParsedRequest {
  batch::GenerationRequest request;
  OutputWishes outputs;
};

// Errors: kInvalidArgument, and kUnimplemented for what is not honoured, naming tensor, legal and given values.
Result<ParsedRequest> parse_request(const InferenceRequest& request, const TensorRules& rules);

// Whether it is no request but a message: the request with its id shall stop.
bool is_stop_message(const InferenceRequest& request);

// The same failure in the words of tensors, where its field has one.
Status in_tensor_words(const Status& status);

}  // namespace coxswain::manager
