#include "sampling/thought_budget.h"

#include <algorithm>
#include <span>

namespace coxswain::sampling {
namespace {

// How much of `word` a text ends with that ended with `n_matched` of it, less than all, and goes on with `id`.
std::size_t matched_behind(std::span<const TokenId> word, std::size_t n_matched, TokenId id) {
  for (std::size_t n = n_matched + 1; n > 0; --n) {
    const auto before = word.first(n - 1);
    const auto tail = word.first(n_matched).last(n - 1);
    if (word[n - 1] == id && std::ranges::equal(before, tail)) return n;
  }
  return 0;
}

}  // namespace

void ThoughtState::add(TokenId id) {
  if (place_ == Place::kBehind) return;
  const auto& word = place_ == Place::kBefore ? budget_.open : budget_.close;
  n_matched_ = matched_behind(word, n_matched_, id);
  if (place_ == Place::kWithin) ++n_tokens_;
  if (n_matched_ < word.size()) return;
  n_matched_ = 0;
  place_ = place_ == Place::kBefore ? Place::kWithin : Place::kBehind;
}

std::optional<TokenId> ThoughtState::forced() const {
  if (place_ != Place::kWithin || n_tokens_ < budget_.tokens_max) return std::nullopt;
  return budget_.close[n_matched_];
}

}  // namespace coxswain::sampling
