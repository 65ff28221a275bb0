// Reads tokenizer.json.

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "json/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/bulk_json.h"
#include "tokenizer/formats.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

namespace coxswain::tokenizer {
namespace {

// Of added_tokens and of every other list but the vocabulary and the merges; known files have some
// thousand added tokens.
constexpr std::size_t kListEntriesMax = std::size_t{1} << 17;

Result<TokenId> checked_id(const json::Value& value, const std::string& where) {
  const auto id = value.to_int64();
  if (!id || *id < 0 || *id > kTokenIdMax)
    return invalid_argument(where + ": id is not an integer from 0 to " +
                            std::to_string(kTokenIdMax));
  return static_cast<TokenId>(*id);
}

Status add_name(TokenTable& names, std::string_view token, TokenId id, const std::string& where) {
  if (names.add(token, id)) return {};
  if (names.has(id))
    return invalid_argument(where + ": id " + std::to_string(id) + " belongs to both \"" +
                            std::string(names.string(id)) + "\" and \"" + std::string(token) +
                            "\"");
  return invalid_argument(where + ": the token \"" + std::string(token) + "\" is there twice");
}

// The model section and the text of its two large members.
struct ModelSource {
  const json::Value& fields;
  std::string_view vocab;
  std::string_view merges;
};

Status read_vocab(const ModelSource& model, TokenizerParts& parts) {
  if (!model.vocab.starts_with('{')) return field_error("model", "vocab", "an object");
  return add_vocabulary(model.vocab, "model.vocab", *parts.names);
}

Status read_bpe(const ModelSource& source, TokenizerParts& parts) {
  const json::Value& model = source.fields;
  BpeOptions options;
  COXSWAIN_ASSIGN_OR_RETURN(const auto unk, optional_string_field(model, "unk_token", "model"));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string mark, string_field_or(model, name, "", "model"));
    if (!mark.empty()) return field_error("model", name, "empty: BPE with marked words is not run");
  }
  COXSWAIN_ASSIGN_OR_RETURN(options.fuse_unk, bool_field(model, "fuse_unk", false, "model"));
  COXSWAIN_ASSIGN_OR_RETURN(options.byte_fallback,
                            bool_field(model, "byte_fallback", false, "model"));
  COXSWAIN_ASSIGN_OR_RETURN(options.ignore_merges,
                            bool_field(model, "ignore_merges", false, "model"));
  if (const json::Value* dropout = model.find("dropout");
      dropout != nullptr && !dropout->is_null() && dropout->to_double() != 0.0)
    return field_error("model", "dropout", "null or 0: encoding is the same every time");
  COXSWAIN_RETURN_IF_ERROR(read_vocab(source, parts));
  if (source.merges.empty()) return field_error("model", "merges", "an array");
  auto merges = read_merges(source.merges, *parts.names);
  if (!merges.ok()) return invalid_argument("model.merges" + merges.status().message());
  if (unk) {
    options.unk = parts.names->find(*unk);
    if (!options.unk)
      return invalid_argument("model.unk_token: \"" + *unk + "\" is not in the vocabulary");
  }
  options.reads_bytes = parts.pre_tokenizer.leaves_bytes && !options.byte_fallback;
  parts.model_reads_bytes = options.reads_bytes;
  parts.model = std::make_unique<Bpe>(*parts.names, std::move(merges).value(), options);
  return {};
}

// [["token", score], ...]; the position is the id.
Status read_scored_vocab(const ModelSource& model, TokenizerParts& parts, UnigramOptions& options) {
  if (!model.vocab.starts_with('['))
    return field_error("model", "vocab", "an array of [token, score]");
  options.min_score = std::numeric_limits<double>::infinity();
  const Status read = read_vocab_array(model.vocab, [&](std::string_view token, double score) {
    const std::string where = "model.vocab";
    if (options.scores.size() > static_cast<std::size_t>(kTokenIdMax))
      return field_error("model", "vocab", "shorter");
    COXSWAIN_RETURN_IF_ERROR(
        add_name(*parts.names, token, static_cast<TokenId>(options.scores.size()), where));
    options.scores.push_back(score);
    options.min_score = std::min(options.min_score, score);
    return Status();
  });
  return read.ok() ? read : read.with_context("model.vocab");
}

