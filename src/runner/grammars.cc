#include "runner/grammars.h"

#include <algorithm>
#include <string>
#include <utility>

#include "request/sampling_rules.h"

namespace coxswain::runner {
namespace {

static_assert(request::kGrammarBytesMax == grammar::kCompiledBytesMax);

// What is kept beside what sequences use; each takes some MiB once its masks are made.
constexpr std::size_t kEntriesMax = 32;

}  // namespace

Grammars::Grammars(const TextCodec& codec, std::size_t vocab_size)
    : trie_(std::async(std::launch::async, [&codec, vocab_size] {
        return std::make_shared<const grammar::TokenTrie>(vocab_size, [&](TokenId id) {
          return codec.is_special(id) ? grammar::kSpecialToken + codec.token_text(id)
                                      : codec.token_bytes(id);
        });
      })) {}

Result<std::shared_ptr<const grammar::TokenMasks>> Grammars::open(const CompiledGrammar& grammar) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.grammar == grammar;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return found->masks;
  }
  if (grammar.size() > grammar::kCompiledBytesMax) {
    return invalid_argument("the compiled grammar has " + std::to_string(grammar.size()) +
                                " bytes; at most " + std::to_string(grammar::kCompiledBytesMax) +
                                " are allowed",
                            "grammar");
  }
  auto program = grammar::Program::from_bytes(*grammar.bytes);
  if (!program.ok()) return invalid_argument(program.status().message(), "grammar");
  auto masks = std::make_shared<const grammar::TokenMasks>(std::move(program).value(), trie_.get());
  entries_.push_front({grammar, masks});
  if (entries_.size() > kEntriesMax) entries_.pop_back();
  return masks;
}

}  // namespace coxswain::runner
