#include "grammar/schema_merge.h"

#include <algorithm>
#include <set>

namespace coxswain::grammar {
namespace {

// Levels of members and elements that are looked into for what cannot be.
constexpr std::size_t kEmptinessDepthMax = 4;
constexpr std::size_t kComparingMax = 2;
constexpr std::size_t kDraftsMax = 20'000;

Status too_many(std::string_view what, std::size_t limit) {
  return {Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the JSON schema cannot be used: it has more than " + std::to_string(limit) + " " +
              std::string(what)};
}

std::vector<std::uint32_t> key_of(const Conjunction& conjunction) {
  std::vector<std::uint32_t> out;
  for (const Schema* schema : conjunction) out.push_back(schema->id);
  return out;
}

void add_keyword(const std::optional<std::string>& text,
                 const Schema& schema,
                 std::vector<Shape::Keyword>& out) {
  if (!text) return;
  Shape::Keyword keyword{*text, &schema};
  if (std::ranges::find(out, keyword) == out.end()) out.push_back(std::move(keyword));
}

void add_numbers(const Schema& schema, Shape& shape) {
  const NumberRange& range = schema.numbers;
  if (range.minimum) shape.numbers.raise_minimum(*range.minimum, range.exclusive_minimum);
  if (range.maximum) shape.numbers.lower_maximum(*range.maximum, range.exclusive_maximum);
  if (range.multiples.empty()) return;
  shape.multiple_of = &schema;
  shape.numbers.multiples.insert(
      shape.numbers.multiples.end(), range.multiples.begin(), range.multiples.end());
}

void add_keywords(const Schema& schema, Shape& shape) {
  shape.types &= schema.types;
  if (schema.excluded != nullptr)
    shape.excluded.insert(
        shape.excluded.end(), schema.excluded->all.begin(), schema.excluded->all.end());
  if (shape.values) {
    Types types = 0;
    for (const json::Value* value : *shape.values) types |= type_of(*value);
    shape.types &= types;
  }
  add_numbers(schema, shape);
  shape.length_min = std::max(shape.length_min, schema.length_min);
  shape.length_max = std::min(shape.length_max, schema.length_max);
  add_keyword(schema.pattern, schema, shape.patterns);
  add_keyword(schema.excluded_pattern, schema, shape.excluded_patterns);
  add_keyword(schema.format, schema, shape.formats);
  shape.items_min = std::max(shape.items_min, schema.items_min);
  shape.items_max = std::min(shape.items_max, schema.items_max);
  if (schema.unique) shape.unique = &schema;
  if (schema.contains != nullptr) shape.contains.push_back(&schema);
  if (schema.has_array_keywords()) shape.arrays.push_back(&schema);
  for (const std::string& name : schema.required) {
    if (std::ranges::find(shape.required, name) == shape.required.end())
      shape.required.push_back(name);
  }
  if (schema.members_min > shape.members_min) {
    shape.members_min = schema.members_min;
    shape.min_members_of = &schema;
  }
  shape.members_max = std::min(shape.members_max, schema.members_max);
  if (schema.names != nullptr) add_to(shape.names, schema.names);
  if (schema.has_object_keywords()) shape.objects.push_back(&schema);
  if (!schema.refused.empty()) shape.refused.push_back(&schema);
}

}  // namespace

void add_to(Conjunction& conjunction, const Schema* schema) {
  const auto at = std::ranges::lower_bound(conjunction, schema->id, {}, &Schema::id);
  if (at == conjunction.end() || *at != schema) conjunction.insert(at, schema);
}

const Schema* SchemaMerger::never() {
  if (never_ == nullptr) {
    Schema& schema = arena_.add({});
    schema.types = 0;
    schema.is_made = true;
    never_ = &schema;
  }
  return never_;
}

const Schema* SchemaMerger::always() {
  if (always_ == nullptr) {
    Schema& schema = arena_.add({});
    schema.is_made = true;
    always_ = &schema;
  }
  return always_;
}

Status SchemaMerger::add(const Schema* schema, const Schema* parent, Draft& draft) {
  Shape& shape = draft.shape;
  if (parent != nullptr) shape.parents.emplace_back(schema, parent);
  if (std::ranges::find(shape.schemas, schema) != shape.schemas.end()) return {};
  if (shape.schemas.size() > kSchemasMax) return too_many("parts", kSchemasMax);
  shape.schemas.push_back(schema);
  for (const auto& values : schema->values) COXSWAIN_RETURN_IF_ERROR(add_values(*values, shape));
  add_keywords(*schema, shape);
  for (const Schema* part : schema->all_of) COXSWAIN_RETURN_IF_ERROR(add(part, schema, draft));
  if (shape.types == 0) return {};  // whatever follows
  return add_pending(schema, draft);
}

Status SchemaMerger::add_values(const ValueList& values, Shape& shape) {
  if (!shape.values) {
    shape.values = values.all;
    return {};
  }
  std::erase_if(*shape.values,
                [&](const json::Value* kept) { return !values.keys.contains(counted_key(*kept)); });
  return n_checks_ > kChecksMax ? too_many("comparisons of values", kChecksMax) : Status();
}

std::string SchemaMerger::counted_key(const json::Value& value) {
  std::string out = value_key(value);
  n_checks_ += 1 + out.size() / kKeyBytesOfACheck;
  return out;
}

Status SchemaMerger::add_pending(const Schema* schema, Draft& draft) {
  for (const Schema::List& list : schema->any_of) draft.pending.push_back({schema, list});
  for (const Schema::List& list : conditions(schema)) draft.pending.push_back({schema, list});
  for (const Schema* part : schema->none_of)
    COXSWAIN_RETURN_IF_ERROR(add_negation(schema, part, draft));
  if (!schema->one_of.empty()) draft.pending.push_back({schema, schema->one_of, true});
  return {};
}

Status SchemaMerger::add_negation(const Schema* of, const Schema* schema, Draft& draft) {
  const Negation& negated = negation(schema);
  // Alternatives of other types than are left need not be looked at.
  Schema::List alternatives;
  for (const Schema* alternative : negated.alternatives) {
    if ((alternative->types & draft.shape.types) != 0) alternatives.push_back(alternative);
  }
  if (alternatives.empty() && !negated.is_exact) {
    return refused_schema(
        schema->pointer,
        {},
        "what does not match this schema cannot be told apart ('not', or the other branches of "
        "'oneOf' in '" +
            of->pointer + "')");
  }
  if (alternatives.empty()) draft.shape.types = 0;
  draft.pending.push_back({nullptr, std::move(alternatives)});
  return {};
}

const std::vector<Schema::List>& SchemaMerger::conditions(const Schema* schema) {
  const auto [at, is_new] = conditions_.try_emplace(schema);
  if (!is_new) return at->second;
  std::vector<Schema::List> out;
  const auto make = [&]() -> Schema& {
    Schema& schema_made = arena_.add(schema->pointer);
    schema_made.is_made = true;
    return schema_made;
  };
  if (schema->then != nullptr || schema->otherwise != nullptr) {
    Schema& holds = make();
    holds.all_of.push_back(schema->condition);
    if (schema->then != nullptr) holds.all_of.push_back(schema->then);
    Schema& fails = make();
    fails.none_of.push_back(schema->condition);
    if (schema->otherwise != nullptr) fails.all_of.push_back(schema->otherwise);
    out.push_back({&holds, &fails});
  }
  const auto without = [&](const std::string& name) {
    Schema& lacks = make();
    lacks.properties.emplace_back(name, never());
    return &lacks;
  };
  for (const auto& [name, required] : schema->dependent_required) {
    if (required.empty()) continue;
    Schema& has = make();
    has.required = required;
    out.push_back({without(name), &has});
  }
  for (const auto& [name, dependent] : schema->dependent_schemas) {
    Schema& has = make();
    has.required.push_back(name);
    has.all_of.push_back(dependent);
    out.push_back({without(name), &has});
  }
  conditions_[schema] = std::move(out);
  return conditions_[schema];
}

Result<Shapes> SchemaMerger::resolve(Draft first) {
  Shapes out;
  std::vector<Draft> work;
  work.push_back(std::move(first));
  std::size_t n_drafts = 0;
  while (!work.empty()) {
    Draft draft = std::move(work.back());
    work.pop_back();
    if (draft.shape.types == 0) continue;
    n_merges_ += 1 + (draft.shape.values ? draft.shape.values->size() / kValuesOfAMerge : 0);
    if (++n_drafts > kDraftsMax || n_merges_ > kMergesMax * 4)
      return too_many("combinations of alternatives", kDraftsMax);
    if (draft.pending.empty()) {
      if (possible_types(draft.shape, kEmptinessDepthMax) == 0) continue;
      if (out.size() == kShapesMax) return too_many("alternatives for one value", kShapesMax);
      out.push_back(std::move(draft.shape));
      continue;
    }
    // What says exactly one last: by then most is known.
    auto next =
        std::ranges::find_if(draft.pending, [](const Pending& p) { return !p.exactly_one; });
    if (next == draft.pending.end()) next = draft.pending.begin();
    Pending pending = std::move(*next);
    draft.pending.erase(next);
    if (pending.exactly_one) {
      auto branches = branches_of_one(pending, draft);
      if (!branches.ok()) return branches.status();
      pending.alternatives = std::move(branches).value();
    }
    for (auto branch = pending.alternatives.rbegin(); branch != pending.alternatives.rend();
         ++branch) {
      Draft with = draft;
      COXSWAIN_RETURN_IF_ERROR(add(*branch, pending.parent, with));
      work.push_back(std::move(with));
    }
  }
  return out;
}

Result<Schema::List> SchemaMerger::branches_of_one(const Pending& pending, const Draft& draft) {
  const Schema::List& branches = pending.alternatives;
  // Branches that cannot hold here at all are no hindrance.
  Schema::List possible;
  for (const Schema* branch : branches) {
    if (!are_disjoint(draft.shape, branch, branch)) possible.push_back(branch);
  }
  std::map<const Schema*, Schema::List> overlaps;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    for (std::size_t j = i + 1; j < possible.size(); ++j) {
      if (possible[i] != possible[j] && are_disjoint(draft.shape, possible[i], possible[j]))
        continue;
      overlaps[possible[i]].push_back(possible[j]);
      overlaps[possible[j]].push_back(possible[i]);
    }
    if (++n_merges_ > kMergesMax * 4) return too_many("merges of its parts", kMergesMax * 4);
  }
  Schema::List out;
  for (const Schema* branch : possible) {
    if (!overlaps.contains(branch)) {
      out.push_back(branch);
      continue;
    }
    Schema& alone = arena_.add(branch->pointer);
    alone.is_made = true;
    alone.all_of.push_back(branch);
    alone.none_of = overlaps[branch];
    out.push_back(&alone);
  }
  return out;
}

