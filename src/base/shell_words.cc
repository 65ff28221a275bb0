#include "base/shell_words.h"

namespace coxswain::base {

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=,./:@+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  const auto add = [&](char c) {
    if (!in_word) words.emplace_back();
    in_word = true;
    words.back() += c;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool has_next = i + 1 < text.size();
    if (c == '\\' && quote != '\'' && has_next) {
      const char next = text[++i];
      const bool is_kept =
          quote == '"' && next != '"' && next != '\\' && next != '$' && next != '\n';
      if (is_kept) add(c);
      if (next != '\n') add(next);
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        add(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      in_word = false;
    } else if (c == '#' && !in_word) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else {
      add(c);
    }
  }
  return words;
}

}  // namespace coxswain::base
