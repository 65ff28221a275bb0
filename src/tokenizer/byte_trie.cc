#include "tokenizer/byte_trie.h"

#include <algorithm>
#include <string>

namespace coxswain::tokenizer {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  // A node of depth d stands for the keys [begin, end), which agree in d bytes. Breadth first, so
  // that the children of a node are neighbours.
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<Range> level;
  std::vector<std::uint32_t> level_nodes;  // [level]
  const auto append_children = [&](Range range, std::size_t depth, std::vector<Range>& ranges) {
    while (range.begin < range.end && entries[range.begin].first.size() == depth) ++range.begin;
    while (range.begin < range.end) {
      const auto label = static_cast<unsigned char>(entries[range.begin].first[depth]);
      std::size_t end = range.begin + 1;
      while (end < range.end && static_cast<unsigned char>(entries[end].first[depth]) == label)
        ++end;
      Node node;
      for (std::size_t i = range.begin; i < end && entries[i].first.size() == depth + 1; ++i)
        node.value = entries[i].second;
      nodes_.push_back(node);
      labels_.push_back(label);
      ranges.push_back({range.begin, end});
      range.begin = end;
    }
  };
  append_children({0, entries.size()}, 0, level);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    roots_[labels_[i]] = i;
    level_nodes.push_back(i);
  }
  for (std::size_t depth = 1; !level.empty(); ++depth) {
    std::vector<Range> next;
    std::vector<std::uint32_t> next_nodes;
    for (std::size_t i = 0; i < level.size(); ++i) {
      const auto first = static_cast<std::uint32_t>(nodes_.size());
      append_children(level[i], depth, next);
      nodes_[level_nodes[i]].first_child = first;
      nodes_[level_nodes[i]].n_children = static_cast<std::uint16_t>(nodes_.size() - first);
      for (auto node = first; node < nodes_.size(); ++node) next_nodes.push_back(node);
    }
    level = std::move(next);
    level_nodes = std::move(next_nodes);
  }
}

}  // namespace coxswain::tokenizer
