#include <algorithm>

#include "tokenizer/model.h"

namespace coxswain::tokenizer {

void WordCache::store(std::string_view word,
                      std::uint64_t hash,
                      std::span<const PieceToken> tokens) {
  if (tokens.size() > kTokensMax) return;
  if (entries_.empty()) entries_.resize(kEntries);
  Entry& entry = entries_[hash & (kEntries - 1)];
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::ranges::copy(tokens, entry.tokens.begin());
  entry.n_bytes = static_cast<std::uint8_t>(word.size());
  entry.n_tokens = static_cast<std::uint8_t>(tokens.size());
}

}  // namespace coxswain::tokenizer