Status read_unigram(const ModelSource& source, TokenizerParts& parts) {
  const json::Value& model = source.fields;
  UnigramOptions options;
  COXSWAIN_RETURN_IF_ERROR(read_scored_vocab(source, parts, options));
  COXSWAIN_ASSIGN_OR_RETURN(options.byte_fallback,
                            bool_field(model, "byte_fallback", false, "model"));
  COXSWAIN_ASSIGN_OR_RETURN(const std::int64_t unk, integer_field(model, "unk_id", -1, "model"));
  if (unk >= static_cast<std::int64_t>(options.scores.size()))
    return field_error("model", "unk_id", "an id of the vocabulary");
  if (unk >= 0) options.unk = static_cast<TokenId>(unk);
  parts.model = std::make_unique<Unigram>(*parts.names, std::move(options));
  return {};
}

Status read_wordpiece(const ModelSource& source, TokenizerParts& parts) {
  const json::Value& model = source.fields;
  WordPieceOptions options;
  COXSWAIN_RETURN_IF_ERROR(read_vocab(source, parts));
  COXSWAIN_ASSIGN_OR_RETURN(const std::string unk,
                            string_field_or(model, "unk_token", "[UNK]", "model"));
  COXSWAIN_ASSIGN_OR_RETURN(options.continuing_prefix,
                            string_field_or(model, "continuing_subword_prefix", "##", "model"));
  COXSWAIN_ASSIGN_OR_RETURN(const std::int64_t characters,
                            integer_field(model, "max_input_chars_per_word", 100, "model"));
  if (characters < 1) return field_error("model", "max_input_chars_per_word", "at least 1");
  options.characters_max = static_cast<std::size_t>(characters);
  const auto unk_id = parts.names->find(unk);
  if (!unk_id) return invalid_argument("model.unk_token: \"" + unk + "\" is not in the vocabulary");
  options.unk = *unk_id;
  parts.model = std::make_unique<WordPiece>(*parts.names, std::move(options));
  return {};
}

Status read_wordlevel(const ModelSource& source, TokenizerParts& parts) {
  const json::Value& model = source.fields;
  COXSWAIN_RETURN_IF_ERROR(read_vocab(source, parts));
  COXSWAIN_ASSIGN_OR_RETURN(const std::string unk,
                            string_field_or(model, "unk_token", "<unk>", "model"));
  parts.model = std::make_unique<WordLevel>(*parts.names, parts.names->find(unk));
  return {};
}

// Files from before the member "type" existed are told apart by what they contain.
std::string guessed_type(const ModelSource& model) {
  if (!model.merges.empty()) return "BPE";
  if (model.vocab.starts_with('[')) return "Unigram";
  return model.fields.find("continuing_subword_prefix") != nullptr ? "WordPiece" : "WordLevel";
}

Status read_added_tokens(const json::Value& document, TokenizerParts& parts) {
  const json::Value* list = document.find("added_tokens");
  if (list == nullptr || list->is_null()) return {};
  if (!list->is_array()) return field_error("tokenizer", "added_tokens", "an array");
  std::unordered_set<TokenId> stated_ids;
  const bool is_dense = parts.names->size() == parts.names->id_end();
  TokenId next_id = static_cast<TokenId>(parts.names->size());
  for (std::size_t i = 0; i < list->as_array().size(); ++i) {
    const json::Value& item = list->as_array()[i];
    const std::string where = "added_tokens[" + std::to_string(i) + "]";
    AddedToken token;
    COXSWAIN_ASSIGN_OR_RETURN(token.content, string_field(item, "content", where));
    const json::Value* id = item.find("id");
    if (id == nullptr) return field_error(where, "id", "an integer");
    COXSWAIN_ASSIGN_OR_RETURN(token.id, checked_id(*id, where));
    COXSWAIN_RETURN_IF_ERROR(read_flags(item, where, token));
    if (token.content.empty() || parts.added.find(token.content) != nullptr) continue;
    const bool is_other =
        parts.names->has(token.id) && parts.names->string(token.id) != token.content;
    if (is_other || !stated_ids.insert(token.id).second)
      return invalid_argument(where + ": id " + std::to_string(token.id) +
                              " belongs to another token already");
    // As in the reference, the id in the file does not count: a token of the vocabulary has its id
    // there, others are numbered behind the vocabulary in the order of the list. (In a vocabulary
    // with holes the reference would give out ids that are taken; there the file's id counts.)
    if (const auto known = parts.names->find(token.content)) {
      token.id = *known;
    } else if (is_dense) {
      token.id = next_id;
    }
    next_id = std::max(next_id, token.id + 1);
    parts.added.add(std::move(token));
  }
  return {};
}