bool SchemaMerger::are_disjoint(const Shape& shape, const Schema* a, const Schema* b) {
  Draft draft{.shape = shape};
  if (!add(a, nullptr, draft).ok() || !add(b, nullptr, draft).ok()) return false;
  // Members of members of ... may have branches of their own to tell apart.
  const std::size_t depth = ++comparing_ > kComparingMax ? kEmptinessDepthMax : 1;
  const auto both = resolve(std::move(draft));
  const bool out = both.ok() && std::ranges::all_of(both.value(), [&](const Shape& one) {
                     return possible_types(one, depth) == 0;
                   });
  --comparing_;
  return out;
}

Result<std::shared_ptr<const Shapes>> SchemaMerger::merged(const Conjunction& conjunction) {
  std::vector<std::uint32_t> key = key_of(conjunction);
  if (const auto at = kept_.find(key); at != kept_.end()) return at->second;
  if (kept_.size() >= kMergesMax) return too_many("merges of its parts", kMergesMax);
  Draft draft;
  for (const Schema* schema : conjunction) COXSWAIN_RETURN_IF_ERROR(add(schema, nullptr, draft));
  auto shapes = resolve(std::move(draft));
  if (!shapes.ok()) return shapes.status();
  for (Shape& shape : shapes.value()) add_evaluated(shape);
  auto out = std::make_shared<const Shapes>(std::move(shapes).value());
  // What was made without looking deeper may be better where it is asked for from above.
  if (comparing_ < kComparingMax) kept_.emplace(std::move(key), out);
  return std::shared_ptr<const Shapes>(out);
}

