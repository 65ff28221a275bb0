#pragma once
// The parts of a whole answer: thoughts, text and calls.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/answer.h"
#include "speech/reply_reader.h"

namespace coxswain::api {

using speech::ReplyReader;

// A whole answer.
struct Reply {
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;  // JSON
  };
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
  std::uint32_t n_reasoning_tokens = 0;
};
// The sequence has ended and keeps its tokens.
Reply read_reply(const ReplyOptions& options,
                 const SequenceAnswer& sequence,
                 std::size_t index,
                 const TextRules& rules = {});

}  // namespace coxswain::api
