// A tokenizer.json, up to the first NUL, and the text behind it to encode and decode.

#include <string>

#include "fuzz/tokenizer_checks.h"
#include "tokenizer/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = coxswain::fuzz;
  fuzz::Input input(data, size);
  const std::string_view file = input.until_nul();
  if (fuzz::has_long_number(file)) return 0;
  fuzz::check_parts(coxswain::tokenizer::read_tokenizer_json(file), input.rest());
  return 0;
}
