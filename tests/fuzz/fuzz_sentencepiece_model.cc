// A SentencePiece model. First byte: bit 0 = control pieces are found in the text, the other bits
// = 4 bytes of text each at the end of the input.

#include <string>

#include "fuzz/tokenizer_checks.h"
#include "tokenizer/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = coxswain::fuzz;
  fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  const std::size_t n_text = std::min<std::size_t>(flags / 2 * 4, input.rest().size());
  const std::string_view file = input.rest().substr(0, input.rest().size() - n_text);
  const std::string_view text = input.rest().substr(file.size());
  fuzz::check_parts(coxswain::tokenizer::read_sentencepiece(file, (flags & 1) != 0), text);
  return 0;
}
