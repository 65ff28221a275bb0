// Reads the vocabulary of a GGUF file (ggml's docs/gguf.md): the keys tokenizer.ggml.*.
//
// The key "pre" names how a byte-level text is split. The names and their patterns are those of the
// programs that write such files; a name that is not in the table below is an error.

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "tokenizer/bpe.h"
#include "tokenizer/formats.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/piece_models.h"
#include "tokenizer/unicode.h"
#include "tokenizer/wordpiece.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kHeaderBytesStart = std::size_t{8} << 20;
constexpr std::uint64_t kKeysMax = 1 << 16;
constexpr std::uint64_t kEntriesMax = 1 << 24;  // of an array that is kept

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

// A value of a key; arrays of strings, of numbers and of bytes are kept apart.
struct GgufValue {
  std::string_view text;
  std::vector<std::string_view> texts;
  std::vector<double> numbers;  // a scalar is one number
  std::string_view bytes;       // of an array of 8-bit numbers
};

class GgufHeader {
 public:
  explicit GgufHeader(std::string_view bytes) : rest_(bytes) {}

  // Fills the keys that start with "tokenizer.". is_cut() tells whether more bytes could have helped.
  Status read() {
    std::uint32_t version = 0;
    std::uint64_t n_tensors = 0;
    std::uint64_t n_keys = 0;
    if (!rest_.starts_with("GGUF")) return damaged("no magic number");
    rest_.remove_prefix(4);
    if (!take(version) || !take(n_tensors) || !take(n_keys)) return cut("its start");
    if (version != 2 && version != 3)
      return damaged("version " + std::to_string(version) + " is not supported");
    if (n_keys > kKeysMax) return damaged(std::to_string(n_keys) + " keys are too many");
    for (std::uint64_t i = 0; i < n_keys; ++i) {
      std::string_view key;
      std::uint32_t type = 0;
      if (!take_string(key) || !take(type)) return cut("key " + std::to_string(i));
      GgufValue value;
      COXSWAIN_RETURN_IF_ERROR(read_value(type, std::string(key), value));
      if (key.starts_with("tokenizer."))
        values_.insert_or_assign(std::string(key), std::move(value));
    }
    return {};
  }

  bool is_cut() const { return is_cut_; }

  const GgufValue* find(const std::string& key) const {
    const auto found = values_.find("tokenizer.ggml." + key);
    return found == values_.end() ? nullptr : &found->second;
  }
  std::string_view text(const std::string& key) const {
    const GgufValue* value = find(key);
    return value == nullptr ? std::string_view() : value->text;
  }
  double number(const std::string& key, double fallback) const {
    const GgufValue* value = find(key);
    return value == nullptr || value->numbers.empty() ? fallback : value->numbers[0];
  }
  std::optional<TokenId> id(const std::string& key, std::size_t n_tokens) const {
    const double value = number(key, -1);
    if (!(value >= 0) || value >= static_cast<double>(n_tokens)) return std::nullopt;
    return static_cast<TokenId>(value);
  }

 private:
  static constexpr std::uint32_t kString = 8;
  static constexpr std::uint32_t kArray = 9;

  static std::size_t scalar_bytes(std::uint32_t type) {
    constexpr std::array<std::size_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < kBytes.size() ? kBytes[type] : 0;
  }

