#include "tokenizer/post_processor.h"

#include "json/json.h"
#include "tokenizer/formats.h"
#include "tokenizer/json_fields.h"

namespace coxswain::tokenizer {
namespace {

Result<TokenId> token_id_of(const json::Value& value, const std::string& where) {
  const auto id = value.to_int64();
  if (!id || *id < 0 || *id > kTokenIdMax) return invalid_argument(where + ": not a token id");
  return static_cast<TokenId>(*id);
}

// Appends the ids of a named special token of a template.
Status append_special(const json::Value& section,
                      const json::Value& item,
                      const std::string& where,
                      std::vector<TokenId>& out) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string name, string_field(item, "id", where));
  const json::Value* tokens = section.find("special_tokens");
  const json::Value* token = tokens == nullptr ? nullptr : tokens->find(name);
  const json::Value* ids = token == nullptr ? nullptr : token->find("ids");
  if (ids == nullptr || !ids->is_array())
    return invalid_argument(where + ": no ids for the special token \"" + name + "\"");
  for (const json::Value& id : ids->as_array()) {
    COXSWAIN_ASSIGN_OR_RETURN(const TokenId token_id, token_id_of(id, where));
    out.push_back(token_id);
  }
  return {};
}

Status read_template(const json::Value& section, const std::string& where, PostProcessor& out) {
  const json::Value* single = section.find("single");
  if (single == nullptr || !single->is_array()) return field_error(where, "single", "an array");
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  bool has_text = false;
  for (const json::Value& item : single->as_array()) {
    if (const json::Value* special = item.find("SpecialToken")) {
      COXSWAIN_RETURN_IF_ERROR(
          append_special(section, *special, where + ".single", has_text ? suffix : prefix));
    } else if (item.find("Sequence") == nullptr || has_text) {
      return field_error(where, "single", "special tokens around one sequence");
    } else {
      has_text = true;
    }
  }
  if (!has_text) return field_error(where, "single", "special tokens around one sequence");
  out.prefix.insert(out.prefix.begin(), prefix.begin(), prefix.end());
  out.suffix.insert(out.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

// {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}
Status read_pair(const json::Value& section,
                 std::string_view name,
                 const std::string& where,
                 TokenId& out) {
  const json::Value* pair = section.find(name);
  if (pair == nullptr || !pair->is_array() || pair->as_array().size() != 2)
    return field_error(where, name, "[token, id]");
  COXSWAIN_ASSIGN_OR_RETURN(out, token_id_of(pair->as_array()[1], where));
  return {};
}

Status read_around(const json::Value& section, const std::string& where, PostProcessor& out) {
  TokenId before = 0;
  TokenId after = 0;
  COXSWAIN_RETURN_IF_ERROR(read_pair(section, "cls", where, before));
  COXSWAIN_RETURN_IF_ERROR(read_pair(section, "sep", where, after));
  out.prefix.insert(out.prefix.begin(), before);
  out.suffix.push_back(after);
  return {};
}

Status read_trimming(const json::Value& section, const std::string& where, PostProcessor& out) {
  COXSWAIN_ASSIGN_OR_RETURN(out.trims_offsets, bool_field(section, "trim_offsets", true, where));
  COXSWAIN_ASSIGN_OR_RETURN(out.adds_prefix_space,
                            bool_field(section, "add_prefix_space", true, where));
  return {};
}

Status read_section(const json::Value& section, const std::string& where, PostProcessor& out) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string type, string_field(section, "type", where));
  if (type == "ByteLevel") return read_trimming(section, where, out);
  if (type == "TemplateProcessing") return read_template(section, where, out);
  if (type == "BertProcessing") return read_around(section, where, out);
  if (type == "RobertaProcessing") {
    COXSWAIN_RETURN_IF_ERROR(read_trimming(section, where, out));
    return read_around(section, where, out);
  }
  if (type != "Sequence")
    return invalid_argument(where + ": unknown post-processor \"" + type + "\"");
  const json::Value* list = section.find("processors");
  if (list == nullptr || !list->is_array()) return field_error(where, "processors", "an array");
  for (std::size_t i = 0; i < list->as_array().size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(
        read_section(list->as_array()[i], where + ".processors[" + std::to_string(i) + "]", out));
  return {};
}

}  // namespace

Result<PostProcessor> parse_post_processor(const json::Value& section, const std::string& where) {
  PostProcessor out;
  if (section.is_null()) return out;
  COXSWAIN_RETURN_IF_ERROR(read_section(section, where, out));
  return out;
}

}  // namespace coxswain::tokenizer
