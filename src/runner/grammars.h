#pragma once
// Grammars: the compiled grammars of a runner's sequences, over its vocabulary.
//
// Sequences of the same grammar share its tables. The tree of the vocabulary is made from the beginning on, by a thread
// of its own, so that no step waits for it.
//
// Thread rule: belongs to one thread; what open() returns may go to any.

#include <cstddef>
#include <future>
#include <list>
#include <memory>

#include <coxswain/status.h>
#include <coxswain/text_codec.h>
#include <coxswain/types.h>

#include "grammar/token_masks.h"

namespace coxswain::runner {

class Grammars {
 public:
  // `codec` outlives this. `vocab_size`: of the model; ids that the codec does not have are never allowed.
  Grammars(const TextCodec& codec, std::size_t vocab_size);

  // REQUIRES: `grammar` is not empty.
  // Errors: kInvalidArgument, field `grammar`, for bytes that are no compiled grammar.
  Result<std::shared_ptr<const grammar::TokenMasks>> open(const CompiledGrammar& grammar);

 private:
  struct Entry {
    CompiledGrammar grammar;
    std::shared_ptr<const grammar::TokenMasks> masks;
  };

  std::shared_future<std::shared_ptr<const grammar::TokenTrie>> trie_;
  std::list<Entry> entries_;  // the one used last in front
};

}  // namespace coxswain::runner
