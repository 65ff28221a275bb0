#include "sampling/token_counts.h"

#include <algorithm>

namespace coxswain::sampling {

void TokenCounts::reset(std::span<const TokenId> prompt, std::size_t n_output_max) {
  std::vector<TokenId> sorted(prompt.begin(), prompt.end());
  std::sort(sorted.begin(), sorted.end());
  entries_.clear();
  for (const TokenId id : sorted) {
    if (entries_.empty() || entries_.back().id != id) entries_.push_back({.id = id});
    ++entries_.back().in_context;
  }
  entries_.reserve(entries_.size() + n_output_max);
  context_length_ = prompt.size();
}

void TokenCounts::add(TokenId id) {
  auto at =
      std::lower_bound(entries_.begin(), entries_.end(), id, [](const Entry& e, TokenId value) {
        return e.id < value;
      });
  if (at == entries_.end() || at->id != id) at = entries_.insert(at, {.id = id});
  ++at->in_context;
  ++at->in_output;
  ++context_length_;
}

}  // namespace coxswain::sampling