Result<std::shared_ptr<const Shapes>> SchemaMerger::shapes(const Conjunction& conjunction) {
  auto all = merged(conjunction);
  if (!all.ok()) return all;
  auto out = std::make_shared<Shapes>();
  for (const Shape& shape : *all.value()) {
    const Types types = possible_types(shape, 0);
    if (types == 0) continue;
    out->push_back(shape);
    out->back().types = types;
  }
  return std::shared_ptr<const Shapes>(std::move(out));
}

bool SchemaMerger::is_empty(const Conjunction& conjunction, std::size_t depth) {
  if (conjunction.empty() || depth >= kEmptinessDepthMax) return false;
  std::vector<std::uint32_t> key = key_of(conjunction);
  key.push_back(static_cast<std::uint32_t>(depth));
  if (const auto at = empty_.find(key); at != empty_.end()) return at->second;
  const auto all = merged(conjunction);
  const bool out = all.ok() && std::ranges::all_of(*all.value(), [&](const Shape& shape) {
                     return possible_types(shape, depth) == 0;
                   });
  if (comparing_ < kComparingMax) empty_.emplace(std::move(key), out);
  return out;
}

bool SchemaMerger::is_never(const Result<Conjunction>& conjunction, std::size_t depth) {
  return conjunction.ok() && is_empty(conjunction.value(), depth + 1);
}

