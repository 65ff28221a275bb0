#pragma once
// Lists of words separated by '|', as the option table writes them.
//
// Thread rule: pure functions.

#include <algorithm>
#include <string_view>
#include <vector>

namespace coxswain::options {

inline std::vector<std::string_view> split_words(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t bar = std::min(list.find('|'), list.size());
    words.push_back(list.substr(0, bar));
    list.remove_prefix(std::min(bar + 1, list.size()));
  }
  return words;
}

inline bool has_word(std::string_view list, std::string_view word) {
  const auto words = split_words(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace coxswain::options
