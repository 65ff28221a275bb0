#include "grammar/schema.h"

#include <algorithm>
#include <set>

namespace coxswain::grammar {
namespace {

using json::Value;

struct TypeName {
  std::string_view name;
  Types types;
};
constexpr TypeName kTypeNames[] = {{"null", kNullType},
                                   {"boolean", kBoolType},
                                   {"integer", kIntegerType},
                                   {"number", kNumberType},
                                   {"string", kStringType},
                                   {"array", kArrayType},
                                   {"object", kObjectType}};

std::optional<Types> types_named(const Value& name) {
  if (!name.is_string()) return std::nullopt;
  for (const TypeName& known : kTypeNames) {
    if (known.name == name.as_string()) return known.types;
  }
  return std::nullopt;
}

// Schemas that apply to the same value.
Schema::List in_place_of(const Schema& schema) {
  Schema::List out = schema.all_of;
  for (const Schema::List& list : schema.any_of) out.insert(out.end(), list.begin(), list.end());
  out.insert(out.end(), schema.one_of.begin(), schema.one_of.end());
  out.insert(out.end(), schema.none_of.begin(), schema.none_of.end());
  for (const auto& [name, dependent] : schema.dependent_schemas) out.push_back(dependent);
  for (const Schema* part : {schema.condition, schema.then, schema.otherwise}) {
    if (part != nullptr) out.push_back(part);
  }
  return out;
}

Schema::List parts_of(const Schema& schema) {
  Schema::List out = in_place_of(schema);
  out.insert(out.end(), schema.prefix.begin(), schema.prefix.end());
  for (const auto* named : {&schema.properties, &schema.pattern_properties}) {
    for (const auto& [name, part] : *named) out.push_back(part);
  }
  for (const Schema* part : {schema.items, schema.contains, schema.additional, schema.names}) {
    if (part != nullptr) out.push_back(part);
  }
  return out;
}

}  // namespace

Status refused_schema(std::string_view pointer, std::string_view keyword, std::string_view what) {
  std::string where(pointer);
  if (!keyword.empty()) where += pointer_part(keyword);
  return invalid_argument("the JSON schema cannot be used: at '" + where +
                          "': " + std::string(what));
}

Types type_of(const Value& value) {
  switch (value.type()) {
    case Value::Type::kNull:
      return kNullType;
    case Value::Type::kBool:
      return kBoolType;
    case Value::Type::kString:
      return kStringType;
    case Value::Type::kArray:
      return kArrayType;
    case Value::Type::kObject:
      return kObjectType;
    case Value::Type::kNumber:
      break;
  }
  const auto number = Decimal::parse(value.number_text());
  return number && number->is_integer() ? kIntegerType : kFractionType;
}

std::string value_key(const Value& value) {
  if (value.is_number()) {
    const auto number = Decimal::parse(value.number_text());
    if (!number) return value.number_text();
    return (number->is_negative() ? "-" : "") + number->digits() + "e" +
           std::to_string(number->exponent());
  }
  if (value.is_array()) {
    std::string out = "[";
    for (const Value& element : value.as_array()) out += value_key(element) + ",";
    return out + "]";
  }
  if (!value.is_object()) return json::write(value);
  std::vector<std::string> members;
  for (const auto& [name, member] : value.as_object())
    members.push_back(json::write(Value(name)) + ":" + value_key(member));
  std::ranges::sort(members);
  std::string out = "{";
  for (const std::string& member : members) out += member + ",";
  return out + "}";
}

Schema& SchemaArena::add(std::string pointer) {
  Schema& out = schemas_.emplace_back();
  out.id = static_cast<std::uint32_t>(schemas_.size() - 1);
  out.pointer = std::move(pointer);
  return out;
}

Result<const Schema*> SchemaReader::read() {
  const Schema* root = schema_at(document_.root());
  // Not by recursion: chains of references are as long as the document lets them be.
  while (!waiting_.empty() && status_.ok()) {
    const auto [place, schema] = std::move(waiting_.back());
    waiting_.pop_back();
    read_object(place, *schema);
    if (known_.size() > kSchemasMax) {
      return Status(Code::kResourceExhausted,
                    ErrorKind::kValidation,
                    "the JSON schema has more than " + std::to_string(kSchemasMax) + " parts");
    }
  }
  if (!status_.ok()) return status_;
  COXSWAIN_RETURN_IF_ERROR(check_cycles(root));
  if (document_.is_draft7()) drop_neighbours();
  return root;
}

void SchemaReader::fail(const SchemaPlace& place, std::string_view key, std::string_view what) {
  if (status_.ok()) status_ = refused_schema(place.pointer, key, what);
}

const Schema* SchemaReader::schema_at(SchemaPlace place) {
  const auto [at, is_new] = known_.try_emplace(place.value, nullptr);
  if (!is_new) return at->second;
  Schema& out = arena_.add(place.pointer);
  at->second = &out;
  if (place.value->is_bool()) {
    if (!place.value->as_bool()) out.types = 0;
  } else if (place.value->is_object()) {
    waiting_.emplace_back(std::move(place), &out);
  } else {
    fail(place, {}, "a schema is an object or a boolean");
  }
  return &out;
}

const Schema* SchemaReader::schema(const SchemaPlace& place, std::string_view key) {
  if (place.value->find(key) == nullptr) return nullptr;
  return schema_at(document_.child(place, key));
}

Schema::List SchemaReader::schemas(const SchemaPlace& place, std::string_view key) {
  Schema::List out;
  const Value* list = place.value->find(key);
  if (list == nullptr) return out;
  if (!list->is_array()) {
    fail(place, key, "must be an array of schemas");
    return out;
  }
  for (std::size_t i = 0; i < list->as_array().size(); ++i)
    out.push_back(schema_at(document_.child(place, key, std::to_string(i))));
  return out;
}

std::vector<std::pair<std::string, const Schema*>> SchemaReader::schema_map(
    const SchemaPlace& place, std::string_view key) {
  std::vector<std::pair<std::string, const Schema*>> out;
  const Value* map = place.value->find(key);
  if (map == nullptr) return out;
  if (!map->is_object()) {
    fail(place, key, "must be an object");
    return out;
  }
  for (const auto& [name, value] : map->as_object())
    out.emplace_back(name, schema_at(document_.child(place, key, name)));
  return out;
}

void SchemaReader::read_count(const SchemaPlace& place, std::string_view key, std::uint32_t& out) {
  const auto value = number(place, key);
  if (!value) return;
  if (value->is_negative() || !value->is_integer()) {
    fail(place, key, "must be an integer from 0 on");
    return;
  }
  const std::string digits = value->integer_digits();
  out = digits.size() > 9 ? kUnbounded - 1 : static_cast<std::uint32_t>(std::stoul(digits));
}

std::optional<Decimal> SchemaReader::number(const SchemaPlace& place, std::string_view key) {
  const Value* value = place.value->find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fail(place, key, "must be a number");
    return std::nullopt;
  }
  auto out = Decimal::parse(value->number_text());
  if (!out) fail(place, key, "the number has an exponent beyond 1000");
  return out;
}

