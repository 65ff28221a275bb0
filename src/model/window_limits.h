#pragma once
// WindowLimits: windows that whoever serves a model puts on its layers, and sink tokens beside windows.
//
// A layer with window w and s sink tokens attends, at position i, to positions j <= i with i - j < w or j < s: the
// StreamingLLM of Xiao et al. 2023 (Efficient Streaming Language Models with Attention Sinks). Theirs numbers the
// positions in the cache anew; here each keeps its own for rotary angles and embeddings, so that a cached key means the
// same in every step and a request's answer does not depend on when blocks were given back.
//
// Thread rule: values and pure functions.

#include <cstdint>
#include <vector>

#include <coxswain/status.h>

#include "model/arch_spec.h"

namespace coxswain::model {

struct WindowLimits {
  // Layer i attends to at most max_attention_window[i % size] positions, or the model's own window, if that is less.
  // 0 = no limit for that layer; empty = for none.
  std::vector<std::uint32_t> max_attention_window = {};
  std::uint32_t sink_token_length = 0;  // of every layer with a window

  friend bool operator==(const WindowLimits&, const WindowLimits&) = default;
};

// Errors: kInvalidArgument naming `max_attention_window` or `sink_token_length`: more windows than layers; a number
// above kPositionsMax; sink tokens where no layer has a window, or where scores fall with the distance (ALiBi).
Status apply(const WindowLimits& limits, ArchSpec& arch);

}  // namespace coxswain::model