Types SchemaMerger::possible_types(const Shape& shape, std::size_t depth) {
  Types out = shape.types;
  const auto drop = [&](Types types) { out &= static_cast<Types>(~types); };
  if (shape.values) {
    Types types = 0;
    for (const json::Value* value : *shape.values) {
      if (check(*value, shape) != Answer::kNo) types |= type_of(*value);
    }
    out &= types;
  }
  std::size_t n_bools = 0;
  for (const json::Value* value : shape.excluded) {
    if (value->is_null()) drop(kNullType);
    if (value->is_bool()) ++n_bools;
  }
  if (n_bools > 1 &&
      std::ranges::any_of(shape.excluded,
                          [&](const json::Value* v) { return *v == json::Value(true); }) &&
      std::ranges::any_of(shape.excluded,
                          [&](const json::Value* v) { return *v == json::Value(false); })) {
    drop(kBoolType);
  }
  if (shape.numbers.is_empty()) drop(kNumberType);
  if (shape.numbers.has_no_integer()) drop(kIntegerType);
  if (shape.length_min > shape.length_max) drop(kStringType);
  if (shape.items_min > shape.items_max) drop(kArrayType);
  if (shape.members_min > shape.members_max || shape.required.size() > shape.members_max)
    drop(kObjectType);
  if (depth >= kEmptinessDepthMax) return out;
  if ((out & kArrayType) != 0) {
    const std::size_t n = std::min<std::size_t>(shape.items_min, prefix_size(shape) + 1);
    for (std::size_t i = 0; i < n; ++i) {
      if (is_never(element(shape, i), depth)) drop(kArrayType);
    }
  }
  if ((out & kObjectType) != 0) {
    for (const std::string& name : shape.required) {
      if (is_never(member(shape, name), depth)) drop(kObjectType);
    }
  }
  return out;
}

std::size_t SchemaMerger::prefix_size(const Shape& shape) const {
  std::size_t out = 0;
  for (const Schema* schema : shape.arrays) out = std::max(out, schema->prefix.size());
  return out;
}

