#pragma once
// MaskSignature: what a mask hangs on, as bytes that can be compared: the part of an automaton that a token can reach.
//
// Thread rule: immutable; const methods from any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "grammar/program.h"

namespace coxswain::grammar {

class MaskSignature {
 public:
  // A state that reads a byte, and what it returns to, outermost first.
  struct Start {
    StateId state = 0;
    std::vector<StateId> targets;
  };

  // `token_bytes_max`: of the longest token. The program outlives this.
  MaskSignature(const Program& program, std::uint32_t token_bytes_max);

  // Equal for starts that let the same tokens through, and end their outermost rules at the same places in them; states
  // are numbered as they are reached. Empty for parts of many states, which are seldom met again.
  std::string make(const std::vector<Start>& starts) const;

 private:
  const Program& program_;
  std::uint32_t token_bytes_max_;
  std::vector<bool> nullable_;  // [state]: its rule can end without a byte
};

}  // namespace coxswain::grammar
