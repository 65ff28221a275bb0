#pragma once
// ThoughtState: where an output stands in its block of thoughts (SamplingParams::thoughts), and which token has to
// come next so that the block closes in time.
//
// A pure function of the budget and the output ids. Only the first block counts: it begins with the output, or behind
// the first `open`, and ends with the first `close` in it. Once it has tokens_max tokens, the next are those of
// `close`, from behind the part of it that the block already ends with.
//
// Thread rule: belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <coxswain/types.h>

namespace coxswain::sampling {

class ThoughtState {
 public:
  // REQUIRES: `close` is not empty.
  explicit ThoughtState(ThoughtBudget budget)
      : budget_(std::move(budget)),
        place_(budget_.open.empty() ? Place::kWithin : Place::kBefore) {}

  void add(TokenId id);
  std::optional<TokenId> forced() const;

 private:
  enum class Place : std::uint8_t { kBefore, kWithin, kBehind };

  ThoughtBudget budget_;
  Place place_;
  std::size_t n_matched_ = 0;  // of `open` before the block, of `close` within it
  std::size_t n_tokens_ = 0;   // of the block
};

}  // namespace coxswain::sampling