std::optional<std::string> SchemaReader::text(const SchemaPlace& place, std::string_view key) {
  const Value* value = place.value->find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fail(place, key, "must be a string");
    return std::nullopt;
  }
  return value->as_string();
}

std::optional<std::vector<std::string>> SchemaReader::texts(const Value& value) {
  std::vector<std::string> out;
  if (!value.is_array()) return std::nullopt;
  for (const Value& element : value.as_array()) {
    if (!element.is_string()) return std::nullopt;
    out.push_back(element.as_string());
  }
  return out;
}

void SchemaReader::read_object(const SchemaPlace& place, Schema& out) {
  if (const auto reference = text(place, "$ref")) {
    if (!document_.names_draft() && !place.pointer.empty() && place.value->find("$id") != nullptr) {
      return fail(place, "$ref", "drafts differ on '$ref' beside '$id'; '$schema' must say which");
    }
    auto target = document_.resolve(place, *reference);
    if (!target.ok()) return fail(place, "$ref", target.status().message());
    out.all_of.push_back(schema_at(std::move(target).value()));
    out.has_reference = true;
  }
  read_types(place, out);
  read_values(place, out);
  read_numbers(place, out);
  read_strings(place, out);
  read_arrays(place, out);
  read_members(place, out);
  read_dependencies(place, out);
  read_in_place(place, out);
  read_dynamic_reference(place, out);
}

void SchemaReader::read_dynamic_reference(const SchemaPlace& place, Schema& out) {
  if (place.value->find("$recursiveRef") != nullptr) out.refused = "$recursiveRef";
  if (document_.is_draft7()) {
    if (place.value->find("$dynamicRef") != nullptr) out.refused = "$dynamicRef";
    return;
  }
  const auto reference = text(place, "$dynamicRef");
  if (!reference) return;
  auto target = document_.resolve_dynamic(place, *reference);
  if (!target.ok() || !target.value()) {
    out.refused = "$dynamicRef";
    return;
  }
  out.all_of.push_back(schema_at(*std::move(target).value()));
  out.has_reference = true;
}

