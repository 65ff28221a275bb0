#pragma once
// Program: a grammar as an automaton over bytes with calls: states of a finite automaton, and edges that call a rule
// and go on behind it when it returns. The flat form of a recursive transition network (Woods, "Transition network
// grammars for natural language analysis", CACM 13(10), 1970).
//
// A text is whole where the first rule can return with nothing left to return to.
//
// Thread rule: immutable; const methods from any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "grammar/characters.h"
#include "grammar/expression.h"

namespace coxswain::grammar {

using StateId = std::uint32_t;

// Of programs that are made here or read from somewhere.
inline constexpr std::size_t kProgramStatesMax = 200'000;
inline constexpr std::size_t kProgramEdgesMax = 2'000'000;
// Of to_bytes(), as it travels to a runner.
inline constexpr std::size_t kCompiledBytesMax = 8U << 20;

class Program {
 public:
  struct ByteEdge {
    ByteRange range;
    StateId target = 0;
  };
  struct CallEdge {
    StateId entry = 0;   // first state of the rule
    StateId target = 0;  // where it goes on behind the rule
  };
  struct State {
    std::uint32_t first_byte_edge = 0;
    std::uint32_t first_call_edge = 0;
    std::uint32_t first_jump = 0;
    bool returns = false;  // a rule may end here
  };

  // Reads what to_bytes() wrote. Errors: kInvalidArgument; any byte may be wrong.
  static Result<Program> from_bytes(std::string_view bytes);
  std::string to_bytes() const;

  StateId start() const { return start_; }
  std::size_t n_states() const { return states_.size() - 1; }
  std::size_t n_edges() const { return byte_edges_.size() + call_edges_.size() + jumps_.size(); }
  std::span<const ByteEdge> byte_edges(StateId state) const;
  std::span<const CallEdge> call_edges(StateId state) const;
  std::span<const StateId> jumps(StateId state) const;  // without a byte
  bool returns(StateId state) const { return states_[state].returns; }

 private:
  friend class ProgramGraph;
  Program() = default;

  StateId start_ = 0;
  std::vector<State> states_;  // one more than there are, for the ends of the lists
  std::vector<ByteEdge> byte_edges_;
  std::vector<CallEdge> call_edges_;
  std::vector<StateId> jumps_;
};

// Errors: kResourceExhausted beyond the limits above; kInvalidArgument for a rule that calls itself before it reads a
// byte (left recursion), and for a grammar that no text matches.
Result<Program> compile_program(const Expressions& expressions, Node root);

}  // namespace coxswain::grammar
