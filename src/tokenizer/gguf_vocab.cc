// Reads the vocabulary of a GGUF file (ggml's docs/gguf.md): the keys tokenizer.ggml.*.
//
// The key "pre" names how a byte-level text is split (gguf_splits.h); a name that is not known is an error.

#include <array>
#include <span>
#include <utility>

#include "gguf/header.h"
#include "tokenizer/bpe.h"
#include "tokenizer/formats.h"
#include "tokenizer/gguf_splits.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/piece_models.h"
#include "tokenizer/unicode.h"
#include "tokenizer/wordpiece.h"

namespace coxswain::tokenizer {
namespace {

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
  bool has(const std::string& key) const { return header_.find(whole(key)) != nullptr; }
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
  const auto split = find_gguf_split(pre);
  if (!split)
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
  COXSWAIN_ASSIGN_OR_RETURN(parts.pre_tokenizer, split_and_byte_level(split->patterns));
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder,
                            parse_decoder(section(R"({"type": "ByteLevel"})"), "decoder"));
  BpeOptions options;
  options.reads_bytes = true;
  options.ignore_merges = split->ignores_merges;
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
  PostProcessor& around = parts.post_processor;
  if (adds_bos && parts.bos) around.prefix() = {*parts.bos};
  if (adds_eos && parts.eos) around.suffix() = {*parts.eos};
}

// A whole tokenizer.json has its own post-processor, and lacks what the model's tokenizer_config.json said beside it.
void add_to_whole(const Vocabulary& vocabulary, TokenizerParts& parts) {
  if (vocabulary.has("add_bos_token")) parts.post_processor.prefix().clear();
  if (vocabulary.has("add_eos_token")) parts.post_processor.suffix().clear();
  const auto tokens = vocabulary.tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (parts.added.find(id) == nullptr && parts.added.find(tokens[i]) == nullptr)
      add_found_token(tokens[i], id, kind_of(vocabulary, i), parts);
  }
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

Result<TokenizerParts> read_gguf_vocabulary(const gguf::Header& header, GgufTokens from) {
  const Vocabulary vocabulary(header);
  const std::string_view whole = header.text(kGgufWholeTokenizer);
  const bool is_whole = !whole.empty() && from == GgufTokens::kWholeIfThere;
  auto read = is_whole ? read_tokenizer_json(whole) : read_vocabulary(vocabulary);
  if (!read.ok())
    return is_whole ? read.status().with_context(std::string(kGgufWholeTokenizer)) : read.status();
  TokenizerParts parts = std::move(read).value();
  if (is_whole) add_to_whole(vocabulary, parts);
  set_special_tokens(vocabulary, parts);
  return parts;
}

}  // namespace coxswain::tokenizer
