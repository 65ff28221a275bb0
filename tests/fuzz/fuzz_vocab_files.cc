// The older forms of a vocabulary, by the first byte: a rank file, vocab.json with merges.txt, or
// vocab.txt. Parts of the input end at a NUL: the vocabulary, the merges (of the second form), then
// a tokenizer_config.json, which is applied to what was read.

#include <string>

#include "fuzz/tokenizer_checks.h"
#include "json/json.h"
#include "tokenizer/formats.h"

namespace {

using coxswain::Result;
using coxswain::tokenizer::TokenizerParts;
namespace json = coxswain::json;

Result<TokenizerParts> read(std::uint8_t form,
                            std::string_view vocabulary,
                            std::string_view merges,
                            const json::Value& config) {
  switch (form % 3) {
    case 0:
      return coxswain::tokenizer::read_tiktoken(vocabulary, {});
    case 1:
      return coxswain::tokenizer::read_vocab_and_merges(vocabulary, merges, config);
    default:
      return coxswain::tokenizer::read_vocab_txt(vocabulary, config);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = coxswain::fuzz;
  fuzz::Input input(data, size);
  const std::uint8_t form = input.byte();
  const std::string_view vocabulary = input.until_nul();
  const std::string_view merges = form % 3 == 1 ? input.until_nul() : std::string_view();
  if (fuzz::has_long_number(vocabulary) || fuzz::has_long_number(input.rest())) return 0;
  const auto parsed = json::parse(input.rest());
  const json::Value config = parsed.ok() ? *parsed : json::Value();
  auto parts = read(form, vocabulary, merges, config);
  if (parts.ok() && config.is_object()) {
    const coxswain::Status applied = coxswain::tokenizer::apply_tokenizer_config(config, *parts);
    fuzz::require(applied.ok() || !applied.message().empty(), "an error says why");
  }
  fuzz::check_parts(std::move(parts), {});
  return 0;
}
