#include "api/grammar_document.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/errors.h"

namespace coxswain::api {
namespace {

using grammar::SchemaOptions;
using grammar::Source;

constexpr std::size_t kTypeBytesMax = 64;
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kDescriptionBytesMax = 16 << 10;
// Of a schema that comes as the text of one, as the router reads bodies.
constexpr json::ParseLimits kTextLimits{
    .number_chars_max = 64, .members_max = 10'000, .elements_max = 10'000};

// Which documents an object with a `type` belongs to.
enum class Family : std::uint8_t { kNative, kV1 };

std::string quoted(std::string_view path) {
  return "`" + std::string(path) + "`";
}

std::string below(std::string_view path, std::string_view member) {
  return std::string(path) + "." + std::string(member);
}

Status wrong(const std::string& path, std::string_view must, std::string_view given) {
  std::string text = quoted(path) + " must ";
  text.append(must).append(". Given: ").append(given);
  return invalid_argument(std::move(text), path);
}

Status missing(const std::string& path) {
  return invalid_argument(quoted(path) + " is missing", path);
}

Status check_bytes(const std::string& path, std::size_t n_bytes) {
  if (n_bytes <= grammar::kSourceBytesMax) return {};
  return wrong(path,
               "have at most " + std::to_string(grammar::kSourceBytesMax) + " bytes",
               std::to_string(n_bytes));
}

Status refuse_both(std::string_view first, const std::string& second) {
  return invalid_argument(
      quoted(first) + " and " + quoted(second) + " must not both ask for a form of the answer",
      second);
}

// The first failure of an object at `path`; what no call named is refused.
Status finish_object(FieldReader& fields, const json::Object& object, std::string_view path) {
  for (const auto& member : object) {
    if (!fields.has_read(member.first)) fields.require_neutral(member.first, "");
  }
  if (fields.ok()) return {};
  return within(fields.status(), quoted(path), below(path, fields.status().field()));
}

Result<Source> text_source(Source::Kind kind, const json::Value& value, const std::string& path) {
  if (!value.is_string()) return wrong(path, "be a string", given_text(value));
  COXSWAIN_RETURN_IF_ERROR(check_bytes(path, value.as_string().size()));
  return Source{.kind = kind, .text = value.as_string()};
}
Result<Source> regex_source(const json::Value& value, const std::string& path) {
  return text_source(Source::Kind::kRegex, value, path);
}
Result<Source> rules_source(const json::Value& value, const std::string& path) {
  return text_source(Source::Kind::kRules, value, path);
}

// TGI's clients write schemas without a `type`: what has `properties` is an object there. By JSON Schema it may be
// anything else as well.
json::Value as_tgi_reads(const json::Value& schema) {
  if (schema.find("properties") == nullptr || schema.find("type") != nullptr) return schema;
  json::Object out;
  out.append_new("type", "object");
  for (const auto& [name, value] : schema.as_object()) out.append_new(name, value);
  return json::Value(std::move(out));
}

Result<Source> schema_source(const json::Value& schema,
                             const std::string& path,
                             const SchemaOptions& options) {
  if (!schema.is_object()) return wrong(path, "be an object", given_text(schema));
  const bool is_tgis = options == grammar::kTgiSchema;
  Source out{.kind = Source::Kind::kJsonSchema,
             .text = json::write(is_tgis ? as_tgi_reads(schema) : schema),
             .schema = options};
  COXSWAIN_RETURN_IF_ERROR(check_bytes(path, out.text.size()));
  return out;
}

// A schema, or the text of one, which is how clients without a type for schemas send them.
Result<Source> schema_or_text_source(const json::Value& value,
                                     const std::string& path,
                                     Family family,
                                     const SchemaOptions& options) {
  const bool native = family == Family::kNative;
  if (value.is_object()) return schema_source(value, path, options);
  if (!value.is_string()) {
    if (native) return invalid_argument("grammar is not supported", path);
    return wrong(path, "be an object or the JSON text of one", given_text(value));
  }
  COXSWAIN_RETURN_IF_ERROR(check_bytes(path, value.as_string().size()));
  const std::string refusal = native
                                  ? "grammar is not valid: "
                                  : quoted(path) + " must be an object or the JSON text of one: ";
  const auto parsed = json::parse(value.as_string(), kTextLimits);
  if (!parsed.ok()) return invalid_argument(refusal + parsed.status().message(), path);
  if (!parsed->is_object()) {
    return invalid_argument(
        refusal + "the text must be that of an object. Given: " + given_text(*parsed), path);
  }
  return schema_source(*parsed, path, options);
}

// {"name", "schema"}, and what OpenAI has beside them. A schema is enforced whether `strict` or not.
Result<Source> named_schema_source(const json::Value& value,
                                   const std::string& path,
                                   const SchemaOptions& options) {
  if (!value.is_object()) return wrong(path, "be an object", given_text(value));
  FieldReader fields(value.as_object());
  fields.read_string("name", kNameBytesMax);
  fields.read_string("description", kDescriptionBytesMax);
  fields.read_bool("strict");
  const json::Value* schema = fields.find("schema");
  COXSWAIN_RETURN_IF_ERROR(finish_object(fields, value.as_object(), path));
  if (schema == nullptr) return missing(below(path, "schema"));
  return schema_source(*schema, below(path, "schema"), options);
}

Result<Source> choice_source(const json::Value& value, const std::string& path) {
  if (!value.is_array()) return wrong(path, "be an array of strings", given_text(value));
  const json::Array& array = value.as_array();
  if (array.empty()) return wrong(path, "have at least 1 string", "0");
  Source out{.kind = Source::Kind::kChoice};
  std::size_t n_bytes = 0;
  for (const json::Value& entry : array) {
    if (!entry.is_string()) {
      return wrong(
          path, "be an array of strings", "an array with " + std::string(type_name(entry)));
    }
    n_bytes += entry.as_string().size();
    out.choices.push_back(entry.as_string());
  }
  COXSWAIN_RETURN_IF_ERROR(check_bytes(path, n_bytes));
  return out;
}

using Asked = std::optional<AskedGrammar>;

Result<Asked> asked(Result<Source> source, std::string path) {
  if (!source.ok()) return source.status();
  return Asked(AskedGrammar{std::move(source).value(), std::move(path)});
}

// {"type": "json_schema"}: the schema stands in `json_schema` in OpenAI's form, in `value` in TGI's.
Result<Asked> read_json_schema(const json::Value* named,
                               const json::Value* value,
                               const std::string& path,
                               Family family,
                               const SchemaOptions& options) {
  const std::string_view member =
      family == Family::kNative || value != nullptr ? "value" : "json_schema";
  if (named != nullptr && value != nullptr)
    return refuse_both(below(path, "json_schema"), below(path, "value"));
  if (named == nullptr) named = value;
  if (named == nullptr) return missing(below(path, member));
  return asked(named_schema_source(*named, below(path, member), options),
               below(path, member) + ".schema");
}

// An object with a `type`. Empty if it asks for any text.
Result<Asked> read_typed_form(const json::Value& object, const std::string& path, Family family) {
  const bool v1 = family == Family::kV1;
  const SchemaOptions options = v1 ? SchemaOptions{} : grammar::kTgiSchema;
  if (!object.is_object()) return wrong(path, "be an object", given_text(object));
  FieldReader fields(object.as_object());
  const auto type = fields.read_string("type", kTypeBytesMax);
  const json::Value* value = type == "text" ? nullptr : fields.find("value");
  const json::Value* named = v1 && type == "json_schema" ? fields.find("json_schema") : nullptr;
  if (type) COXSWAIN_RETURN_IF_ERROR(finish_object(fields, object.as_object(), path));
  if (!fields.ok()) return within(fields.status(), quoted(path), below(path, "type"));
  if (!type) return missing(below(path, "type"));
  const std::string value_path = below(path, "value");
  if (v1 && *type == "text") return Asked();
  if (*type == "json_schema") return read_json_schema(named, value, path, family, options);
  if (v1 && *type == "json_object" && value == nullptr) {
    return Asked(AskedGrammar{{.kind = Source::Kind::kJsonObject, .schema = options}, path});
  }
  if (*type == "json" || *type == "json_object") {
    if (value == nullptr) return missing(value_path);
    return asked(schema_or_text_source(*value, value_path, family, options), value_path);
  }
  if (*type == "regex") {
    if (value == nullptr) return missing(value_path);
    return asked(regex_source(*value, value_path), value_path);
  }
  const std::string must =
      std::string("be ") + (v1 ? "text, " : "") + "json, json_object, json_schema or regex";
  return wrong(below(path, "type"), must, echo(*type));
}

// vLLM's object: one of its kinds, and how a schema is read.
Result<Asked> read_structured_outputs(const json::Value& object, const std::string& path) {
  if (!object.is_object()) return wrong(path, "be an object", given_text(object));
  FieldReader fields(object.as_object());
  const json::Value* schema = fields.find("json");
  const json::Value* regex = fields.find("regex");
  const json::Value* choice = fields.find("choice");
  const json::Value* rules = fields.find("grammar");
  const bool json_object = fields.read_bool("json_object").value_or(false);
  SchemaOptions options;
  if (fields.read_bool("disable_any_whitespace").value_or(false))
    options.space = SchemaOptions::Space::kNone;
  options.closes_objects = fields.read_bool("disable_additional_properties").value_or(false);
  fields.read_bool("disable_fallback");  // nothing falls back here
  COXSWAIN_RETURN_IF_ERROR(finish_object(fields, object.as_object(), path));

  const std::array<std::pair<std::string_view, bool>, 5> kinds{{{"json", schema != nullptr},
                                                                {"regex", regex != nullptr},
                                                                {"choice", choice != nullptr},
                                                                {"grammar", rules != nullptr},
                                                                {"json_object", json_object}}};
  std::string_view kind;
  for (const auto& [name, is_given] : kinds) {
    if (!is_given) continue;
    if (!kind.empty()) return refuse_both(below(path, kind), below(path, name));
    kind = name;
  }
  if (kind.empty())
    return wrong(path, "have one of json, regex, choice, grammar and json_object", "none");
  const std::string at = below(path, kind);
  if (schema != nullptr) return asked(schema_or_text_source(*schema, at, Family::kV1, options), at);
  if (regex != nullptr) return asked(regex_source(*regex, at), at);
  if (choice != nullptr) return asked(choice_source(*choice, at), at);
  if (rules != nullptr) return asked(rules_source(*rules, at), at);
  return Asked(AskedGrammar{{.kind = Source::Kind::kJsonObject, .schema = options}, at});
}

// Anthropic's: a schema in `format`. What `effort` says is for the template.
Result<Asked> read_output_config(const json::Value& object, const std::string& path) {
  if (!object.is_object()) return wrong(path, "be an object", given_text(object));
  FieldReader fields(object.as_object());
  fields.read_string("effort", kTypeBytesMax);
  const json::Value* format = fields.find("format");
  COXSWAIN_RETURN_IF_ERROR(finish_object(fields, object.as_object(), path));
  if (format == nullptr) return Asked();
  const std::string at = below(path, "format");
  if (!format->is_object()) return wrong(at, "be an object", given_text(*format));
  FieldReader members(format->as_object());
  const auto type = members.read_string("type", kTypeBytesMax);
  const json::Value* schema = members.find("schema");
  COXSWAIN_RETURN_IF_ERROR(finish_object(members, format->as_object(), at));
  if (type != "json_schema")
    return wrong(below(at, "type"), "be json_schema", type ? echo(*type) : "none");
  if (schema == nullptr) return missing(below(at, "schema"));
  return asked(schema_source(*schema, below(at, "schema"), SchemaOptions{}), below(at, "schema"));
}

Result<Asked> read_format(const json::Value& value, const std::string& path) {
  if (value.is_object()) return asked(schema_source(value, path, SchemaOptions{}), path);
  if (!value.is_string()) return wrong(path, "be \"json\" or a schema", given_text(value));
  if (value.as_string().empty()) return Asked();
  if (value.as_string() != "json")
    return wrong(path, "be \"json\" or a schema", echo(value.as_string()));
  return Asked(AskedGrammar{{.kind = Source::Kind::kJsonObject, .schema = SchemaOptions{}}, path});
}

// OpenAI's of responses: what `json_schema` holds elsewhere stands beside the type.
Result<Asked> read_text_format(const json::Value& format, const std::string& path) {
  if (!format.is_object()) return wrong(path, "be an object", given_text(format));
  FieldReader fields(format.as_object());
  const auto type = fields.read_string("type", kTypeBytesMax);
  fields.read_string("name", kNameBytesMax);
  fields.read_string("description", kDescriptionBytesMax);
  fields.read_bool("strict");
  const json::Value* schema = fields.find("schema");
  COXSWAIN_RETURN_IF_ERROR(finish_object(fields, format.as_object(), path));
  if (schema != nullptr && !schema->is_object())
    return wrong(below(path, "schema"), "be an object", given_text(*schema));
  if (type == "text") return Asked();
  if (type == "json_object")
    return Asked(
        AskedGrammar{{.kind = Source::Kind::kJsonObject, .schema = SchemaOptions{}}, path});
  if (type != "json_schema")
    return wrong(
        below(path, "type"), "be text, json_object or json_schema", type ? echo(*type) : "none");
  if (schema == nullptr) return missing(below(path, "schema"));
  return asked(schema_source(*schema, below(path, "schema"), SchemaOptions{}),
               below(path, "schema"));
}

Result<Asked> read_text(const json::Value& object, const std::string& path) {
  if (!object.is_object()) return wrong(path, "be an object", given_text(object));
  FieldReader fields(object.as_object());
  const json::Value* format = fields.find("format");
  fields.require_neutral("verbosity", R"("medium")");
  COXSWAIN_RETURN_IF_ERROR(finish_object(fields, object.as_object(), path));
  if (format == nullptr) return Asked();
  return read_text_format(*format, below(path, "format"));
}

struct FormField {
  std::string_view name;
  Result<Asked> (*read)(const json::Value& value, const std::string& path);
};

constexpr FormField kNativeField{"grammar", [](const json::Value& value, const std::string& path) {
                                   return read_typed_form(value, path, Family::kNative);
                                 }};

constexpr FormField kMessagesField{"output_config", read_output_config};
constexpr FormField kOllamaField{"format", read_format};
constexpr FormField kResponsesField{"text", read_text};

constexpr std::array<FormField, 6> kV1Fields{{
    {"response_format",
     [](const json::Value& value, const std::string& path) {
       return read_typed_form(value, path, Family::kV1);
     }},
    {"guided_json",
     [](const json::Value& value, const std::string& path) {
       return asked(schema_or_text_source(value, path, Family::kV1, SchemaOptions{}), path);
     }},
    {"guided_regex",
     [](const json::Value& value, const std::string& path) {
       return asked(regex_source(value, path), path);
     }},
    {"guided_choice",
     [](const json::Value& value, const std::string& path) {
       return asked(choice_source(value, path), path);
     }},
    {"guided_grammar",
     [](const json::Value& value, const std::string& path) {
       return asked(rules_source(value, path), path);
     }},
    {"structured_outputs", read_structured_outputs},
}};

void read_fields(FieldReader& fields, std::span<const FormField> table, Parameters& out) {
  std::string_view first;  // of the table that asks for a form
  for (const auto& [name, read] : table) {
    const json::Value* value = fields.find(name);
    if (value == nullptr) continue;
    Result<Asked> found = read(*value, std::string(name));
    if (!found.ok()) return fields.fail(found.status());
    if (!found->has_value()) continue;
    if (!first.empty()) return fields.fail(refuse_both(first, std::string(name)));
    first = name;
    out.grammar = *std::move(found);
  }
}

}  // namespace

void read_native_grammar(FieldReader& fields, Parameters& out) {
  read_fields(fields, std::span(&kNativeField, 1), out);
}

void read_messages_grammar(FieldReader& fields, Parameters& out) {
  read_fields(fields, std::span(&kMessagesField, 1), out);
}

void read_ollama_grammar(FieldReader& fields, Parameters& out) {
  read_fields(fields, std::span(&kOllamaField, 1), out);
}

void read_responses_grammar(FieldReader& fields, Parameters& out) {
  read_fields(fields, std::span(&kResponsesField, 1), out);
}

void read_v1_grammar(FieldReader& fields, Parameters& out) {
  read_fields(fields, kV1Fields, out);
}

}  // namespace coxswain::api