Status read_model(const json::Value& document, const BulkSections& bulk, TokenizerParts& parts) {
  const json::Value* model = document.find("model");
  if (model == nullptr || !model->is_object())
    return field_error("tokenizer", "model", "an object");
  const ModelSource source{*model, bulk.vocab, bulk.merges};
  COXSWAIN_ASSIGN_OR_RETURN(std::string type, string_field_or(*model, "type", "", "model"));
  if (type.empty()) type = guessed_type(source);
  if (type == "BPE") return read_bpe(source, parts);
  if (type == "Unigram") return read_unigram(source, parts);
  if (type == "WordPiece") return read_wordpiece(source, parts);
  if (type == "WordLevel") return read_wordlevel(source, parts);
  return invalid_argument("model: the type \"" + type + "\" is not supported");
}

}  // namespace

Status read_flags(const json::Value& item, const std::string& where, AddedToken& token) {
  COXSWAIN_ASSIGN_OR_RETURN(token.special, bool_field(item, "special", false, where));
  COXSWAIN_ASSIGN_OR_RETURN(token.single_word, bool_field(item, "single_word", false, where));
  COXSWAIN_ASSIGN_OR_RETURN(token.lstrip, bool_field(item, "lstrip", false, where));
  COXSWAIN_ASSIGN_OR_RETURN(token.rstrip, bool_field(item, "rstrip", false, where));
  COXSWAIN_ASSIGN_OR_RETURN(token.normalized,
                            bool_field(item, "normalized", !token.special, where));
  return {};
}

Status add_vocabulary(std::string_view object, const std::string& where, TokenTable& names) {
  const auto start = [&](std::size_t n_tokens) {
    names.reserve(std::min(n_tokens, static_cast<std::size_t>(kTokenIdMax) + 1), object.size() / 2);
  };
  const auto refused = [&](std::string_view token, TokenId id) {
    return add_name(names, token, id, "");
  };
  TokenQueue queue(names, refused);
  const Status read =
      read_vocab_object(object, start, [&](std::string_view token, std::int64_t id) {
        if (id < 0 || id > kTokenIdMax)
          return invalid_argument("[\"" + std::string(token) +
                                  "\"]: id is not an integer from 0 to " +
                                  std::to_string(kTokenIdMax));
        return queue.add(token, static_cast<TokenId>(id));
      });
  const Status added = queue.flush();
  if (!added.ok()) return invalid_argument(where + added.message());
  return read.ok() ? read : invalid_argument(where + read.message());
}

Result<TokenizerParts> read_tokenizer_json(std::string_view text) {
  const BulkSections bulk = cut_bulk_sections(text);
  json::ParseLimits limits;
  limits.elements_max = kListEntriesMax;
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value document, json::parse(bulk.rest, limits));
  if (!document.is_object()) return invalid_argument("a tokenizer file is a JSON object");
  static const json::Value absent;
  const auto section = [&](std::string_view name) -> const json::Value& {
    const json::Value* value = document.find(name);
    return value == nullptr ? absent : *value;
  };
  TokenizerParts parts;
  COXSWAIN_ASSIGN_OR_RETURN(parts.normalizer,
                            parse_normalizer(section("normalizer"), "normalizer"));
  COXSWAIN_ASSIGN_OR_RETURN(parts.pre_tokenizer,
                            parse_pre_tokenizer(section("pre_tokenizer"), "pre_tokenizer"));
  COXSWAIN_ASSIGN_OR_RETURN(parts.post_processor,
                            parse_post_processor(section("post_processor"), "post_processor"));
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder, parse_decoder(section("decoder"), "decoder"));
  COXSWAIN_RETURN_IF_ERROR(read_model(document, bulk, parts));
  COXSWAIN_RETURN_IF_ERROR(read_added_tokens(document, parts));
  return parts;
}

}  // namespace coxswain::tokenizer
