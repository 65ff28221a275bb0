// Compiled grammars, as they come to a runner, and a text that is walked through them.
//
// First part, to a NUL: the text. The rest: the program.

#include <string>
#include <string_view>

#include "fuzz/grammar_checks.h"
#include "grammar/program.h"

namespace {

using coxswain::TokenId;
using coxswain::fuzz::require;
namespace grammar = coxswain::grammar;

constexpr std::size_t kTextMax = 64;
constexpr std::size_t kProgramMax = 4096;
constexpr std::size_t kWalkMax = 4;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const std::string_view text = input.until_nul().substr(0, kTextMax);
  if (input.rest().size() > kProgramMax) return 0;
  auto program = grammar::Program::from_bytes(input.rest());
  if (!program.ok()) {
    require(!program.status().message().empty(), "an error says why");
    return 0;
  }
  require(grammar::Program::from_bytes(program->to_bytes()).ok(), "what was read can be written");
  coxswain::fuzz::Draw draw(text.size());
  coxswain::fuzz::walk(*program, draw, kWalkMax);
  const grammar::TokenMasks masks(*std::move(program), coxswain::fuzz::small_vocabulary());
  auto by_bytes = masks.begin();
  auto by_tokens = masks.begin();
  for (const char c : text) {
    const TokenId token = static_cast<unsigned char>(c);
    const auto mask = masks.mask(by_tokens);
    const bool goes_on = masks.advance(by_tokens, token);
    require(masks.advance(by_bytes, std::string_view(&c, 1)) == goes_on, "a byte is its token");
    if (mask.ok())
      require(coxswain::fuzz::allows(**mask, token) == goes_on, "the mask says what can be read");
    require(masks.is_whole(by_bytes) == masks.is_whole(by_tokens), "both stand at one place");
  }
  return 0;
}
