// A stream against decoding at once: each two bytes of the input are an id.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/formats.h"
#include "tokenizer/unicode.h"

namespace {

namespace ct = coxswain::tokenizer;

// Byte-fallback tokens, words with and without blanks, and a special token.
std::string document() {
  std::string vocab = R"("<unk>": 0, "▁a": 1, "b": 2, "▁": 3, "é": 4)";
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    vocab += ", \"<0x" +
             std::string{kDigits[static_cast<std::size_t>(byte / 16)],
                         kDigits[static_cast<std::size_t>(byte % 16)]} +
             ">\": " + std::to_string(5 + byte);
  }
  return R"({"model": {"type": "BPE", "merges": [], "byte_fallback": true, "vocab": {)" + vocab +
         R"(}}, "added_tokens": [{"id": 0, "content": "<unk>", "special": true}], "decoder": {"type": "Sequence", "decoders": [
         {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
         {"type": "Strip", "content": " ", "start": 1, "stop": 1}, {"type": "Replace", "pattern": {"String": "bb"}, "content": "c"}]}})";
}

std::unique_ptr<ct::PipelineTokenizer> make_tokenizer() {
  auto parts = ct::read_tokenizer_json(document());
  if (!parts.ok() || !parts->added.prepare(nullptr).ok()) std::abort();
  return std::make_unique<ct::PipelineTokenizer>(std::move(parts).value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<ct::PipelineTokenizer> tokenizer = make_tokenizer();
  std::vector<coxswain::TokenId> ids;
  for (std::size_t i = 0; i + 1 < size; i += 2) ids.push_back((data[i] * 256 + data[i + 1]) % 264);
  const auto stream = tokenizer->incremental({}, true);
  std::string text;
  for (const coxswain::TokenId id : ids) {
    const std::string piece = stream->push(id);
    if (ct::valid_utf8_prefix(piece) != piece.size()) std::abort();
    text += piece;
  }
  text += stream->finish();
  if (text != tokenizer->decode(ids, true)) std::abort();
  return 0;
}
