// Grammars written as rules, in either language, and what they become.
//
// Whether a text is read as GBNF or as Lark's language is its own to say; both readers are tried on each.

#include <string>
#include <string_view>

#include "fuzz/grammar_checks.h"
#include "grammar/compiler.h"
#include "grammar/ebnf.h"

namespace {

using coxswain::fuzz::require;
namespace grammar = coxswain::grammar;

constexpr std::size_t kSourceMax = 4096;
constexpr std::size_t kWalkMax = 16;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kSourceMax) return 0;
  const std::string_view text = coxswain::fuzz::Input(data, size).rest();
  auto program =
      grammar::compile({.kind = grammar::Source::Kind::kRules, .text = std::string(text)});
  coxswain::fuzz::Draw draw(size);
  if (coxswain::fuzz::travels(program)) {
    const auto walk = coxswain::fuzz::walk(*std::move(program), draw, kWalkMax);
    require(walk.is_whole || !walk.is_at_end, "a text can go on or stop");
  }
  for (const auto read : {grammar::parse_gbnf, grammar::parse_lark}) {
    grammar::Expressions expressions;
    const auto root = read(expressions, text);
    if (root.ok()) continue;
    require(root.status().message().starts_with("line "), "an error names its line");
  }
  return 0;
}
