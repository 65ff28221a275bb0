#pragma once
// MaskStore: what grammars over one vocabulary have in common.
//
// Most of a mask hangs on the rule that a text stands in, and little on what comes behind the rule: within a JSON
// string nearly all tokens may follow, whatever the string is the value of. A core is that part: the tokens that stay
// within a rule, and where in the tree of tokens it has been left. Cores are found by what their part of the automaton
// is, so a grammar finds those that others have made.
//
// Thread rule: methods from any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "base/mutex.h"

namespace coxswain::grammar {

// A bit for each token of the vocabulary, the lowest id in the lowest bit of the first word.
using TokenMask = std::vector<std::uint64_t>;

struct CoreMask {
  TokenMask allowed = {};
  // Nodes of the tree with children behind which the rule can have ended, ascending; none if they are most of the tree.
  std::vector<std::uint32_t> exits = {};
  std::size_t n_behind = 0;  // nodes below those
};

class MaskStore {
 public:
  // `signature`: the automaton from where the text stands, states numbered as they are reached.
  std::shared_ptr<const CoreMask> find(const std::string& signature) const EXCLUDES(mu_);
  void add(std::string signature, std::shared_ptr<const CoreMask> core) EXCLUDES(mu_);

 private:
  mutable base::Mutex mu_;
  std::unordered_map<std::string, std::shared_ptr<const CoreMask>, base::KeyedHash, std::equal_to<>>
      cores_ GUARDED_BY(mu_);
};

}  // namespace coxswain::grammar
