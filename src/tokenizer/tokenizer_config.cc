// Applies tokenizer_config.json: bos and eos, and for the classes that build their post-processor
// from it, whether they are added.

#include <algorithm>
#include <array>

#include "json/json.h"
#include "tokenizer/formats.h"
#include "tokenizer/json_fields.h"

namespace coxswain::tokenizer {
namespace {

// Classes of the reference that replace the file's post-processor by add_bos_token and add_eos_token.
constexpr std::array<std::string_view, 6> kClassesWithTemplate{"LlamaTokenizer",
                                                               "CodeLlamaTokenizer",
                                                               "GemmaTokenizer",
                                                               "LlamaTokenizerFast",
                                                               "CodeLlamaTokenizerFast",
                                                               "GemmaTokenizerFast"};

std::optional<TokenId> id_of(const TokenizerParts& parts, std::string_view token) {
  if (const AddedToken* added = parts.added.find(token)) return added->id;
  return parts.names->find(token);
}

void set_special(const json::Value& config,
                 std::string_view name,
                 const TokenizerParts& parts,
                 std::optional<TokenId>& out) {
  const auto token = special_token(config, name);
  if (token) out = id_of(parts, *token);
}

// A token of the configuration that the tokenizer file lacks.
Status add_configured_tokens(const json::Value& config, TokenizerParts& parts) {
  const json::Value* list = config.find("added_tokens_decoder");
  if (list == nullptr || !list->is_object()) return {};
  for (const auto& [id_text, item] : list->as_object()) {
    const std::string where = "added_tokens_decoder[\"" + id_text + "\"]";
    AddedToken token;
    COXSWAIN_ASSIGN_OR_RETURN(token.content, string_field(item, "content", where));
    if (token.content.empty() || parts.added.find(token.content) != nullptr) continue;
    const auto id = json::Value(json::Number{id_text}).to_int64();
    if (!id || *id < 0 || *id > kTokenIdMax) return invalid_argument(where + ": not a token id");
    token.id = static_cast<TokenId>(*id);
    if (const auto known = parts.names->find(token.content)) token.id = *known;
    if (parts.added.find(token.id) != nullptr ||
        (parts.names->has(token.id) && parts.names->string(token.id) != token.content))
      continue;
    COXSWAIN_RETURN_IF_ERROR(read_flags(item, where, token));
    parts.added.add(std::move(token));
  }
  return {};
}

}  // namespace

std::optional<std::string> special_token(const json::Value& config, std::string_view name) {
  const json::Value* value = config.find(name);
  if (value != nullptr && value->is_object()) value = value->find("content");
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->as_string();
}

Status apply_tokenizer_config(const json::Value& config, TokenizerParts& parts) {
  if (!config.is_object()) return invalid_argument("not a JSON object");
  COXSWAIN_RETURN_IF_ERROR(add_configured_tokens(config, parts));
  set_special(config, "bos_token", parts, parts.bos);
  set_special(config, "eos_token", parts, parts.eos);
  COXSWAIN_ASSIGN_OR_RETURN(const std::string name,
                            string_field_or(config, "tokenizer_class", "", "tokenizer_config"));
  if (std::find(kClassesWithTemplate.begin(), kClassesWithTemplate.end(), name) ==
      kClassesWithTemplate.end())
    return {};
  COXSWAIN_ASSIGN_OR_RETURN(const bool add_bos,
                            bool_field(config, "add_bos_token", true, "tokenizer_config"));
  COXSWAIN_ASSIGN_OR_RETURN(const bool add_eos,
                            bool_field(config, "add_eos_token", false, "tokenizer_config"));
  parts.post_processor = PostProcessor();
  if (add_bos && parts.bos) parts.post_processor.prefix() = {*parts.bos};
  if (add_eos && parts.eos) parts.post_processor.suffix() = {*parts.eos};
  return {};
}

}  // namespace coxswain::tokenizer
