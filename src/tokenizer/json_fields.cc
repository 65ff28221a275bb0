#include "tokenizer/json_fields.h"

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {

Status field_error(const std::string& where, std::string_view name, std::string_view must_be) {
  return invalid_argument(where + ": member \"" + std::string(name) + "\" must be " +
                          std::string(must_be));
}

Result<std::optional<std::string>> optional_string_field(const json::Value& object,
                                                         std::string_view name,
                                                         const std::string& where) {
  const json::Value* value = object.find(name);
  if (value == nullptr || value->is_null()) return std::optional<std::string>();
  if (!value->is_string()) return field_error(where, name, "a string or null");
  return std::optional<std::string>(value->as_string());
}

Result<std::string> string_field(const json::Value& object,
                                 std::string_view name,
                                 const std::string& where) {
  COXSWAIN_ASSIGN_OR_RETURN(std::optional<std::string> value,
                            optional_string_field(object, name, where));
  if (!value) return field_error(where, name, "a string");
  return std::move(*value);
}

Result<std::string> character_field(const json::Value& object,
                                    std::string_view name,
                                    const std::string& where) {
  COXSWAIN_ASSIGN_OR_RETURN(std::string value, string_field(object, name, where));
  if (count_characters(value) != 1) return field_error(where, name, "one character");
  return value;
}

Result<std::string> string_field_or(const json::Value& object,
                                    std::string_view name,
                                    std::string fallback,
                                    const std::string& where) {
  COXSWAIN_ASSIGN_OR_RETURN(std::optional<std::string> value,
                            optional_string_field(object, name, where));
  return value ? std::move(*value) : std::move(fallback);
}

Result<bool> bool_field(const json::Value& object,
                        std::string_view name,
                        bool fallback,
                        const std::string& where) {
  const json::Value* value = object.find(name);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_bool()) return field_error(where, name, "true, false or null");
  return value->as_bool();
}

Result<std::int64_t> integer_field(const json::Value& object,
                                   std::string_view name,
                                   std::int64_t fallback,
                                   const std::string& where) {
  const json::Value* value = object.find(name);
  if (value == nullptr || value->is_null()) return fallback;
  const std::optional<std::int64_t> number = value->to_int64();
  if (!number) return field_error(where, name, "an integer");
  return *number;
}

Result<Pattern> pattern_field(const json::Value& object, const std::string& where) {
  const json::Value* value = object.find("pattern");
  if (value != nullptr && value->is_string()) return Pattern{value->as_string(), false};
  for (const std::string_view kind : {"String", "Regex"}) {
    const json::Value* text = value == nullptr ? nullptr : value->find(kind);
    if (text != nullptr && text->is_string()) return Pattern{text->as_string(), kind == "Regex"};
  }
  return field_error(where, "pattern", "{\"String\": ...} or {\"Regex\": ...}");
}

}  // namespace coxswain::tokenizer