Conjunction SchemaMerger::element(const Shape& shape, std::size_t index) const {
  Conjunction out;
  for (const Schema* schema : shape.arrays) {
    const Schema* part = index < schema->prefix.size() ? schema->prefix[index] : schema->items;
    if (part != nullptr) add_to(out, part);
  }
  return out;
}

bool SchemaMerger::is_closed(const Shape& shape) const {
  return closes_objects_ &&
         std::ranges::none_of(shape.objects,
                              [](const Schema* schema) { return schema->additional != nullptr; }) &&
         std::ranges::any_of(shape.objects, [](const Schema* schema) {
           return !schema->is_made && !schema->properties.empty();
         });
}

Result<Conjunction> SchemaMerger::member(const Shape& shape, std::string_view name) {
  Conjunction out;
  if (!shape.names.empty()) {
    const Answer answer = check(json::Value(name), shape.names);
    if (answer == Answer::kNo) return Conjunction{never()};
    if (answer == Answer::kUnknown) {
      return refused_schema(
          shape.names.front()->pointer, {}, "these names cannot be told from others");
    }
  }
  for (const Schema* schema : shape.objects) {
    bool found = false;
    for (const auto& [key, part] : schema->properties) {
      if (key != name) continue;
      add_to(out, part);
      found = true;
    }
    for (const auto& [pattern, part] : schema->pattern_properties) {
      const auto language = automaton(pattern, CharacterAutomaton::Match::kAnywhere);
      if (!language.ok()) {
        return refused_schema(
            schema->pointer + "/patternProperties", pattern, language.status().message());
      }
      if (!language.value()->accepts(name)) continue;
      add_to(out, part);
      found = true;
    }
    if (!found && schema->additional != nullptr) add_to(out, schema->additional);
  }
  return out;
}

Result<Conjunction> SchemaMerger::other_member(const Shape& shape,
                                               const std::vector<std::string>& patterns) {
  Conjunction out;
  if (is_closed(shape)) return Conjunction{never()};
  for (const Schema* schema : shape.objects) {
    bool found = false;
    for (const auto& [pattern, part] : schema->pattern_properties) {
      if (std::ranges::find(patterns, pattern) == patterns.end()) continue;
      add_to(out, part);
      found = true;
    }
    if (!found && schema->additional != nullptr) add_to(out, schema->additional);
  }
  return out;
}

// unevaluatedProperties and unevaluatedItems are what additionalProperties and items would be beside all names and
// places that the schemas below the one that has them speak of.
void SchemaMerger::add_evaluated(Shape& shape) {
  const Schema::List schemas = shape.schemas;
  for (const Schema* schema : schemas) {
    if (schema->unevaluated_members == nullptr && schema->unevaluated_items == nullptr) continue;
    std::set<const Schema*> below = {schema};
    for (std::size_t n = 0; n != below.size();) {
      n = below.size();
      for (const auto& [child, parent] : shape.parents) {
        if (below.contains(parent)) below.insert(child);
      }
    }
    Schema& made = arena_.add(schema->pointer);
    made.is_made = true;
    bool all_members = schema->unevaluated_members == nullptr;
    bool all_items = schema->unevaluated_items == nullptr;
    for (const Schema* part : below) {
      if (part->is_made) continue;
      if (part->additional != nullptr || (part != schema && part->unevaluated_members != nullptr))
        all_members = true;
      if (part->items != nullptr || (part != schema && part->unevaluated_items != nullptr))
        all_items = true;
      for (const auto& [name, value] : part->properties)
        made.properties.emplace_back(name, always());
      for (const auto& [pattern, value] : part->pattern_properties)
        made.pattern_properties.emplace_back(pattern, always());
      if (part->prefix.size() > made.prefix.size())
        made.prefix.assign(part->prefix.size(), always());
    }
    made.additional = schema->unevaluated_members;
    made.items = schema->unevaluated_items;
    if (!all_members) shape.objects.push_back(&made);
    if (!all_items) shape.arrays.push_back(&made);
  }
}

}  // namespace coxswain::grammar
