#include "sampling/token_counts.h"

#include <algorithm>
#include <array>

namespace coxswain::sampling {
namespace {

// Below this many ids a comparing sort is as quick.
constexpr std::size_t kDigitsWorthwhile = 512;

// By digits from the lowest on, so that the time of a long prompt is linear: this runs inside somebody's step.
void sort_ids(std::vector<TokenId>& ids) {
  if (ids.size() < kDigitsWorthwhile) {
    std::sort(ids.begin(), ids.end());
    return;
  }
  constexpr unsigned kDigitBits = 11;
  constexpr std::uint32_t kDigits = 1U << kDigitBits;
  const auto highest = static_cast<std::uint32_t>(*std::max_element(ids.begin(), ids.end()));
  std::vector<TokenId> sorted(ids.size());
  for (unsigned shift = 0; shift < 32 && (highest >> shift) > 0; shift += kDigitBits) {
    const auto digit = [&](TokenId id) {
      return (static_cast<std::uint32_t>(id) >> shift) % kDigits;
    };
    std::array<std::uint32_t, kDigits> end{};
    for (const TokenId id : ids) ++end[digit(id)];
    std::uint32_t n = 0;
    for (std::uint32_t& e : end) {
      n += e;
      e = n;
    }
    for (std::size_t i = ids.size(); i-- > 0;) sorted[--end[digit(ids[i])]] = ids[i];
    ids.swap(sorted);
  }
}

}  // namespace

void TokenCounts::reset(std::span<const TokenId> prompt, std::size_t n_output_max) {
  std::vector<TokenId> sorted(prompt.begin(), prompt.end());
  sort_ids(sorted);
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
