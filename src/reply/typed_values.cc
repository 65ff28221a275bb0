#include "reply/typed_values.h"

#include <algorithm>
#include <array>
#include <vector>

#include "reply/characters.h"

namespace coxswain::reply {

namespace {

using Types = std::vector<std::string>;

// Python's names of types, which tools are declared with although JSON schema does not know them.
constexpr std::array<std::array<std::string_view, 2>, 6> kPythonTypes = {{{"str", "string"},
                                                                          {"int", "integer"},
                                                                          {"float", "number"},
                                                                          {"bool", "boolean"},
                                                                          {"dict", "object"},
                                                                          {"list", "array"}}};

void append_type(const json::Value& value, Types& types) {
  if (!value.is_string()) return;
  types.push_back(value.as_string());
  for (const auto& [python, name] : kPythonTypes) {
    if (types.back() == python) types.back() = name;
  }
}

// The names of the types that a schema allows; none if it does not say.
Types types_of(const json::Value& schema) {
  Types types;
  if (!schema.is_object()) return types;
  if (const json::Value* type = schema.find("type")) {
    append_type(*type, types);
    if (type->is_array()) {
      for (const json::Value& one : type->as_array()) append_type(one, types);
    }
    return types;
  }
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const json::Value* choices = schema.find(key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const json::Value& choice : choices->as_array()) {
      const json::Value* type = choice.is_object() ? choice.find("type") : nullptr;
      if (type != nullptr) append_type(*type, types);
    }
  }
  return types;
}

Types declared_types(const Tool* tool, std::string_view key) {
  if (tool == nullptr || !tool->parameters.is_object()) return {};
  const json::Value* properties = tool->parameters.find("properties");
  if (properties == nullptr || !properties->is_object()) return {};
  const json::Value* schema = properties->find(key);
  return schema == nullptr ? Types{} : types_of(*schema);
}

bool has(const Types& types, std::string_view name) {
  return std::ranges::find(types, name) != types.end();
}

bool allows(const Types& types, const json::Value& value) {
  using Type = json::Value::Type;
  const bool text = has(types, "string");
  switch (value.type()) {
    case Type::kNull:
      return types.empty() || has(types, "null");
    case Type::kBool:
      return types.empty() || (!text && has(types, "boolean"));
    case Type::kNumber:
      return types.empty() || (!text && (has(types, "number") || has(types, "integer")));
    case Type::kArray:
      return types.empty() || (!text && has(types, "array"));
    case Type::kObject:
      return types.empty() || (!text && has(types, "object"));
    case Type::kString:
      return types.empty();
  }
  return false;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out;
}

std::string typed_value(const Tool* tool, std::string_view key, std::string_view text) {
  const Types types = declared_types(tool, key);
  const std::string_view bare = trimmed(text);
  if (has(types, "boolean") && !has(types, "string")) {
    if (bare == "True") return "true";
    if (bare == "False") return "false";
  }
  if (types.size() == 1 && types[0] == "string") return quoted(text);
  const Result<json::Value> value = json::parse(bare);
  if (value.ok() && allows(types, value.value())) return std::string(bare);
  return quoted(text);
}

void ObjectText::add(std::string_view key, std::string_view value) {
  if (text_.size() > 1) text_ += ", ";
  json::append_quoted(text_, key);
  text_ += ": ";
  text_ += value;
}

}  // namespace coxswain::reply
