#pragma once
// Lists of words separated by '|', as the option table writes them, and words of users in error lines.
//
// Thread rule: pure functions.

#include <algorithm>
#include <cstddef>
#include <string>
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

// Outside text in an error line: printable and short.
inline std::string shown(std::string_view text) {
  constexpr std::size_t kCharactersMax = 64;
  std::string out;
  for (const char c : text.substr(0, kCharactersMax)) out += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kCharactersMax) out += "...";
  return out;
}

inline bool has_word(std::string_view list, std::string_view word) {
  const auto words = split_words(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace coxswain::options
