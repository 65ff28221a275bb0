#include "tokenizer/gguf_splits.h"

#include <array>

#include "tokenizer/split_scanner.h"

namespace coxswain::tokenizer {
namespace {

// Letters with case, as DeepSeek-LLM's files list them.
constexpr std::string_view kCasedLetters =
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-)"
    R"(\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-)"
    R"(\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-)"
    R"(\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{3B9}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-)"
    R"(\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{3A9}\x{2128}K-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-)"
    R"(\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-)"
    R"(\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";

constexpr std::string_view kIdeographs = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

constexpr std::string_view kOneNumber = R"(\p{N})";

std::string pattern_of(SplitScanner scanner) {
  return std::string(scanner_pattern(scanner));
}

struct Row {
  std::string_view names;  // each between blanks; the first is the one that is written
  GgufSplit split;
};

const std::array<Row, 12>& rows() {
  static const std::string gpt2 = pattern_of(SplitScanner::kGpt2);
  static const std::array<Row, 12> all{{
      {" llama-bpe llama3 llama-v3 falcon3 pixtral glm4 ",
       {{pattern_of(SplitScanner::kCl100k)}, true}},
      {" dbrx smaug-bpe chatglm-bpe grok-2 ", {{pattern_of(SplitScanner::kCl100k)}}},
      {" qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez ",
       {{pattern_of(SplitScanner::kCl100kOneDigit)}}},
      {" gpt-2 phi-2 mpt olmo jais trillion granite-docling roberta-bpe jina-es jina-de gigachat "
       "jina-v2-es jina-v2-de ",
       {{gpt2}}},
      {" smollm starcoder refact command-r codeshell exaone minerva-7b ",
       {{std::string(kOneNumber), gpt2}}},
      {" falcon ", {{R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, "[0-9][0-9][0-9]"}}},
      {" gpt-4o llama4 o200k ", {{pattern_of(SplitScanner::kO200k)}, true}},
      {" tekken ", {{pattern_of(SplitScanner::kTekken)}, true}},
      {" deepseek-v3 hunyuan-dense ",
       {{pattern_of(SplitScanner::kThreeNumbers),
         pattern_of(SplitScanner::kCjkRuns),
         pattern_of(SplitScanner::kDeepseekWords)}}},
      {" deepseek-coder ",
       {{"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", std::string(kIdeographs), R"(\p{N})"}}},
      {" deepseek-llm ",
       {{"[\r\n]",
         R"(\s?[)" + std::string(kCasedLetters) + "]+",
         R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
         R"(\s+$)",
         std::string(kIdeographs),
         R"(\p{N}+)"}}},
      {" default ", {{R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}}},
  }};
  return all;
}

}  // namespace

std::optional<GgufSplit> find_gguf_split(std::string_view name) {
  const std::string wanted = " " + std::string(name) + " ";
  for (const Row& row : rows()) {
    if (row.names.find(wanted) != std::string_view::npos) return row.split;
  }
  return std::nullopt;
}

std::string_view gguf_split_name(const GgufSplit& split) {
  const Row* found = nullptr;
  for (const Row& row : rows()) {
    if (row.split.patterns != split.patterns) continue;
    if (found == nullptr || row.split.ignores_merges == split.ignores_merges) found = &row;
  }
  return found == nullptr ? std::string_view()
                          : found->names.substr(1, found->names.find(' ', 1) - 1);
}

}  // namespace coxswain::tokenizer
