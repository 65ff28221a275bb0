#include "openapi/document.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/fatal.h"
#include "openapi/notation.h"

namespace coxswain::openapi {
namespace {

using json::Array;
using json::Value;
using Tree = json::Object;  // of JSON; an Object is one of the description
using Kind = Operation::Kind;

constexpr std::initializer_list<ErrorKind> kOfAll{ErrorKind::kBadRequest,
                                                  ErrorKind::kTimeout,
                                                  ErrorKind::kUriTooLong,
                                                  ErrorKind::kHeadersTooLarge};
constexpr std::initializer_list<ErrorKind> kOfBodies{ErrorKind::kInvalidJson,
                                                     ErrorKind::kValidation,
                                                     ErrorKind::kUnsupportedMediaType,
                                                     ErrorKind::kPayloadTooLarge,
                                                     ErrorKind::kOverloaded,
                                                     ErrorKind::kUnavailable,
                                                     ErrorKind::kInternal};
constexpr std::initializer_list<ErrorKind> kOfGeneration{ErrorKind::kContextLength,
                                                         ErrorKind::kGeneration,
                                                         ErrorKind::kIncompleteGeneration,
                                                         ErrorKind::kQueueTimeout,
                                                         ErrorKind::kDeadline};

Tree tree(std::initializer_list<std::pair<std::string_view, Value>> members) {
  Tree out;
  for (const auto& [name, value] : members) out.append_new(std::string(name), value);
  return out;
}

Value constant(std::string_view text) {
  const auto parsed = json::parse(text);
  base::require(parsed.ok(), "a value of the API's description is no JSON");
  return *parsed;
}

void describe_in(Tree& schema, std::string_view about) {
  if (!about.empty()) schema.set("description", about);
}

bool is_required(const Object& object, const Member& member) {
  if (object.side == Object::Side::kRequest) return member.presence == kRequired;
  return member.presence != kMayBeAbsent;
}

Value schema_of_member(const Object& object, const Member& member) {
  const bool nullable = object.side == Object::Side::kRequest && !is_required(object, member);
  Value out = nullable ? nullable_schema_of(member.type) : schema_of(member.type);
  describe_in(out.as_object(), member.about);
  if (!member.otherwise.empty()) out.as_object().set("default", constant(member.otherwise));
  return out;
}

Value schema_of_object(const Object& object) {
  if (!object.type.empty()) {
    Value out = schema_of(object.type);
    describe_in(out.as_object(), object.about);
    return out;
  }
  Tree properties;
  Array required;
  for (const Member& member : object.members) {
    properties.set(std::string(member.name), schema_of_member(object, member));
    if (is_required(object, member)) required.emplace_back(member.name);
  }
  Tree out = tree({{"type", "object"}});
  describe_in(out, object.about);
  out.append_new("properties", std::move(properties));
  if (!required.empty()) out.append_new("required", std::move(required));
  return Value(std::move(out));
}

std::string_view error_object(api::ApiStyle style) {
  switch (style) {
    case api::ApiStyle::kOpenAi:
      return "OpenAiError";
    case api::ApiStyle::kAnthropic:
      return "AnthropicError";
    case api::ApiStyle::kOllama:
      return "OllamaError";
    case api::ApiStyle::kNative:
    case api::ApiStyle::kTgi:
      break;
  }
  return "ErrorResponse";
}

// What may come in a stream that has begun.
std::string_view error_event(api::ApiStyle style) {
  return style == api::ApiStyle::kTgi ? "TgiStreamError" : error_object(style);
}

Value content(std::string_view media_type, Value schema) {
  Tree media = tree({{"schema", std::move(schema)}});
  return Value(tree({{media_type, Value(std::move(media))}}));
}

constexpr std::string_view kServerSentEvents = "text/event-stream";

// One event, as OpenAPI 3.2 describes those of a stream.
Value event_of(Value schema, std::string_view last_data) {
  Tree data = tree({{"type", "string"},
                    {"contentMediaType", "application/json"},
                    {"contentSchema", std::move(schema)}});
  if (!last_data.empty()) {
    Tree last = tree({{"type", "string"}, {"const", last_data}});
    data = tree({{"anyOf", Array{Value(std::move(data)), Value(std::move(last))}}});
  }
  Tree members;
  members.append_new("data", std::move(data));
  Tree out = tree({{"type", "object"}, {"description", "One event."}});
  out.append_new("properties", std::move(members));
  out.append_new("required", Array{"data"});
  return Value(std::move(out));
}

class Writer {
 public:
  Writer(const Description& description, const DocumentOptions& options)
      : description_(description), options_(options) {}

