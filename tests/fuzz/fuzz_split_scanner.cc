// Split scanners against PCRE2 on any text. The first byte chooses the scanner.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace ct = coxswain::tokenizer;
  if (size < 1) return 0;
  constexpr unsigned kScanners = static_cast<unsigned>(ct::SplitScanner::kThreeAsciiDigits) + 1;
  const auto scanner = static_cast<ct::SplitScanner>(data[0] % kScanners);
  std::string text;
  ct::append_lossy(text, std::string_view(reinterpret_cast<const char*>(data), size).substr(1));
  // Characters whose category the two libraries' Unicode versions may see differently are no
  // finding.
  for (std::size_t at = 0; at < text.size(); at += ct::code_point_at(text, at).n_bytes) {
    if ((ct::char_class(ct::code_point_at(text, at).value) & ct::kClassControl) != 0 &&
        static_cast<unsigned char>(text[at]) >= 0x80)
      return 0;
  }
  const auto regex = ct::Regex::compile(ct::scanner_pattern(scanner));
  const auto found = regex->find_all(text);
  if (!found.ok()) return 0;
  std::vector<ct::PieceRange> got;
  ct::scan(scanner, text, 0, got);
  if (got.size() != found->size()) std::abort();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].begin != (*found)[i].begin || got[i].end != (*found)[i].end) std::abort();
  }
  return 0;
}
