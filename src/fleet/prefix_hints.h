#pragma once
// PrefixHints: which replica most probably has the keys and values of a prompt's beginning.
//
// A guess from what was sent where, not from what is cached there: a wrong one costs a prompt that is computed, and
// changes no answer. Prompts are told apart at 64, 128, 256, ... tokens, with salt and adapter, by keyed hashes.
//
// Thread rule: one thread at a time; keys() any thread.

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "batch/engine.h"

namespace coxswain::fleet {

class PrefixHints {
 public:
  // Keys kept, the ones used last.
  explicit PrefixHints(std::size_t keys_max = 16'384) : keys_max_(keys_max) {}

  // One for each beginning of the prompt, the shortest first; empty for a short prompt.
  std::vector<std::uint64_t> keys(const batch::GenerationRequest& request) const;

  struct Known {
    std::size_t replica = 0;
    std::size_t n_tokens = 0;
  };
  // Who got the longest of them last, and how long that is.
  std::optional<Known> longest(const std::vector<std::uint64_t>& keys) const;
  std::optional<std::size_t> replica_of(const std::vector<std::uint64_t>& keys) const {
    const auto known = longest(keys);
    return known ? std::optional(known->replica) : std::nullopt;
  }
  void note(const std::vector<std::uint64_t>& keys, std::size_t replica);
  // The replica has lost what it had.
  void forget(std::size_t replica);
  std::size_t size() const { return known_.size(); }

 private:
  struct Hint {
    std::uint64_t key = 0;
    std::size_t replica = 0;
  };
  const base::HashKey secret_ = base::draw_hash_key();
  const std::size_t keys_max_;
  std::list<Hint> by_use_;  // the latest first
  std::unordered_map<std::uint64_t, std::list<Hint>::iterator> known_;
};

}  // namespace coxswain::fleet
