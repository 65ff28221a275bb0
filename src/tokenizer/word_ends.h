#pragma once
// Cutting a text whose blanks are written as U+2581 before the blanks that follow another character.
//
// No merge crosses such a place if no token has a blank after another character, so words can be
// merged (and remembered) one by one with the same result. Thread rule: pure functions.

#include <string_view>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {

// Whether a blank stands after another character somewhere in the token.
inline bool crosses_words(std::string_view token) {
  for (std::size_t at = token.find(kMetaspaceUtf8); at != std::string_view::npos;
       at = token.find(kMetaspaceUtf8, at + 1)) {
    if (at > 0 && !token.substr(0, at).ends_with(kMetaspaceUtf8)) return true;
  }
  return false;
}

template <typename Visit>
void for_each_word(std::string_view text, Visit visit) {
  constexpr std::size_t kBlankBytes = kMetaspaceUtf8.size();
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t found = text.find(kMetaspaceUtf8, at);
    if (found == std::string_view::npos) break;
    // Inside a run of blanks the word has not ended.
    const bool is_run =
        found >= kBlankBytes && text.substr(found - kBlankBytes, kBlankBytes) == kMetaspaceUtf8;
    if (!is_run && found > begin) {
      visit(text.substr(begin, found - begin));
      begin = found;
    }
    at = found + kBlankBytes;
  }
  if (begin < text.size()) visit(text.substr(begin));
}

}  // namespace coxswain::tokenizer