void SchemaReader::read_types(const SchemaPlace& place, Schema& out) {
  const Value* value = place.value->find("type");
  if (value == nullptr) return;
  out.types = 0;
  const auto add = [&](const Value& name) {
    const auto types = types_named(name);
    if (!types) return fail(place, "type", "names a type that is not known");
    out.types |= *types;
  };
  if (!value->is_array()) return add(*value);
  for (const Value& name : value->as_array()) add(name);
}

void SchemaReader::read_values(const SchemaPlace& place, Schema& out) {
  const auto add = [&](ValueList& to, const Value& value) {
    to.all.push_back(&value);
    to.keys.insert(value_key(value));
  };
  if (const Value* value = place.value->find("const")) {
    ValueList one;
    add(one, *value);
    out.values.push_back(std::make_shared<const ValueList>(std::move(one)));
  }
  const Value* list = place.value->find("enum");
  if (list == nullptr) return;
  if (!list->is_array()) return fail(place, "enum", "must be an array");
  ValueList values;
  for (const Value& value : list->as_array()) add(values, value);
  out.values.push_back(std::make_shared<const ValueList>(std::move(values)));
}

void SchemaReader::read_numbers(const SchemaPlace& place, Schema& out) {
  // Of draft 4: a flag beside the bound.
  const auto flag = [&](std::string_view key) {
    const Value* value = place.value->find(key);
    return value != nullptr && value->is_bool() ? std::optional(value->as_bool()) : std::nullopt;
  };
  const auto low_flag = flag("exclusiveMinimum");
  const auto high_flag = flag("exclusiveMaximum");
  if (const auto value = number(place, "minimum"))
    out.numbers.raise_minimum(*value, low_flag.value_or(false));
  if (const auto value = number(place, "maximum"))
    out.numbers.lower_maximum(*value, high_flag.value_or(false));
  if (!low_flag) {
    if (const auto value = number(place, "exclusiveMinimum"))
      out.numbers.raise_minimum(*value, true);
  }
  if (!high_flag) {
    if (const auto value = number(place, "exclusiveMaximum"))
      out.numbers.lower_maximum(*value, true);
  }
  if (const auto value = number(place, "multipleOf")) {
    if (value->is_zero() || value->is_negative())
      return fail(place, "multipleOf", "must be above zero");
    out.numbers.multiples.push_back(*value);
  }
}

void SchemaReader::read_strings(const SchemaPlace& place, Schema& out) {
  read_count(place, "minLength", out.length_min);
  read_count(place, "maxLength", out.length_max);
  out.pattern = text(place, "pattern");
  out.format = text(place, "format");
}

void SchemaReader::read_arrays(const SchemaPlace& place, Schema& out) {
  const Value* items = place.value->find("items");
  out.prefix = schemas(place, "prefixItems");
  if (items != nullptr && items->is_array()) {
    out.prefix = schemas(place, "items");
    out.items = schema(place, "additionalItems");
  } else {
    out.items = schema(place, "items");
  }
  read_count(place, "minItems", out.items_min);
  read_count(place, "maxItems", out.items_max);
  if (const Value* unique = place.value->find("uniqueItems")) {
    if (!unique->is_bool()) return fail(place, "uniqueItems", "must be a boolean");
    out.unique = unique->as_bool();
  }
  out.contains = schema(place, "contains");
  if (!document_.is_draft7()) {
    read_count(place, "minContains", out.contains_min);
    read_count(place, "maxContains", out.contains_max);
    out.unevaluated_items = schema(place, "unevaluatedItems");
  }
}

void SchemaReader::read_members(const SchemaPlace& place, Schema& out) {
  out.properties = schema_map(place, "properties");
  out.pattern_properties = schema_map(place, "patternProperties");
  out.additional = schema(place, "additionalProperties");
  out.names = schema(place, "propertyNames");
  if (!document_.is_draft7()) out.unevaluated_members = schema(place, "unevaluatedProperties");
  read_count(place, "minProperties", out.members_min);
  read_count(place, "maxProperties", out.members_max);
  const Value* required = place.value->find("required");
  if (required == nullptr || required->is_bool()) return;  // a flag of draft 3
  auto names = texts(*required);
  if (!names) return fail(place, "required", "must be an array of strings");
  out.required = std::move(*names);
}