  Status cut(const std::string& where) {
    is_cut_ = true;
    return damaged("cut off at " + where);
  }
  template <typename T>
  bool take(T& out) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(&out, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  bool take_string(std::string_view& out) {
    std::uint64_t length = 0;
    if (!take(length) || length > rest_.size()) return false;
    out = rest_.substr(0, static_cast<std::size_t>(length));
    rest_.remove_prefix(static_cast<std::size_t>(length));
    return true;
  }
  template <typename T>
  double as_number(std::size_t at) const {
    T value{};
    std::memcpy(&value, rest_.data() + at, sizeof(T));
    return static_cast<double>(value);
  }
  double number_at(std::uint32_t type, std::size_t at) const {
    switch (type) {
      case 0:
      case 7:
        return as_number<std::uint8_t>(at);
      case 1:
        return as_number<std::int8_t>(at);
      case 2:
        return as_number<std::uint16_t>(at);
      case 3:
        return as_number<std::int16_t>(at);
      case 4:
        return as_number<std::uint32_t>(at);
      case 5:
        return as_number<std::int32_t>(at);
      case 6:
        return as_number<float>(at);
      case 10:
        return as_number<std::uint64_t>(at);
      case 11:
        return as_number<std::int64_t>(at);
      default:
        return as_number<double>(at);
    }
  }

  Status read_value(std::uint32_t type, const std::string& key, GgufValue& out) {
    if (type == kString) return take_string(out.text) ? Status() : cut("key " + key);
    if (type == kArray) return read_array(key, out);
    const std::size_t n_bytes = scalar_bytes(type);
    if (n_bytes == 0)
      return damaged("key " + key + " has the unknown type " + std::to_string(type));
    if (rest_.size() < n_bytes) return cut("key " + key);
    out.numbers.push_back(number_at(type, 0));
    rest_.remove_prefix(n_bytes);
    return {};
  }

  Status read_array(const std::string& key, GgufValue& out) {
    std::uint32_t type = 0;
    std::uint64_t n = 0;
    if (!take(type) || !take(n)) return cut("key " + key);
    const bool is_kept = key.starts_with("tokenizer.");
    if (is_kept && n > kEntriesMax)
      return damaged("key " + key + " has " + std::to_string(n) + " entries, more than " +
                     std::to_string(kEntriesMax));
    if (type == kString) {
      // Every string takes eight bytes at least.
      if (n > rest_.size() / 8) return cut("key " + key);
      if (is_kept) out.texts.reserve(static_cast<std::size_t>(n));
      for (std::uint64_t i = 0; i < n; ++i) {
        std::string_view text;
        if (!take_string(text)) return cut("key " + key + "[" + std::to_string(i) + "]");
        if (is_kept) out.texts.push_back(text);
      }
      return {};
    }
    const std::size_t n_bytes = scalar_bytes(type);
    if (n_bytes == 0)
      return damaged("key " + key + " is an array of the unsupported type " + std::to_string(type));
    if (n > rest_.size() / n_bytes) return cut("key " + key);
    const auto total = static_cast<std::size_t>(n) * n_bytes;
    if (n_bytes == 1) {
      out.bytes = rest_.substr(0, total);
    } else if (is_kept) {
      out.numbers.reserve(static_cast<std::size_t>(n));
      for (std::size_t at = 0; at < total; at += n_bytes)
        out.numbers.push_back(number_at(type, at));
    }
    rest_.remove_prefix(total);
    return {};
  }

  std::string_view rest_;
  std::unordered_map<std::string, GgufValue> values_;
  bool is_cut_ = false;
};

PieceKind kind_of(const GgufHeader& header, std::size_t i) {
  const GgufValue* types = header.find("token_type");
  if (types == nullptr || i >= types->numbers.size()) return PieceKind::kNormal;
  const double type = types->numbers[i];
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

Result<TokenizerParts> read_pieces(const GgufHeader& header, SentencePieceModel::Type type) {
  SentencePieceModel model;
  const auto& tokens = header.find("tokens")->texts;
  const GgufValue* scores = header.find("scores");
  model.type = type;
  model.byte_fallback = type == SentencePieceModel::Type::kBpe;
  model.remove_extra_blanks = header.number("remove_extra_whitespaces", 0) != 0;
  model.add_dummy_prefix = header.number("add_space_prefix", 1) != 0;
  if (const GgufValue* map = header.find("precompiled_charsmap")) model.charsmap = map->bytes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    SentencePiece piece;
    piece.text = tokens[i];
    piece.score = scores != nullptr && i < scores->numbers.size()
                      ? static_cast<float>(scores->numbers[i])
                      : 0.0F;
    piece.kind = kind_of(header, i);
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

Status add_names(const GgufHeader& header, TokenizerParts& parts) {
  const auto& tokens = header.find("tokens")->texts;
  parts.names->reserve(tokens.size(), tokens.size() * 8);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!parts.names->add(tokens[i], id))
      return invalid_argument("tokens[" + std::to_string(i) + "]: \"" + std::string(tokens[i]) +
                              "\" is there twice");
    add_found_token(tokens[i], id, kind_of(header, i), parts);
  }
  return {};
}

Result<TokenizerParts> read_byte_level(const GgufHeader& header) {
  TokenizerParts parts;
  const std::string_view pre =
      header.text("pre").empty() ? std::string_view("default") : header.text("pre");
  const std::vector<std::string> patterns = patterns_of(pre);
  if (patterns.empty())
    return invalid_argument("tokenizer.ggml.pre: the split \"" + std::string(pre) +
                            "\" is not known");
  COXSWAIN_RETURN_IF_ERROR(add_names(header, parts));
  const GgufValue* merges = header.find("merges");
  if (merges == nullptr) return invalid_argument("tokenizer.ggml.merges is missing");
  MergeTable table;
  table.reserve(merges->texts.size());
  for (std::size_t i = 0; i < merges->texts.size(); ++i) {
    const std::string_view merge = merges->texts[i];
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
Result<TokenizerParts> read_word_pieces(const GgufHeader& header) {
  TokenizerParts parts;
  const auto& tokens = header.find("tokens")->texts;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const PieceKind kind = kind_of(header, i);
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
  const auto unk = header.id("unknown_token_id", tokens.size());
  if (!unk) return invalid_argument("tokenizer.ggml.unknown_token_id is missing");
  WordPieceOptions options;
  options.unk = *unk;
  parts.model = std::make_unique<WordPiece>(*parts.names, std::move(options));
  return parts;
}

void set_special_tokens(const GgufHeader& header, TokenizerParts& parts) {
  const std::size_t n_tokens = header.find("tokens")->texts.size();
  const std::string_view model = header.text("model");
  const bool is_bert = model == "bert";
  parts.bos = header.id(is_bert ? "cls_token_id" : "bos_token_id", n_tokens);
  if (is_bert && !parts.bos) parts.bos = header.id("bos_token_id", n_tokens);
  parts.eos = header.id(is_bert ? "seperator_token_id" : "eos_token_id", n_tokens);
  // Without the key, what the programs that write these files assume.
  const bool adds_bos = header.number("add_bos_token", model == "llama" || is_bert ? 1 : 0) != 0;
  const bool adds_eos = header.number("add_eos_token", model == "t5" || is_bert ? 1 : 0) != 0;
  if (adds_bos && parts.bos) parts.post_processor.prefix() = {*parts.bos};
  if (adds_eos && parts.eos) parts.post_processor.suffix() = {*parts.eos};
}

Result<TokenizerParts> read_header(const GgufHeader& header) {
  const GgufValue* tokens = header.find("tokens");
  if (tokens == nullptr || tokens->texts.empty())
    return invalid_argument("tokenizer.ggml.tokens is missing");
  if (tokens->texts.size() > static_cast<std::size_t>(kTokenIdMax))
    return invalid_argument("tokenizer.ggml.tokens: too many tokens");
  for (std::size_t i = 0; i < tokens->texts.size(); ++i) {
    if (valid_utf8_prefix(tokens->texts[i]) != tokens->texts[i].size())
      return invalid_argument("tokens[" + std::to_string(i) + "] is no UTF-8 text");
  }
  const std::string_view model = header.text("model");
  if (model == "llama") return read_pieces(header, SentencePieceModel::Type::kBpe);
  if (model == "t5") return read_pieces(header, SentencePieceModel::Type::kUnigram);
  if (model == "gpt2") return read_byte_level(header);
  if (model == "bert") return read_word_pieces(header);
  return invalid_argument("tokenizer.ggml.model: \"" + std::string(model) + "\" is not known");
}

}  // namespace

Result<TokenizerParts> read_gguf_vocabulary(const std::filesystem::path& path) {
  std::error_code error;
  const auto file_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return Status(Code::kNotFound, ErrorKind::kNotFound, "cannot be opened");
  for (std::size_t n_bytes = kHeaderBytesStart;; n_bytes *= 4) {
    std::string bytes(static_cast<std::size_t>(std::min<std::uintmax_t>(n_bytes, file_bytes)),
                      '\0');
    file.seekg(0);
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      return Status(Code::kDataLoss, "cannot be read");
    GgufHeader header(bytes);
    const Status status = header.read();
    if (status.ok()) {
      COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts, read_header(header));
      set_special_tokens(header, parts);
      return parts;
    }
    if (!header.is_cut() || bytes.size() == file_bytes || n_bytes >= kFileBytesMax) return status;
  }
}

}  // namespace coxswain::tokenizer
