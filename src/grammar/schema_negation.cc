// What does not match a schema, as alternatives: one for each keyword that fails. Alternatives that cannot be written
// are left out, so that less may be allowed, never more.

#include "grammar/schema_merge.h"

namespace coxswain::grammar {

const Schema* SchemaMerger::negated(const Schema* schema) {
  const auto [at, is_new] = negated_.try_emplace(schema, nullptr);
  if (is_new) {
    Schema& out = arena_.add(schema->pointer);
    out.is_made = true;
    out.none_of.push_back(schema);
    at->second = &out;
  }
  return at->second;
}

Schema& SchemaMerger::made(const Schema& of, Types types, Negation& out) {
  Schema& schema = arena_.add(of.pointer);
  schema.is_made = true;
  schema.types = types;
  out.alternatives.push_back(&schema);
  return schema;
}

const SchemaMerger::Negation& SchemaMerger::negation(const Schema* schema) {
  const auto at = negations_.find(schema);
  if (at != negations_.end()) return at->second;
  Negation out;
  if (schema->has_reference) {
    // Drafts do not agree on what stands beside a reference; what it leads to must not match.
    out.is_exact = false;
    made(*schema, kAllTypes, out).none_of.push_back(schema->all_of.front());
    return negations_.emplace(schema, std::move(out)).first->second;
  }
  if (!schema->refused.empty() || schema->unevaluated_members != nullptr ||
      schema->unevaluated_items != nullptr) {
    out.is_exact = false;
  }
  const auto rest = static_cast<Types>(kAllTypes & ~schema->types);
  if (rest != 0) made(*schema, rest, out);
  negate_value(*schema, out);
  negate_array(*schema, out);
  negate_object(*schema, out);
  negate_in_place(*schema, out);
  return negations_.emplace(schema, std::move(out)).first->second;
}

void SchemaMerger::negate_value(const Schema& schema, Negation& out) {
  for (const auto& values : schema.values) made(schema, kAllTypes, out).excluded = values;
  if (schema.excluded != nullptr) made(schema, kAllTypes, out).values.push_back(schema.excluded);
  const NumberRange& numbers = schema.numbers;
  if (numbers.minimum) {
    made(schema, kNumberType, out)
        .numbers.lower_maximum(*numbers.minimum, !numbers.exclusive_minimum);
  }
  if (numbers.maximum) {
    made(schema, kNumberType, out)
        .numbers.raise_minimum(*numbers.maximum, !numbers.exclusive_maximum);
  }
  for (const Decimal& multiple : numbers.multiples) {
    // Of an integer no fraction is a multiple; which integers are not is left out.
    out.is_exact = false;
    if (multiple.is_integer()) made(schema, kFractionType, out);
  }
  if (schema.length_min > 0) made(schema, kStringType, out).length_max = schema.length_min - 1;
  if (schema.length_max != kUnbounded)
    made(schema, kStringType, out).length_min = schema.length_max + 1;
  if (schema.pattern) made(schema, kStringType, out).excluded_pattern = schema.pattern;
  if (schema.excluded_pattern) made(schema, kStringType, out).pattern = schema.excluded_pattern;
  if (schema.format) out.is_exact = false;
}

void SchemaMerger::negate_array(const Schema& schema, Negation& out) {
  for (std::size_t i = 0; i < schema.prefix.size(); ++i) {
    Schema& array = made(schema, kArrayType, out);
    array.items_min = static_cast<std::uint32_t>(i + 1);
    array.prefix.assign(i, always());
    array.prefix.push_back(negated(schema.prefix[i]));
  }
  if (schema.items != nullptr && schema.prefix.empty()) {
    made(schema, kArrayType, out).contains = negated(schema.items);
  } else if (schema.items != nullptr) {
    out.is_exact = false;
  }
  if (schema.items_min > 0) made(schema, kArrayType, out).items_max = schema.items_min - 1;
  if (schema.items_max != kUnbounded)
    made(schema, kArrayType, out).items_min = schema.items_max + 1;
  if (schema.unique) out.is_exact = false;
  if (schema.contains == nullptr) return;
  if (schema.contains_min == 1 && schema.contains_max == kUnbounded) {
    made(schema, kArrayType, out).items = negated(schema.contains);
  } else {
    out.is_exact = false;
  }
}

void SchemaMerger::negate_object(const Schema& schema, Negation& out) {
  for (const auto& [name, part] : schema.properties) {
    Schema& object = made(schema, kObjectType, out);
    object.required.push_back(name);
    object.properties.emplace_back(name, negated(part));
  }
  if (!schema.pattern_properties.empty() || schema.additional != nullptr || schema.names != nullptr)
    out.is_exact = false;
  for (const std::string& name : schema.required)
    made(schema, kObjectType, out).properties.emplace_back(name, never());
  if (schema.members_min > 0) made(schema, kObjectType, out).members_max = schema.members_min - 1;
  if (schema.members_max != kUnbounded)
    made(schema, kObjectType, out).members_min = schema.members_max + 1;
  for (const auto& [name, required] : schema.dependent_required) {
    for (const std::string& other : required) {
      Schema& object = made(schema, kObjectType, out);
      object.required.push_back(name);
      object.properties.emplace_back(other, never());
    }
  }
  for (const auto& [name, dependent] : schema.dependent_schemas) {
    Schema& object = made(schema, kObjectType, out);
    object.required.push_back(name);
    object.none_of.push_back(dependent);
  }
}

void SchemaMerger::negate_in_place(const Schema& schema, Negation& out) {
  for (const Schema* part : schema.all_of) made(schema, kAllTypes, out).none_of.push_back(part);
  for (const Schema::List& list : schema.any_of) made(schema, kAllTypes, out).none_of = list;
  for (const Schema* part : schema.none_of) made(schema, kAllTypes, out).all_of.push_back(part);
  if (!schema.one_of.empty()) made(schema, kAllTypes, out).none_of = schema.one_of;
  for (std::size_t i = 0; i < schema.one_of.size(); ++i) {
    for (std::size_t j = i + 1; j < schema.one_of.size(); ++j)
      made(schema, kAllTypes, out).all_of = {schema.one_of[i], schema.one_of[j]};
  }
  if (schema.then != nullptr) {
    Schema& both = made(schema, kAllTypes, out);
    both.all_of.push_back(schema.condition);
    both.none_of.push_back(schema.then);
  }
  if (schema.otherwise != nullptr)
    made(schema, kAllTypes, out).none_of = {schema.condition, schema.otherwise};
}

}  // namespace coxswain::grammar
