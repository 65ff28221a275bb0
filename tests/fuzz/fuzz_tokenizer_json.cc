// A tokenizer.json of a stranger: loading it, then encoding and decoding text that follows a NUL
// byte.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tokenizer/formats.h"
#include "tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace ct = coxswain::tokenizer;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find('\0');
  auto parts = ct::read_tokenizer_json(input.substr(0, cut));
  if (!parts.ok() || !parts->added.prepare(parts->normalizer.get()).ok()) return 0;
  const ct::PipelineTokenizer tokenizer(std::move(parts).value());
  const std::string_view text =
      cut == std::string_view::npos ? input.substr(0, 256) : input.substr(cut + 1);
  const auto encoding = tokenizer.encode(text, {});
  if (!encoding.ok()) return 0;
  const std::string decoded = tokenizer.decode(encoding->ids, false);
  if (ct::valid_utf8_prefix(decoded) != decoded.size()) std::abort();
  return 0;
}
