#pragma once
// Expressions: what the readers of grammars write and compile_program (program.h) reads: bytes, characters, sequences,
// choices, repetitions, and rules that may call each other.
//
// A Node is the number of an expression within its Expressions; one may be used in many places. Nodes simplify as they
// are made: an empty sequence is the empty text, a choice of one is that one, a sequence with a member that matches
// nothing matches nothing.
//
// Thread rule: belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/characters.h"

namespace coxswain::grammar {

using Node = std::uint32_t;
using RuleId = std::uint32_t;

inline constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

class Expressions {
 public:
  enum class Kind : std::uint8_t {
    kNothing,
    kBytes,
    kCharacters,
    kSequence,
    kChoice,
    kRepeat,
    kRule
  };
  struct Entry {
    Kind kind = Kind::kNothing;
    std::string bytes = {};        // kBytes; empty: the empty text
    CharacterSet characters = {};  // kCharacters: one of these, in UTF-8
    std::vector<Node> parts = {};  // kSequence, kChoice; kRepeat: one
    std::uint32_t min = 0;         // kRepeat
    std::uint32_t max = 0;         // kRepeat; kUnbounded
    RuleId rule = 0;               // kRule
  };

  Expressions();

  Node nothing() const { return kNothingNode; }  // matches no text
  Node empty() const { return kEmptyNode; }      // matches the empty text
  Node bytes(std::string_view text);
  Node characters(CharacterSet set);
  Node sequence(std::span<const Node> parts);
  Node sequence(std::initializer_list<Node> parts);
  Node choice(std::span<const Node> parts);
  Node choice(std::initializer_list<Node> parts);
  // `part`, min to max times. REQUIRES: min <= max.
  Node repeat(Node part, std::uint32_t min, std::uint32_t max = kUnbounded);
  Node optional(Node part) { return repeat(part, 0, 1); }

  // A rule may be called before it is defined; one that never is matches nothing.
  RuleId add_rule();
  void define(RuleId rule, Node node);
  Node rule(RuleId rule);

  const Entry& entry(Node node) const { return entries_[node]; }
  Node definition(RuleId rule) const { return rules_[rule]; }
  std::size_t n_rules() const { return rules_.size(); }
  // Limits of memory are the callers' to keep: each node and each byte of its text counts.
  std::size_t size() const { return size_; }

 private:
  static constexpr Node kNothingNode = 0;
  static constexpr Node kEmptyNode = 1;

  Node add(Entry entry);

  std::deque<Entry> entries_;  // entries are large: none is moved
  std::vector<Node> rules_;
  std::size_t size_ = 0;
};

}  // namespace coxswain::grammar
