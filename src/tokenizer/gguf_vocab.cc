// Reads the vocabulary of a GGUF file (ggml's docs/gguf.md): the keys tokenizer.ggml.*.
//
// The key "pre" names how a byte-level text is split. The names and their patterns are those of the
// programs that write such files; a name that is not in the table below is an error.

#include <array>
#include <span>
#include <utility>

#include "gguf/header.h"
#include "tokenizer/bpe.h"
#include "tokenizer/formats.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/piece_models.h"
#include "tokenizer/unicode.h"
#include "tokenizer/wordpiece.h"

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

std::string pattern_of(SplitScanner scanner) {
  return std::string(scanner_pattern(scanner));
}

std::vector<std::string> patterns_of(std::string_view pre) {
  const std::string gpt2 = pattern_of(SplitScanner::kGpt2);
  struct Row {
    std::string_view names;  // each between blanks
    std::vector<std::string> patterns;
  };
  const std::array<Row, 11> rows{{
      {" llama-bpe llama3 llama-v3 falcon3 pixtral dbrx smaug-bpe chatglm-bpe glm4 grok-2 ",
       {pattern_of(SplitScanner::kCl100k)}},
      {" qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez ",
       {pattern_of(SplitScanner::kCl100kOneDigit)}},
      {" gpt-2 phi-2 mpt olmo jais trillion granite-docling roberta-bpe jina-es jina-de gigachat "
       "jina-v2-es jina-v2-de ",
       {gpt2}},
      {" starcoder refact command-r smollm codeshell exaone minerva-7b ",
       {pattern_of(SplitScanner::kThreeNumbers).substr(0, 5), gpt2}},
      {" falcon ", {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, "[0-9][0-9][0-9]"}},
      {" gpt-4o llama4 o200k ", {pattern_of(SplitScanner::kO200k)}},
      {" tekken ", {pattern_of(SplitScanner::kTekken)}},
      {" deepseek-v3 hunyuan-dense ",
       {pattern_of(SplitScanner::kThreeNumbers),
        pattern_of(SplitScanner::kCjkRuns),
        pattern_of(SplitScanner::kDeepseekWords)}},
      {" deepseek-coder ",
       {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", std::string(kIdeographs), R"(\p{N})"}},
      {" deepseek-llm ",
       {"[\r\n]",
        R"(\s?[)" + std::string(kCasedLetters) + "]+",
        R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
        R"(\s+$)",
        std::string(kIdeographs),
        R"(\p{N}+)"}},
      {" default ", {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  }};
  const std::string wanted = " " + std::string(pre) + " ";
  for (const Row& row : rows) {
    if (row.names.find(wanted) != std::string_view::npos) return row.patterns;
  }
  return {};
}

Status damaged(const std::string& what) {
  return {Code::kDataLoss, "GGUF header: " + what};
}

// The keys tokenizer.ggml.* of a file.
class Vocabulary {
 public:
  explicit Vocabulary(const gguf::Header& header) : header_(header) {}

  std::string_view text(const std::string& key) const { return header_.text(whole(key)); }
  double number(const std::string& key, double fallback) const {
    return header_.number(whole(key)).value_or(fallback);
  }
  std::optional<TokenId> id(const std::string& key) const {
    const double value = number(key, -1);
    if (!(value >= 0) || value >= static_cast<double>(tokens().size())) return std::nullopt;
    return static_cast<TokenId>(value);
  }
  std::span<const std::string_view> tokens() const { return texts("tokens"); }
  std::span<const std::string_view> texts(const std::string& key) const {
    return header_.texts(whole(key));
  }
  // An array of numbers, or null.
  const gguf::Value* numbers(const std::string& key) const {
    const gguf::Value* const value = header_.find(whole(key));
    return value != nullptr && value->is_array && value->is_number() ? value : nullptr;
  }

 private:
  static std::string whole(const std::string& key) { return "tokenizer.ggml." + key; }

  const gguf::Header& header_;
};

PieceKind kind_of(const Vocabulary& vocabulary, std::size_t i) {
  const gguf::Value* types = vocabulary.numbers("token_type");
  if (types == nullptr || i >= types->n) return PieceKind::kNormal;
  const double type = types->number(i);
  return type >= 1 && type <= 6 ? static_cast<PieceKind>(static_cast<int>(type))
                                : PieceKind::kNormal;
}

// Control tokens are special; user-defined ones are found in any text too.
void add_found_token(std::string_view text, TokenId id, PieceKind kind, TokenizerParts& parts) {
  if (kind != PieceKind::kControl && kind != PieceKind::kUserDefined && kind != PieceKind::kUnknown)
    return;
  AddedToken token;
  token.content = text;
  token.id = id;
  token.special = kind != PieceKind::kUserDefined;
  parts.added.add(std::move(token));
}

Result<TokenizerParts> read_pieces(const Vocabulary& vocabulary, SentencePieceModel::Type type) {
  SentencePieceModel model;
  const auto tokens = vocabulary.tokens();
  const gguf::Value* scores = vocabulary.numbers("scores");
  model.type = type;
  model.byte_fallback = type == SentencePieceModel::Type::kBpe;
  model.remove_extra_blanks = vocabulary.number("remove_extra_whitespaces", 0) != 0;
  model.add_dummy_prefix = vocabulary.number("add_space_prefix", 1) != 0;
  const gguf::Value* const map = vocabulary.numbers("precompiled_charsmap");
  if (map != nullptr && map->bytes.size() == map->n) model.charsmap = map->bytes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    SentencePiece piece;
    piece.text = tokens[i];
    piece.score = scores != nullptr && i < scores->n ? static_cast<float>(scores->number(i)) : 0.0F;
    piece.kind = kind_of(vocabulary, i);
    if (!(piece.score == piece.score))
      return damaged("scores[" + std::to_string(i) + "] is no number");
    model.pieces.push_back(std::move(piece));
  }
  COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts,
                            parts_from_pieces(model, ControlPieces::kMatched));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    add_found_token(tokens[i], static_cast<TokenId>(i), model.pieces[i].kind, parts);
  return parts;
}

Status add_names(const Vocabulary& vocabulary, TokenizerParts& parts) {
  const auto tokens = vocabulary.tokens();
  parts.names->reserve(tokens.size(), tokens.size() * 8);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!parts.names->add(tokens[i], id))
      return invalid_argument("tokens[" + std::to_string(i) + "]: \"" + std::string(tokens[i]) +
                              "\" is there twice");
    add_found_token(tokens[i], id, kind_of(vocabulary, i), parts);
  }
  return {};
}

