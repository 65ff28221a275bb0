#include "grammar/expression.h"

#include <cassert>
#include <utility>

namespace coxswain::grammar {

Expressions::Expressions() {
  entries_.push_back({});
  entries_.push_back({.kind = Kind::kBytes});
}

Node Expressions::add(Entry entry) {
  size_ += 1 + entry.bytes.size() + entry.parts.size() + entry.characters.ranges().size();
  entries_.push_back(std::move(entry));
  return static_cast<Node>(entries_.size() - 1);
}

Node Expressions::bytes(std::string_view text) {
  if (text.empty()) return kEmptyNode;
  return add({.kind = Kind::kBytes, .bytes = std::string(text)});
}

Node Expressions::characters(CharacterSet set) {
  if (set.empty()) return kNothingNode;
  return add({.kind = Kind::kCharacters, .characters = std::move(set)});
}

Node Expressions::sequence(std::span<const Node> parts) {
  std::vector<Node> kept;
  for (const Node part : parts) {
    if (part == kNothingNode) return kNothingNode;
    if (part != kEmptyNode) kept.push_back(part);
  }
  if (kept.empty()) return kEmptyNode;
  if (kept.size() == 1) return kept.front();
  return add({.kind = Kind::kSequence, .parts = std::move(kept)});
}

Node Expressions::sequence(std::initializer_list<Node> parts) {
  return sequence(std::span(parts.begin(), parts.size()));
}

Node Expressions::choice(std::span<const Node> parts) {
  std::vector<Node> kept;
  for (const Node part : parts) {
    if (part != kNothingNode) kept.push_back(part);
  }
  if (kept.empty()) return kNothingNode;
  if (kept.size() == 1) return kept.front();
  return add({.kind = Kind::kChoice, .parts = std::move(kept)});
}

Node Expressions::choice(std::initializer_list<Node> parts) {
  return choice(std::span(parts.begin(), parts.size()));
}

Node Expressions::repeat(Node part, std::uint32_t min, std::uint32_t max) {
  assert(min <= max);
  if (max == 0 || part == kEmptyNode) return kEmptyNode;
  if (part == kNothingNode) return min == 0 ? kEmptyNode : kNothingNode;
  if (min == 1 && max == 1) return part;
  return add({.kind = Kind::kRepeat, .parts = {part}, .min = min, .max = max});
}

RuleId Expressions::add_rule() {
  rules_.push_back(kNothingNode);
  return static_cast<RuleId>(rules_.size() - 1);
}

void Expressions::define(RuleId rule, Node node) {
  rules_[rule] = node;
}

Node Expressions::rule(RuleId rule) {
  assert(rule < rules_.size());
  return add({.kind = Kind::kRule, .rule = rule});
}

}  // namespace coxswain::grammar