void SchemaReader::read_dependencies(const SchemaPlace& place, Schema& out) {
  out.dependent_schemas = schema_map(place, "dependentSchemas");
  for (const std::string_view key : {"dependentRequired", "dependencies"}) {
    const Value* map = place.value->find(key);
    if (map == nullptr) continue;
    if (!map->is_object()) return fail(place, key, "must be an object");
    for (const auto& [name, value] : map->as_object()) {
      if (auto names = texts(value)) {
        out.dependent_required.emplace_back(name, std::move(*names));
      } else {
        out.dependent_schemas.emplace_back(name, schema_at(document_.child(place, key, name)));
      }
    }
  }
}

void SchemaReader::read_in_place(const SchemaPlace& place, Schema& out) {
  const Schema::List all = schemas(place, "allOf");
  out.all_of.insert(out.all_of.end(), all.begin(), all.end());
  if (place.value->find("anyOf") != nullptr) out.any_of.push_back(schemas(place, "anyOf"));
  out.one_of = schemas(place, "oneOf");
  if (const Schema* part = schema(place, "not")) out.none_of.push_back(part);
  out.condition = schema(place, "if");
  if (out.condition == nullptr) return;
  out.then = schema(place, "then");
  out.otherwise = schema(place, "else");
}

namespace {

struct CycleStep {
  const Schema* schema;
  Schema::List parts;
  std::size_t next = 0;
};

using Depths = std::map<const Schema*, std::size_t>;

// How deep a schema lies whose parts are all known; too deep is an error.
Status note_depth(const CycleStep& step, Depths& depths) {
  std::size_t depth = 0;
  for (const Schema* part : step.parts) depth = std::max(depth, depths[part] + 1);
  depths[step.schema] = depth;
  if (depth <= kSchemaDepthMax) return {};
  return {Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the JSON schema cannot be used: at '" + step.schema->pointer + "': more than " +
              std::to_string(kSchemaDepthMax) + " schemas lead to each other for one value"};
}

}  // namespace

// Depth first, over schemas that apply to the same value: coming back to one that is still being looked at is a circle.
Status SchemaReader::check_cycles(const Schema* root) const {
  std::set<const Schema*> open;
  Depths depths;  // of those that are done
  std::vector<CycleStep> path;
  const auto enter = [&](const Schema* schema) {
    open.insert(schema);
    path.push_back({schema, in_place_of(*schema)});
  };
  std::vector<const Schema*> roots = {root};
  for (const auto& [value, schema] : known_) roots.push_back(schema);
  for (const Schema* start : roots) {
    if (!depths.contains(start)) enter(start);
    while (!path.empty()) {
      CycleStep& step = path.back();
      if (step.next == step.parts.size()) {
        if (Status status = note_depth(step, depths); !status.ok()) return status;
        open.erase(step.schema);
        path.pop_back();
        continue;
      }
      const Schema* part = step.parts[step.next++];
      if (open.contains(part))
        return refused_schema(part->pointer, {}, "refers to itself for the same value");
      if (!depths.contains(part)) enter(part);
    }
  }
  return {};
}

// Draft 7 passes over what stands beside a reference; who writes it there wants it kept, and a schema allows no more
// for it. Only within 'not', 'oneOf' and 'if' a part that allows less may let the whole allow more.
void SchemaReader::drop_neighbours() {
  Schema::List waiting;
  for (const auto& [value, schema] : known_) {
    for (const Schema::List* parts : {&schema->none_of, &schema->one_of})
      waiting.insert(waiting.end(), parts->begin(), parts->end());
    if (schema->condition != nullptr) waiting.push_back(schema->condition);
  }
  std::set<const Schema*> within;
  while (!waiting.empty()) {
    const Schema* schema = waiting.back();
    waiting.pop_back();
    if (!within.insert(schema).second) continue;
    const Schema::List parts = parts_of(*schema);
    waiting.insert(waiting.end(), parts.begin(), parts.end());
  }
  for (const auto& [value, schema] : known_) {
    if (!schema->has_reference || !within.contains(schema)) continue;
    *schema = Schema{.id = schema->id,
                     .pointer = schema->pointer,
                     .all_of = {schema->all_of.front()},
                     .has_reference = true};
  }
}

}  // namespace coxswain::grammar