  Value document() const {
    Tree paths;
    for (const Operation& operation : description_.operations()) {
      std::string method(operation.method);
      std::ranges::transform(
          method, method.begin(), [](char c) { return static_cast<char>(c | 0x20); });
      const std::string path(operation.path);
      Value* item = paths.find(path);
      if (item == nullptr) {
        paths.append_new(path, Tree());
        item = paths.find(path);
      }
      item->as_object().append_new(std::move(method), operation_object(operation));
    }
    Tree out = tree({{"openapi", "3.1.0"}, {"info", info()}, {"tags", tags()}});
    out.append_new("paths", std::move(paths));
    out.append_new("components", components());
    return Value(std::move(out));
  }

 private:
  Value info() const {
    return Value(
        tree({{"title", "Coxswain"},
              {"version", options_.version},
              {"description",
               "A server for large language models with the APIs of text-generation-inference, "
               "OpenAI, Anthropic and Ollama. In requests null means that a member is absent, and "
               "members that are not described change nothing, are refused by name where another "
               "server documents them, or are refused with --strict-fields."}}));
  }

  Value tags() const {
    Array out;
    for (const Description::Family& family : description_.families()) {
      out.emplace_back(tree({{"name", family.name}, {"description", family.about}}));
    }
    return Value(std::move(out));
  }

  Value components() const {
    Tree schemas;
    for (const Object& object : description_.objects())
      schemas.append_new(std::string(object.name), schema_of_object(object));
    const auto header = [](std::string_view name) {
      return Value(tree({{"type", "apiKey"}, {"in", "header"}, {"name", name}}));
    };
    Tree keys = tree({{"bearer", Value(tree({{"type", "http"}, {"scheme", "bearer"}}))},
                      {"x-api-key", header("x-api-key")},
                      {"api-key", header("api-key")}});
    return Value(tree(
        {{"schemas", Value(std::move(schemas))}, {"securitySchemes", Value(std::move(keys))}}));
  }

  bool needs_key(const Operation& operation) const {
    if (!options_.has_keys) return false;
    if (operation.access == Operation::Access::kKey) return true;
    return operation.access == Operation::Access::kOpen && options_.protect_all;
  }

  Value operation_object(const Operation& operation) const {
    Tree out = tree({{"operationId", operation.id},
                     {"summary", operation.about},
                     {"tags", Array{operation.family}}});
    if (const Array parameters = parameters_of(operation); !parameters.empty())
      out.append_new("parameters", parameters);
    if (!operation.request.empty()) out.append_new("requestBody", request_body(operation));
    out.append_new("responses", responses(operation));
    Array security;
    if (needs_key(operation)) {
      for (const std::string_view scheme : {"bearer", "x-api-key", "api-key"})
        security.emplace_back(tree({{scheme, Array()}}));
    }
    out.append_new("security", std::move(security));
    return Value(std::move(out));
  }

  static Array parameters_of(const Operation& operation) {
    Array out;
    const std::size_t begin = operation.path.find('{');
    if (begin == std::string_view::npos) return out;
    const std::size_t end = operation.path.find('}');
    out.emplace_back(tree({{"name", operation.path.substr(begin + 1, end - begin - 1)},
                           {"in", "path"},
                           {"required", true},
                           {"schema", schema_of("string >= 1")}}));
    return out;
  }