Result<TokenizerParts> read_byte_level(const Vocabulary& vocabulary) {
  TokenizerParts parts;
  const std::string_view pre =
      vocabulary.text("pre").empty() ? std::string_view("default") : vocabulary.text("pre");
  const std::vector<std::string> patterns = patterns_of(pre);
  if (patterns.empty())
    return invalid_argument("tokenizer.ggml.pre: the split \"" + std::string(pre) +
                            "\" is not known");
  COXSWAIN_RETURN_IF_ERROR(add_names(vocabulary, parts));
  const std::span<const std::string_view> merges = vocabulary.texts("merges");
  if (merges.empty()) return invalid_argument("tokenizer.ggml.merges is missing");
  MergeTable table;
  table.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const std::size_t blank = merge.find(' ', 1);
    if (blank == std::string_view::npos || !add_merge(*parts.names,
                                                      merge.substr(0, blank),
                                                      merge.substr(blank + 1),
                                                      static_cast<std::uint32_t>(i),
                                                      table))
      return invalid_argument("tokenizer.ggml.merges[" + std::to_string(i) +
                              "]: not two tokens of the vocabulary");
  }
  COXSWAIN_ASSIGN_OR_RETURN(parts.pre_tokenizer, split_and_byte_level(patterns));
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder,
                            parse_decoder(section(R"({"type": "ByteLevel"})"), "decoder"));
  BpeOptions options;
  options.reads_bytes = true;
  options.ignore_merges = pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3" ||
                          pre == "tekken" || pre == "llama4" || pre == "gpt-4o";
  parts.model_reads_bytes = true;
  parts.model = std::make_unique<Bpe>(*parts.names, std::move(table), options);
  return parts;
}

