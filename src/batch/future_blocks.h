#pragma once
// FutureBlocks: the most blocks that sequences will take beyond those that they hold, while each of them produces a
// token a step and gives back what it holds when it ends. To look at the peak of the steps to come is the idea of the
// Past-Future scheduler (Gong et al., ASPLOS 2025); the forecast of lengths is not part of this.
//
// A prompt takes its blocks as it is computed, so that of prompts which are not yet, only what the steps until then can
// compute is held when others end: blocks that come back in time need not be free now.
//
// Blocks are counted as n_tokens / block_tokens and a half. Adding is O(n), as is the peak. Thread rule: one thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::batch {

class FutureBlocks {
 public:
  struct Use {
    std::uint32_t n_steps = 0;   // until it ends
    std::uint32_t n_tokens = 0;  // that it holds, or will without producing any
    std::uint32_t n_blocks = 0;  // that it holds
    std::uint32_t n_freed = 0;   // of these, that come back when it ends
    std::uint32_t n_tables = 1;  // each of so many tokens; the blocks are those of all
    std::uint32_t n_prompt = 0;  // blocks beyond n_blocks that it takes when its prompt is computed
    friend bool operator==(const Use&, const Use&) = default;
  };

  // `prompt_tokens`: of all prompts, that a step computes at most.
  FutureBlocks(std::uint32_t block_tokens, std::uint32_t prompt_tokens)
      : block_tokens_(block_tokens), prompt_blocks_(1.0 * prompt_tokens / block_tokens) {}

  // Of many: add() each, then sort().
  void add(const Use& use) { uses_.push_back(use); }
  void sort() { std::ranges::stable_sort(uses_, {}, &Use::n_steps); }
  void insert(const Use& use) {
    uses_.insert(std::ranges::upper_bound(uses_, use.n_steps, {}, &Use::n_steps), use);
  }
  // One that is equal. REQUIRES: there is one.
  void erase(const Use& use) { uses_.erase(std::ranges::find(uses_, use)); }
  bool empty() const { return uses_.empty(); }

  // Never below 0. REQUIRES: in order.
  double peak() const {
    double peak = 0;
    double freed = 0;
    double growth = 0;  // of those that have not ended, at step 0
    for (const Use& u : uses_) growth += growth_of(u);
    double n_left = 0;
    for (const Use& u : uses_) n_left += u.n_tables;
    double n_prompt = 0;
    for (const Use& u : uses_) n_prompt += u.n_prompt;
    for (const Use& u : uses_) {
      const double later = std::max(0.0, n_prompt - prompt_blocks_ * (u.n_steps + 1));
      peak = std::max(peak, growth + n_left * u.n_steps / block_tokens_ - freed - later);
      growth -= growth_of(u);
      freed += u.n_freed;
      n_left -= u.n_tables;
    }
    return peak;
  }

 private:
  double growth_of(const Use& u) const {
    return u.n_tables * (static_cast<double>(u.n_tokens) / block_tokens_ + 0.5) - u.n_blocks;
  }

  double block_tokens_;
  double prompt_blocks_;
  std::vector<Use> uses_;  // by n_steps, once they are in order
};

}  // namespace coxswain::batch