  static Value request_body(const Operation& operation) {
    Tree media =
        tree({{"schema", schema_of(operation.request)}, {"example", constant(operation.example)}});
    return Value(tree({{"required", true},
                       {"content", Value(tree({{"application/json", Value(std::move(media))}}))}}));
  }

  Value responses(const Operation& operation) const {
    const api::ApiStyle style = api::style_of(operation.path, options_.v1);
    Tree out;
    out.append_new("200", success(operation, style));
    std::vector<ErrorKind> kinds(kOfAll);
    const auto add = [&](std::span<const ErrorKind> more) {
      kinds.insert(kinds.end(), more.begin(), more.end());
    };
    if (operation.kind != Kind::kTells) add(kOfBodies);
    if (operation.kind == Kind::kGenerates) add(kOfGeneration);
    add(operation.refusals);
    if (needs_key(operation)) kinds.push_back(ErrorKind::kUnauthorized);
    std::map<int, std::vector<std::string_view>> by_status;
    for (const ErrorKind kind : kinds) {
      const Status status(Code::kInternal, kind, "");
      auto& names = by_status[api::http_status(style, status)];
      const std::string_view name = api::error_row(kind).name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    for (const auto& [status, names] : by_status) {
      std::string about;
      for (const std::string_view name : names)
        about.append(about.empty() ? "" : ", ").append(name);
      Tree response = tree({{"description", about}});
      response.append_new("content", content("application/json", schema_of(error_object(style))));
      out.append_new(std::to_string(status), std::move(response));
    }
    if (operation.also_status != 0) {
      Tree response = tree({{"description", "The answer, where it says no."}});
      response.append_new("content", content(operation.answer_type, schema_of(operation.answer)));
      out.append_new(std::to_string(operation.also_status), std::move(response));
    }
    return Value(std::move(out));
  }

  static Value success(const Operation& operation, api::ApiStyle style) {
    Tree out = tree({{"description", "The answer."}});
    Tree types;
    if (!operation.answer.empty() && !operation.always_streams) {
      types.append_new(std::string(operation.answer_type),
                       Tree(tree({{"schema", schema_of(operation.answer)}})));
    }
    if (!operation.event.empty()) {
      std::string events(operation.event);
      events.append("|").append(error_event(style));
      Value schema = schema_of(events);
      if (operation.event_type == kServerSentEvents) {
        schema = event_of(std::move(schema), operation.last_data);
      } else {
        describe_in(schema.as_object(), "The JSON of one line.");
      }
      types.append_new(std::string(operation.event_type), tree({{"schema", std::move(schema)}}));
    }
    if (!types.empty()) out.append_new("content", std::move(types));
    return Value(std::move(out));
  }

  const Description& description_;
  const DocumentOptions& options_;
};

void append_pretty(std::string& out, const Value& value, std::size_t depth) {
  const auto line = [&](std::size_t at) { out.append("\n").append(2 * at, ' '); };
  const bool is_array = value.is_array() && !value.as_array().empty();
  const bool is_object = value.is_object() && !value.as_object().empty();
  if (!is_array && !is_object) {
    out += json::write(value);
    return;
  }
  bool first = true;
  const auto begin_entry = [&] {
    if (!std::exchange(first, false)) out += ',';
    line(depth + 1);
  };
  out += is_array ? '[' : '{';
  if (is_array) {
    for (const Value& entry : value.as_array()) {
      begin_entry();
      append_pretty(out, entry, depth + 1);
    }
  } else {
    for (const auto& [name, member] : value.as_object()) {
      begin_entry();
      json::append_quoted(out, name);
      out += ": ";
      append_pretty(out, member, depth + 1);
    }
  }
  line(depth);
  out += is_array ? ']' : '}';
}

}  // namespace

Value make_document(const Description& description, const DocumentOptions& options) {
  return Writer(description, options).document();
}

Value make_document(const DocumentOptions& options) {
  return make_document(describe(options.v1), options);
}

std::string pretty(const Value& value) {
  std::string out;
  append_pretty(out, value, 0);
  return out + "\n";
}

}  // namespace coxswain::openapi