// Word starts are written with U+2581 here, what continues a word without a mark.
Result<TokenizerParts> read_word_pieces(const Vocabulary& vocabulary) {
  TokenizerParts parts;
  const auto tokens = vocabulary.tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const PieceKind kind = kind_of(vocabulary, i);
    std::string name(tokens[i]);
    if (kind == PieceKind::kNormal) {
      name = tokens[i].starts_with(kMetaspaceUtf8)
                 ? std::string(tokens[i].substr(kMetaspaceUtf8.size()))
                 : "##" + std::string(tokens[i]);
    }
    if (!parts.names->add(name, id))
      return invalid_argument("tokens[" + std::to_string(i) + "]: \"" + name + "\" is there twice");
    add_found_token(name, id, kind, parts);
  }
  COXSWAIN_ASSIGN_OR_RETURN(
      parts.normalizer, parse_normalizer(section(R"({"type": "BertNormalizer"})"), "normalizer"));
  COXSWAIN_ASSIGN_OR_RETURN(
      parts.pre_tokenizer,
      parse_pre_tokenizer(section(R"({"type": "BertPreTokenizer"})"), "pre_tokenizer"));
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder,
                            parse_decoder(section(R"({"type": "WordPiece"})"), "decoder"));
  const auto unk = vocabulary.id("unknown_token_id");
  if (!unk) return invalid_argument("tokenizer.ggml.unknown_token_id is missing");
  WordPieceOptions options;
  options.unk = *unk;
  parts.model = std::make_unique<WordPiece>(*parts.names, std::move(options));
  return parts;
}

void set_special_tokens(const Vocabulary& vocabulary, TokenizerParts& parts) {
  const std::string_view model = vocabulary.text("model");
  const bool is_bert = model == "bert";
  parts.bos = vocabulary.id(is_bert ? "cls_token_id" : "bos_token_id");
  if (is_bert && !parts.bos) parts.bos = vocabulary.id("bos_token_id");
  parts.eos = vocabulary.id(is_bert ? "seperator_token_id" : "eos_token_id");
  // Without the key, what the programs that write these files assume.
  const bool adds_bos =
      vocabulary.number("add_bos_token", model == "llama" || is_bert ? 1 : 0) != 0;
  const bool adds_eos = vocabulary.number("add_eos_token", model == "t5" || is_bert ? 1 : 0) != 0;
  if (adds_bos && parts.bos) parts.post_processor.prefix() = {*parts.bos};
  if (adds_eos && parts.eos) parts.post_processor.suffix() = {*parts.eos};
}

Result<TokenizerParts> read_vocabulary(const Vocabulary& vocabulary) {
  const auto tokens = vocabulary.tokens();
  if (tokens.empty()) return invalid_argument("tokenizer.ggml.tokens is missing");
  if (tokens.size() > static_cast<std::size_t>(kTokenIdMax))
    return invalid_argument("tokenizer.ggml.tokens: too many tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (valid_utf8_prefix(tokens[i]) != tokens[i].size())
      return invalid_argument("tokens[" + std::to_string(i) + "] is no UTF-8 text");
  }
  const std::string_view model = vocabulary.text("model");
  if (model == "llama") return read_pieces(vocabulary, SentencePieceModel::Type::kBpe);
  if (model == "t5") return read_pieces(vocabulary, SentencePieceModel::Type::kUnigram);
  if (model == "gpt2") return read_byte_level(vocabulary);
  if (model == "bert") return read_word_pieces(vocabulary);
  return invalid_argument("tokenizer.ggml.model: \"" + std::string(model) + "\" is not known");
}

}  // namespace

Result<TokenizerParts> read_gguf_vocabulary(const std::filesystem::path& path) {
  COXSWAIN_ASSIGN_OR_RETURN(const gguf::Header header, gguf::Header::read(path));
  const Vocabulary vocabulary(header);
  COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts, read_vocabulary(vocabulary));
  set_special_tokens(vocabulary, parts);
  return parts;
}

}  // namespace coxswain::tokenizer
