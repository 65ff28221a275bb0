// The older forms: vocab.json + merges.txt (byte-level BPE), vocab.txt (WordPiece), and the
// sections that several readers put together.

#include <utility>

#include "json/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/formats.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/unicode.h"
#include "tokenizer/wordpiece.h"

namespace coxswain::tokenizer {
namespace {

template <typename Visit>
Status for_each_line(std::string_view text, Visit visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    COXSWAIN_RETURN_IF_ERROR(visit(line, number));
  }
  return {};
}

Result<MergeTable> read_merge_lines(std::string_view text, const TokenTable& names) {
  MergeTable out;
  std::uint32_t rank = 0;
  COXSWAIN_RETURN_IF_ERROR(for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return Status();
    const auto bad = [&](const std::string& what) {
      return invalid_argument("merges.txt line " + std::to_string(number) + ": " + what);
    };
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
      return bad("not two tokens");
    return add_merge(names, line.substr(0, blank), line.substr(blank + 1), rank++, out)
               ? Status()
               : bad("a token that is not in the vocabulary");
  }));
  return out;
}

bool flag(const json::Value& config, std::string_view name, bool fallback) {
  const json::Value* value = config.find(name);
  return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
}

bool is_class(const json::Value& config, std::string_view name) {
  const json::Value* value = config.find("tokenizer_class");
  return value != nullptr && value->is_string() && value->as_string().starts_with(name);
}

}  // namespace

json::Value section(std::string_view text) {
  auto parsed = json::parse(text);
  return parsed.ok() ? std::move(parsed).value() : json::Value();
}

Result<PreTokenizerPlan> split_and_byte_level(const std::vector<std::string>& patterns) {
  json::Array steps;
  for (const std::string& pattern : patterns) {
    json::Object regex;
    regex.set("Regex", json::Value(pattern));
    json::Object step;
    step.set("type", json::Value("Split"));
    step.set("pattern", json::Value(std::move(regex)));
    step.set("behavior", json::Value("Isolated"));
    steps.push_back(json::Value(std::move(step)));
  }
  steps.push_back(
      section(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})"));
  json::Object sequence;
  sequence.set("type", json::Value("Sequence"));
  sequence.set("pretokenizers", json::Value(std::move(steps)));
  return parse_pre_tokenizer(json::Value(std::move(sequence)), "split_patterns");
}

Result<TokenizerParts> read_vocab_and_merges(std::string_view vocab_text,
                                             std::string_view merges_text,
                                             const json::Value& config) {
  TokenizerParts parts;
  COXSWAIN_RETURN_IF_ERROR(add_vocabulary(vocab_text, "vocab.json", *parts.names));
  COXSWAIN_ASSIGN_OR_RETURN(MergeTable merges, read_merge_lines(merges_text, *parts.names));
  const bool is_qwen = is_class(config, "Qwen2");
  if (is_qwen) {
    parts.normalizer = make_unicode_normalizer(UnicodeForm::kNfc);
    COXSWAIN_ASSIGN_OR_RETURN(
        parts.pre_tokenizer,
        split_and_byte_level({std::string(scanner_pattern(SplitScanner::kCl100kOneDigit))}));
  } else {
    const bool prefix = flag(config, "add_prefix_space", false);
    COXSWAIN_ASSIGN_OR_RETURN(
        parts.pre_tokenizer,
        parse_pre_tokenizer(section(prefix ? R"({"type": "ByteLevel", "add_prefix_space": true})"
                                           : R"({"type": "ByteLevel", "add_prefix_space": false})"),
                            "pre_tokenizer"));
  }
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder,
                            parse_decoder(section(R"({"type": "ByteLevel"})"), "decoder"));
  BpeOptions options;
  options.reads_bytes = true;
  parts.model_reads_bytes = true;
  parts.model = std::make_unique<Bpe>(*parts.names, std::move(merges), options);
  return parts;
}

Result<TokenizerParts> read_vocab_txt(std::string_view text, const json::Value& config) {
  TokenizerParts parts;
  TokenId next = 0;
  COXSWAIN_RETURN_IF_ERROR(for_each_line(text, [&](std::string_view line, std::size_t number) {
    const std::string where = "vocab.txt line " + std::to_string(number);
    if (valid_utf8_prefix(line) != line.size())
      return invalid_argument(where + ": the token is no UTF-8 text");
    if (next > kTokenIdMax) return invalid_argument(where + ": too many tokens");
    if (parts.names->add(line, next++)) return Status();
    return invalid_argument(where + ": the token \"" + std::string(line) + "\" is there twice");
  }));
  json::Object bert;
  bert.set("type", json::Value("BertNormalizer"));
  bert.set("lowercase", json::Value(flag(config, "do_lower_case", true)));
  bert.set("handle_chinese_chars", json::Value(flag(config, "tokenize_chinese_chars", true)));
  if (const json::Value* strip = config.find("strip_accents"); strip != nullptr && strip->is_bool())
    bert.set("strip_accents", *strip);
  COXSWAIN_ASSIGN_OR_RETURN(parts.normalizer,
                            parse_normalizer(json::Value(std::move(bert)), "normalizer"));
  COXSWAIN_ASSIGN_OR_RETURN(
      parts.pre_tokenizer,
      parse_pre_tokenizer(section(R"({"type": "BertPreTokenizer"})"), "pre_tokenizer"));
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder,
                            parse_decoder(section(R"({"type": "WordPiece"})"), "decoder"));
  const auto unk = parts.names->find("[UNK]");
  if (!unk) return invalid_argument("vocab.txt: no token [UNK]");
  for (const std::string_view name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    const auto id = parts.names->find(name);
    if (!id) continue;
    AddedToken token;
    token.content = name;
    token.id = *id;
    token.special = true;
    parts.added.add(std::move(token));
    if (name == "[CLS]") parts.post_processor.prefix() = {*id};
    if (name == "[SEP]") parts.post_processor.suffix() = {*id};
  }
  WordPieceOptions options;
  options.unk = *unk;
  parts.model = std::make_unique<WordPiece>(*parts.names, std::move(options));
  return parts;
}

}  // namespace coxswain::tokenizer
