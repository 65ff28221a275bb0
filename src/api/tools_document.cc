#include "api/tools_document.h"

#include <algorithm>
#include <utility>

#include "api/errors.h"

namespace coxswain::api {
namespace {

constexpr std::size_t kTypeBytesMax = 64;

std::string quoted(std::string_view path) {
  std::string out = "`";
  out += path;
  out += '`';
  return out;
}

std::string below(std::string_view path, std::string_view member) {
  std::string out(path);
  out += '.';
  out += member;
  return out;
}

Status wrong(const std::string& path, std::string_view must, std::string_view given) {
  std::string text = quoted(path);
  text.append(" must ").append(must).append(". Given: ").append(given);
  return invalid_argument(std::move(text), path);
}

struct Declared {
  std::vector<reply::Tool> tools;
  json::Array list;  // in OpenAI's form
  std::vector<std::string> strict;
};

// Name and parameters of a declared function. `schema_names`: of the member with the schema, and an older one or none.
Result<reply::Tool> read_function(const json::Value& value,
                                  const std::string& path,
                                  const std::pair<std::string_view, std::string_view>& schema_names,
                                  const DocumentLimits& limits) {
  if (!value.is_object()) return wrong(path, "be an object", given_text(value));
  FieldReader fields(value.as_object());
  reply::Tool out;
  const auto name = fields.read_string("name", limits.tool_name_bytes_max);
  const json::Value* schema = nullptr;
  for (const std::string_view schema_name : {schema_names.first, schema_names.second}) {
    const json::Value* found = schema_name.empty() ? nullptr : fields.find(schema_name);
    if (found != nullptr && !found->is_object())
      return wrong(below(path, schema_name), "be an object", given_text(*found));
    if (schema == nullptr) schema = found;
  }
  fields.read_bool("strict");
  if (!fields.ok())
    return within(fields.status(), quoted(path), below(path, fields.status().field()));
  if (!name || name->empty())
    return wrong(below(path, "name"), "be a string that is not empty", name ? "\"\"" : "none");
  out.name = *name;
  if (schema != nullptr) out.parameters = *schema;
  return out;
}

bool is_strict(const json::Value& function) {
  const json::Value* strict = function.find("strict");
  return strict != nullptr && strict->is_bool() && strict->as_bool();
}

// The function as templates read it: its schema is in `parameters`.
json::Value with_parameters(const json::Value& function) {
  if (function.find("parameters") != nullptr || function.find("arguments") == nullptr)
    return function;
  json::Object out;
  for (const auto& [name, value] : function.as_object())
    out.append_new(name == "arguments" ? "parameters" : name, value);
  return json::Value(std::move(out));
}

Status add_openai_tool(const json::Value& value,
                       const std::string& path,
                       const DocumentLimits& limits,
                       Declared& out) {
  if (!value.is_object()) return wrong(path, "be an object with a `function`", given_text(value));
  FieldReader fields(value.as_object());
  const std::string type = fields.read_string("type", kTypeBytesMax).value_or("function");
  const json::Value* function = fields.find("function");
  if (!fields.ok()) return within(fields.status(), quoted(path), below(path, "type"));
  if (type != "function") {
    return unsupported(quoted(below(path, "type")) + " must be function. Given: " + echo(type),
                       below(path, "type"));
  }
  if (function == nullptr) return wrong(path, "have a `function`", "none");
  COXSWAIN_ASSIGN_OR_RETURN(
      reply::Tool tool,
      read_function(*function, below(path, "function"), {"parameters", "arguments"}, limits));
  json::Object listed;
  listed.append_new("type", std::string("function"));
  listed.append_new("function", with_parameters(*function));
  out.list.emplace_back(std::move(listed));
  if (is_strict(*function)) out.strict.push_back(tool.name);
  out.tools.push_back(std::move(tool));
  return {};
}

// A declared function in OpenAI's form, as templates read it.
json::Value listed_tool(const reply::Tool& tool, const json::Value& declared) {
  json::Object function;
  function.append_new("name", tool.name);
  const json::Value* description = declared.find("description");
  if (description != nullptr && description->is_string())
    function.append_new("description", *description);
  if (!tool.parameters.is_null()) function.append_new("parameters", tool.parameters);
  json::Object out;
  out.append_new("type", std::string("function"));
  out.append_new("function", std::move(function));
  return json::Value(std::move(out));
}

// The function's members stand in the tool itself.
Status add_responses_tool(const json::Value& value,
                          const std::string& path,
                          const DocumentLimits& limits,
                          Declared& out) {
  if (!value.is_object()) return wrong(path, "be an object", given_text(value));
  FieldReader fields(value.as_object());
  const std::string type = fields.read_string("type", kTypeBytesMax).value_or("function");
  if (!fields.ok()) return within(fields.status(), quoted(path), below(path, "type"));
  if (type != "function") {
    return unsupported(quoted(below(path, "type")) +
                           " must be function: this server runs no tools. Given: " + echo(type),
                       below(path, "type"));
  }
  COXSWAIN_ASSIGN_OR_RETURN(reply::Tool tool,
                            read_function(value, path, {"parameters", ""}, limits));
  out.list.push_back(listed_tool(tool, value));
  if (is_strict(value)) out.strict.push_back(tool.name);
  out.tools.push_back(std::move(tool));
  return {};
}

Status add_anthropic_tool(const json::Value& value,
                          const std::string& path,
                          const DocumentLimits& limits,
                          Declared& out) {
  if (!value.is_object()) return wrong(path, "be an object", given_text(value));
  FieldReader fields(value.as_object());
  const std::string type = fields.read_string("type", kTypeBytesMax).value_or("custom");
  if (!fields.ok()) return within(fields.status(), quoted(path), below(path, "type"));
  if (type != "custom") {
    return unsupported(quoted(below(path, "type")) +
                           " must be custom: this server runs no tools. Given: " + echo(type),
                       below(path, "type"));
  }
  COXSWAIN_ASSIGN_OR_RETURN(reply::Tool tool,
                            read_function(value, path, {"input_schema", ""}, limits));
  if (tool.parameters.is_null()) return wrong(below(path, "input_schema"), "be an object", "none");
  out.list.push_back(listed_tool(tool, value));
  if (is_strict(value)) out.strict.push_back(tool.name);
  out.tools.push_back(std::move(tool));
  return {};
}

using AddTool = Status (*)(const json::Value&,
                           const std::string&,
                           const DocumentLimits&,
                           Declared&);

Result<Declared> read_list(const json::Value& tools, AddTool add, const DocumentLimits& limits) {
  if (!tools.is_array()) return wrong("tools", "be an array", given_text(tools));
  const json::Array& array = tools.as_array();
  if (array.size() > limits.tools_max) {
    return wrong("tools",
                 "have at most " + std::to_string(limits.tools_max) + " entries",
                 std::to_string(array.size()));
  }
  Declared out;
  for (std::size_t i = 0; i < array.size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(add(array[i], "tools." + std::to_string(i), limits, out));
  return out;
}

// What `tool_choice` says, whatever its spelling.
struct Choice {
  enum class Kind : std::uint8_t { kAuto, kNone, kRequired, kNamed } kind = Kind::kAuto;
  std::string name;
  bool parallel = true;
};

Choice choice_of_word(const std::string& word) {
  if (word == "auto") return {};
  if (word == "none") return {Choice::Kind::kNone, {}, true};
  if (word == "required") return {Choice::Kind::kRequired, {}, true};
  return {Choice::Kind::kNamed, word, true};  // TGI's short form
}

Result<Choice> read_openai_choice(const json::Value& value, const DocumentLimits& limits) {
  constexpr std::string_view kMust =
      R"(be "none", "auto", "required" or {"type":"function","function":{"name":...}})";
  if (value.is_string()) return choice_of_word(value.as_string());
  if (!value.is_object()) return wrong("tool_choice", kMust, given_text(value));
  FieldReader fields(value.as_object());
  const std::string type = fields.read_string("type", kTypeBytesMax).value_or("function");
  const json::Value* function = fields.find("function");
  if (!fields.ok()) return within(fields.status(), "`tool_choice`", "tool_choice.type");
  if (type != "function") return wrong("tool_choice.type", "be function", echo(type));
  if (function == nullptr || !function->is_object())
    return wrong("tool_choice.function", "be an object with a `name`", "none");
  FieldReader members(function->as_object());
  const auto name = members.read_string("name", limits.tool_name_bytes_max);
  if (!members.ok())
    return within(members.status(), "`tool_choice.function`", "tool_choice.function.name");
  if (!name) return wrong("tool_choice.function", "have a `name`", "none");
  return Choice{Choice::Kind::kNamed, *name, true};
}

Result<Choice> read_responses_choice(const json::Value& value, const DocumentLimits& limits) {
  constexpr std::string_view kMust =
      R"(be "none", "auto", "required" or {"type":"function","name":...})";
  if (value.is_string()) return choice_of_word(value.as_string());
  if (!value.is_object()) return wrong("tool_choice", kMust, given_text(value));
  FieldReader fields(value.as_object());
  const std::string type = fields.read_string("type", kTypeBytesMax).value_or("function");
  const auto name = fields.read_string("name", limits.tool_name_bytes_max);
  if (!fields.ok())
    return within(fields.status(), "`tool_choice`", below("tool_choice", fields.status().field()));
  if (type != "function") {
    return unsupported("`tool_choice.type` must be function. Given: " + echo(type),
                       "tool_choice.type");
  }
  if (!name) return wrong("tool_choice", "have a `name`", "none");
  return Choice{Choice::Kind::kNamed, *name, true};
}

Result<Choice> read_anthropic_choice(const json::Value& value, const DocumentLimits& limits) {
  if (!value.is_object())
    return wrong("tool_choice", "be an object with a `type`", given_text(value));
  FieldReader fields(value.as_object());
  const std::string type = fields.read_string("type", kTypeBytesMax).value_or("");
  const auto name = fields.read_string("name", limits.tool_name_bytes_max);
  Choice out;
  out.parallel = !fields.read_bool("disable_parallel_tool_use").value_or(false);
  if (!fields.ok())
    return within(fields.status(), "`tool_choice`", below("tool_choice", fields.status().field()));
  if (type == "none") {
    out.kind = Choice::Kind::kNone;
  } else if (type == "any") {
    out.kind = Choice::Kind::kRequired;
  } else if (type == "tool") {
    if (!name) return wrong("tool_choice", "have a `name`", "none");
    out.kind = Choice::Kind::kNamed;
    out.name = *name;
  } else if (type != "auto") {
    return wrong(
        "tool_choice.type", "be auto, any, tool or none", type.empty() ? "none" : echo(type));
  }
  return out;
}

// Nothing where no function may be called.
Result<AskedTools> asked(Declared declared, const Choice& choice) {
  using Kind = Choice::Kind;
  if (choice.kind == Kind::kNone) return AskedTools();
  if (choice.kind == Kind::kNamed) {
    const auto is_named = [&](const reply::Tool& tool) { return tool.name == choice.name; };
    const auto named = std::ranges::find_if(declared.tools, is_named);
    if (named == declared.tools.end()) {
      return Status(Code::kInvalidArgument,
                    ErrorKind::kToolError,
                    "Tool with name " + echo(choice.name) + " not found",
                    "tool_choice");
    }
    declared.tools = {*named};
  }
  if (declared.tools.empty()) {
    if (choice.kind == Kind::kAuto) return AskedTools();
    return wrong("tool_choice", "be none or auto where there are no `tools`", "required");
  }
  AskedTools out;
  out.list = json::Value(std::move(declared.list));
  out.callable = std::make_shared<const std::vector<reply::Tool>>(std::move(declared.tools));
  out.strict = std::move(declared.strict);
  if (choice.kind == Kind::kRequired) out.choice = AskedTools::Choice::kRequired;
  if (choice.kind == Kind::kNamed) out.choice = AskedTools::Choice::kNamed;
  out.parallel = choice.parallel;
  return out;
}

AskedTools read_tools(FieldReader& fields,
                      AddTool add,
                      Result<Choice> (*read_choice)(const json::Value&, const DocumentLimits&),
                      const DocumentLimits& limits) {
  const json::Value* tools = fields.find("tools");
  const json::Value* choice = fields.find("tool_choice");
  Result<Declared> declared = tools != nullptr ? read_list(*tools, add, limits) : Declared();
  if (!declared.ok()) {
    fields.fail(declared.status());
    return {};
  }
  const Result<Choice> read = choice != nullptr ? read_choice(*choice, limits) : Choice();
  if (!read.ok()) {
    fields.fail(read.status());
    return {};
  }
  Result<AskedTools> out = asked(std::move(declared).value(), *read);
  if (out.ok()) return std::move(out).value();
  fields.fail(out.status());
  return {};
}

}  // namespace

AskedTools read_openai_tools(FieldReader& fields, const DocumentLimits& limits) {
  AskedTools out = read_tools(fields, add_openai_tool, read_openai_choice, limits);
  if (!fields.read_bool("parallel_tool_calls").value_or(true)) out.parallel = false;
  out.prompt = fields.read_string("tool_prompt", limits.tool_prompt_bytes_max);
  if (out.prompt && out.prompt->empty()) out.prompt.reset();
  return out;
}

AskedTools read_responses_tools(FieldReader& fields, const DocumentLimits& limits) {
  AskedTools out = read_tools(fields, add_responses_tool, read_responses_choice, limits);
  if (!fields.read_bool("parallel_tool_calls").value_or(true)) out.parallel = false;
  return out;
}

AskedTools read_anthropic_tools(FieldReader& fields, const DocumentLimits& limits) {
  return read_tools(fields, add_anthropic_tool, read_anthropic_choice, limits);
}

}  // namespace coxswain::api
