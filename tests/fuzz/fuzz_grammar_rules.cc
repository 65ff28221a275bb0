// Grammars written as rules, in either language, and what they become.
//
// Whether a text is read as GBNF or as Lark's language is its own to say; both readers are tried on each.

#include <memory>
#include <string>
#include <string_view>

#include "fuzz/fuzz_input.h"
#include "grammar/compiler.h"
#include "grammar/ebnf.h"
#include "grammar/token_masks.h"

namespace {

using coxswain::TokenId;
using coxswain::fuzz::require;
namespace grammar = coxswain::grammar;

constexpr std::size_t kSourceMax = 4096;
constexpr std::size_t kWalkMax = 16;

// Goes where the masks lead: what they allow can be read.
void walk(grammar::Program program) {
  const auto trie = std::make_shared<const grammar::TokenTrie>(
      256, [](TokenId id) { return std::string(1, static_cast<char>(id)); });
  const grammar::TokenMasks masks(std::move(program), trie);
  auto at = masks.begin();
  for (std::size_t i = 0; i < kWalkMax; ++i) {
    const auto mask = masks.mask(at);
    if (!mask.ok()) return;  // in too many states at once
    TokenId next = -1;
    for (TokenId id = 0; id < 256; ++id) {
      const auto word = (**mask)[static_cast<std::size_t>(id) / 64];
      if (((word >> (id % 64)) & 1) != 0) next = id;
    }
    require(next >= 0 || masks.is_whole(at), "a text can go on or stop");
    if (next < 0) return;
    require(masks.advance(at, next), "what the mask allows can be read");
  }
}

void check(const coxswain::Result<grammar::Program>& program) {
  if (!program.ok()) return require(!program.status().message().empty(), "an error says why");
  const std::string bytes = program->to_bytes();
  const auto again = grammar::Program::from_bytes(bytes);
  require(again.ok() && again->to_bytes() == bytes, "a program travels");
  walk(*again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kSourceMax) return 0;
  const std::string_view text = coxswain::fuzz::Input(data, size).rest();
  check(grammar::compile({.kind = grammar::Source::Kind::kRules, .text = std::string(text)}));
  for (const auto read : {grammar::parse_gbnf, grammar::parse_lark}) {
    grammar::Expressions expressions;
    const auto root = read(expressions, text);
    if (root.ok()) continue;
    require(root.status().message().starts_with("line "), "an error names its line");
  }
  return 0;
}
