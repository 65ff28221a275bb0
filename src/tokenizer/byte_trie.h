#pragma once
// ByteTrie: which keys does a text start with?
//
// Built once from sorted keys, children of a node side by side. The walk costs one step for each
// byte of the longest match. Thread rule: immutable after build.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace coxswain::tokenizer {

class ByteTrie {
 public:
  static constexpr std::int32_t kNoValue = -1;

  ByteTrie() = default;
  // Keys must not be empty; of equal keys the last one counts. Values must not be negative.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries);

  bool empty() const { return nodes_.empty(); }
  bool may_start(char first) const { return roots_[static_cast<unsigned char>(first)] != kNoNode; }

  // Calls visit(n_bytes, value) for every key that `text` starts with, shortest first.
  template <typename Visit>
  void visit_prefixes(std::string_view text, Visit visit) const {
    if (text.empty()) return;
    std::uint32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (std::size_t depth = 1; node != kNoNode; ++depth) {
      if (nodes_[node].value != kNoValue) visit(depth, nodes_[node].value);
      if (depth == text.size()) return;
      node = child(node, text[depth]);
    }
  }

 private:
  static constexpr std::uint32_t kNoNode = 0xFFFFFFFF;

  struct Node {
    std::int32_t value = kNoValue;
    std::uint32_t first_child = 0;
    std::uint16_t n_children = 0;
  };

  std::uint32_t child(std::uint32_t node, char label) const {
    const Node& parent = nodes_[node];
    std::uint32_t low = parent.first_child;
    std::uint32_t high = low + parent.n_children;
    const auto wanted = static_cast<unsigned char>(label);
    while (high - low > 8) {
      const std::uint32_t middle = (low + high) / 2;
      (labels_[middle] <= wanted ? low : high) = middle;
    }
    for (; low < high; ++low) {
      if (labels_[low] == wanted) return low;
    }
    return kNoNode;
  }

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // [nodes_]
  std::array<std::uint32_t, 256> roots_ = all_absent();

  static constexpr std::array<std::uint32_t, 256> all_absent() {
    std::array<std::uint32_t, 256> out{};
    for (auto& root : out) root = kNoNode;
    return out;
  }
};

}  // namespace coxswain::tokenizer
