#pragma once
// CharacterAutomaton: a regular language over characters as a deterministic automaton: what expressions cannot say, the
// intersection and the complement of patterns, lengths and lists of texts.
//
// Errors of every function that returns a Result: kResourceExhausted beyond kAutomatonStatesMax states, or where too
// many ranges of characters would have to be looked at.
// Thread rule: plain values.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "grammar/characters.h"
#include "grammar/expression.h"

namespace coxswain::grammar {

inline constexpr std::size_t kAutomatonStatesMax = 4'000;

class CharacterAutomaton {
 public:
  enum class Match : std::uint8_t { kWhole, kAnywhere };

  static CharacterAutomaton all();
  // Errors: also parse_regex's.
  static Result<CharacterAutomaton> of_pattern(std::string_view pattern, Match match);
  static Result<CharacterAutomaton> of_texts(std::span<const std::string> texts);
  static Result<CharacterAutomaton> of_lengths(std::uint32_t min, std::uint32_t max);

  CharacterAutomaton complement() const;
  Result<CharacterAutomaton> intersection(const CharacterAutomaton& other) const;
  bool accepts(std::string_view text) const;
  bool is_empty() const;
  std::size_t n_states() const { return states_.size(); }

  // The texts, with their characters spelled so.
  Node write(Expressions& expressions, const std::function<Node(const CharacterSet&)>& spell) const;

 private:
  // Characters without an edge lead nowhere. The sets of a state's edges are disjoint.
  struct State {
    std::vector<std::pair<CharacterSet, std::uint32_t>> edges = {};
    bool accepts = false;
  };
  friend class Determinizer;

  std::vector<State> states_;  // the first is where it begins
};

}  // namespace coxswain::grammar
