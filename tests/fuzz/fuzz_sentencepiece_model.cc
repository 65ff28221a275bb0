// A SentencePiece model of a stranger: loading it, then encoding and decoding its own bytes as
// text.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tokenizer/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace ct = coxswain::tokenizer;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  auto parts = ct::read_sentencepiece(input, true);
  if (!parts.ok() || !parts->added.prepare(parts->normalizer.get()).ok()) return 0;
  const ct::PipelineTokenizer tokenizer(std::move(parts).value());
  const auto encoding = tokenizer.encode(input.substr(0, 256), {});
  if (encoding.ok()) tokenizer.decode(encoding->ids, true);
  return 0;
}
