#include "grammar/schema_writer.h"

#include <algorithm>

#include "grammar/json_numbers.h"
#include "grammar/json_strings.h"

namespace coxswain::grammar {
namespace {

Status too_much(std::string_view what, std::size_t limit) {
  return {Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the JSON schema cannot be used: " + std::string(what) + " is limited to " +
              std::to_string(limit)};
}

bool has_free_numbers(const Shape& shape) {
  return !shape.numbers.has_bounds() && shape.numbers.multiples.empty();
}

bool has_free_strings(const Shape& shape) {
  return shape.length_min == 0 && shape.length_max == kUnbounded && shape.patterns.empty() &&
         shape.excluded_patterns.empty() && shape.formats.empty();
}

bool has_free_arrays(const Shape& shape) {
  return shape.items_min == 0 && shape.items_max == kUnbounded && shape.unique == nullptr &&
         shape.arrays.empty() && shape.contains.empty();
}

bool has_free_objects(const Shape& shape) {
  return shape.required.empty() && shape.members_min == 0 && shape.members_max == kUnbounded &&
         shape.names.empty() && shape.objects.empty();
}

bool excludes(const Shape& shape, Types types) {
  return std::ranges::any_of(
      shape.excluded, [&](const json::Value* value) { return (type_of(*value) & types) != 0; });
}

}  // namespace

Node SchemaWriter::rule_of(Node node) {
  const Expressions::Kind kind = e_.entry(node).kind;
  if (kind == Expressions::Kind::kRule || kind == Expressions::Kind::kNothing) return node;
  const RuleId rule = e_.add_rule();
  e_.define(rule, node);
  return e_.rule(rule);
}

Result<Node> SchemaWriter::write(const Conjunction& conjunction) {
  std::vector<std::uint32_t> key;
  for (const Schema* schema : conjunction) key.push_back(schema->id);
  if (const auto at = written_.find(key); at != written_.end()) return at->second;
  if (depth_ >= kWrittenDepthMax) return too_much("the nesting of values", kWrittenDepthMax);
  if (e_.size() > kWrittenSizeMax) return too_much("the size of its grammar", kWrittenSizeMax);
  const RuleId rule = e_.add_rule();
  const auto at = written_.emplace(std::move(key), e_.rule(rule)).first;
  ++depth_;
  auto node = write_shapes(conjunction);
  --depth_;
  if (!node.ok()) return node;
  e_.define(rule, node.value());
  const Expressions::Kind kind = e_.entry(node.value()).kind;
  if (kind == Expressions::Kind::kNothing || kind == Expressions::Kind::kRule ||
      kind == Expressions::Kind::kBytes) {
    at->second = node.value();
  }
  return at->second;
}

Result<Node> SchemaWriter::write_shapes(const Conjunction& conjunction) {
  const auto shapes = merger_.shapes(conjunction);
  if (!shapes.ok()) return shapes.status();
  std::vector<Node> parts;
  for (const Shape& shape : *shapes.value()) {
    auto node = write_shape(shape);
    if (!node.ok()) return node;
    parts.push_back(node.value());
  }
  return e_.choice(parts);
}

Result<Node> SchemaWriter::write_shape(const Shape& shape) {
  if (!shape.refused.empty()) {
    const Schema* schema = shape.refused.front();
    return refused_schema(schema->pointer, schema->refused, "this keyword is not supported");
  }
  if (shape.values) return write_values(shape);
  const bool all_free = shape.types == kAllTypes && shape.excluded.empty() &&
                        has_free_numbers(shape) && has_free_strings(shape) &&
                        has_free_arrays(shape) && has_free_objects(shape);
  if (all_free) return text_.any_value();
  std::vector<Node> parts;
  const auto has = [&](Types types) { return (shape.types & types) != 0; };
  const auto take = [&](Result<Node> node) {
    if (node.ok()) parts.push_back(node.value());
    return node.status();
  };
  if (has(kObjectType)) COXSWAIN_RETURN_IF_ERROR(take(write_object(shape)));
  if (has(kArrayType)) COXSWAIN_RETURN_IF_ERROR(take(write_array(shape)));
  if (has(kStringType)) COXSWAIN_RETURN_IF_ERROR(take(write_string(shape)));
  if (has(kNumberType)) COXSWAIN_RETURN_IF_ERROR(take(write_numbers(shape)));
  if (has(kBoolType)) {
    for (const bool value : {true, false}) {
      const bool is_excluded = std::ranges::any_of(
          shape.excluded, [&](const json::Value* v) { return *v == json::Value(value); });
      if (!is_excluded) parts.push_back(e_.bytes(value ? "true" : "false"));
    }
  }
  if (has(kNullType)) parts.push_back(e_.bytes("null"));
  return e_.choice(parts);
}

// Schemas say the same of many strings: each is written once.
Result<Node> SchemaWriter::write_string(const Shape& shape) {
  if (has_free_strings(shape) && !excludes(shape, kStringType)) return text_.any_string();
  StringKey key{shape.length_min, shape.length_max, {}, {}};
  for (const auto* keywords : {&shape.patterns, &shape.excluded_patterns, &shape.formats}) {
    for (const Shape::Keyword& keyword : *keywords) std::get<2>(key).push_back(keyword.text);
    std::get<2>(key).emplace_back();
  }
  for (const json::Value* value : shape.excluded) {
    if (value->is_string()) std::get<3>(key).push_back(value->as_string());
  }
  if (const auto at = strings_.find(key); at != strings_.end()) return at->second;
  auto node = string_text(text_, merger_, shape);
  if (!node.ok()) return node;
  return strings_.emplace(std::move(key), rule_of(node.value())).first->second;
}

Status SchemaWriter::cannot_exclude(const Shape& shape, Types types) const {
  for (const Schema* schema : shape.schemas) {
    if (schema->excluded == nullptr) continue;
    for (const json::Value* value : schema->excluded->all) {
      if ((type_of(*value) & types) != 0) {
        return refused_schema(
            schema->pointer, {}, "an array or object cannot be told from all others in 'not'");
      }
    }
  }
  return {};
}

Result<Node> SchemaWriter::write_values(const Shape& shape) {
  std::vector<Node> parts;
  for (const json::Value* value : *shape.values) {
    if ((type_of(*value) & shape.types) == 0) continue;
    const Answer answer = merger_.check(*value, shape);
    if (answer == Answer::kNo) continue;
    if (answer == Answer::kUnknown) {
      const auto schema =
          std::ranges::find_if(shape.schemas, [](const Schema* s) { return !s->values.empty(); });
      return refused_schema(schema == shape.schemas.end() ? "" : (*schema)->pointer,
                            {},
                            "whether a value of 'enum' or 'const' matches the other keywords "
                            "cannot be told");
    }
    parts.push_back(text_.literal(*value));
  }
  return e_.choice(parts);
}

Result<Node> SchemaWriter::write_numbers(const Shape& shape) {
  if (has_free_numbers(shape) && !excludes(shape, kNumberType)) {
    if ((shape.types & kNumberType) == kNumberType) return text_.any_number();
    if ((shape.types & kIntegerType) != 0) return text_.any_integer();
  }
  std::vector<Decimal> gaps;
  for (const json::Value* value : shape.excluded) {
    if (!value->is_number()) continue;
    const auto number = Decimal::parse(value->number_text());
    if (number && shape.numbers.contains(*number)) gaps.push_back(*number);
  }
  std::ranges::sort(gaps);
  std::vector<Node> parts;
  NumberRange range = shape.numbers;
  for (const Decimal& gap : gaps) {
    NumberRange below = range;
    below.lower_maximum(gap, true);
    auto node = write_range(shape, below);
    if (!node.ok()) return node;
    parts.push_back(node.value());
    range.raise_minimum(gap, true);
  }
  auto node = write_range(shape, range);
  if (!node.ok()) return node;
  parts.push_back(node.value());
  return e_.choice(parts);
}

Result<Node> SchemaWriter::write_range(const Shape& shape, const NumberRange& range) {
  if (range.is_empty()) return e_.nothing();
  // Where the bounds leave no integer, no text can be one.
  const bool integers = (shape.types & kIntegerType) != 0 || range.has_no_integer();
  const bool fractions = (shape.types & kFractionType) != 0;
  if (!integers && !range.multiples.empty())
    return refused_schema(shape.multiple_of->pointer,
                          "multipleOf",
                          "cannot be kept for numbers that are no integers");
  auto node = !fractions ? integer_text(e_, range)
              : integers ? number_text(e_, range)
                         : fraction_text(e_, range);
  if (node.ok() || shape.multiple_of == nullptr) return node;
  return refused_schema(shape.multiple_of->pointer, "multipleOf", node.status().message());
}

Result<Node> SchemaWriter::write_array(const Shape& shape) {
  if (excludes(shape, kArrayType)) return cannot_exclude(shape, kArrayType);
  if (has_free_arrays(shape)) return text_.any_array();
  auto inside =
      shape.unique != nullptr && shape.items_max > 1 ? write_unique(shape) : write_elements(shape);
  if (!inside.ok() || inside.value() == e_.nothing()) return inside;
  return text_.array(inside.value());
}

// Elements that differ: those of a list of values in its order, or those that cannot be alike.
Result<Node> SchemaWriter::write_unique(const Shape& shape) {
  const Schema* unique = shape.unique;
  const std::size_t n_prefix = merger_.prefix_size(shape);
  const Status refused = refused_schema(
      unique->pointer, "uniqueItems", "elements cannot be told apart unless each has an enum");
  if (!shape.contains.empty()) return refused;
  if (n_prefix > 0) {
    // A tuple whose places cannot hold the same, and nothing behind it.
    if (!merger_.is_empty(merger_.element(shape, n_prefix))) {
      if (shape.items_max > n_prefix) return refused;
    }
    for (std::size_t i = 0; i < n_prefix; ++i) {
      for (std::size_t j = i + 1; j < n_prefix; ++j) {
        Conjunction both = merger_.element(shape, i);
        for (const Schema* schema : merger_.element(shape, j)) add_to(both, schema);
        if (!merger_.is_empty(both)) return refused;
      }
    }
    return write_elements(shape);
  }
  const auto shapes = merger_.shapes(merger_.element(shape, 0));
  if (!shapes.ok()) return shapes.status();
  static const json::Value true_value(true);
  static const json::Value false_value(false);
  static const json::Value null_value;
  std::vector<const json::Value*> values;
  ValueKeys known;
  for (const Shape& one : *shapes.value()) {
    std::vector<const json::Value*> listed;
    if (one.values) {
      listed = *one.values;
    } else if ((one.types & ~(kNullType | kBoolType)) == 0) {
      if ((one.types & kNullType) != 0) listed.push_back(&null_value);
      if ((one.types & kBoolType) != 0) listed.insert(listed.end(), {&true_value, &false_value});
    } else {
      return refused;
    }
    for (const json::Value* value : listed) {
      const Answer answer = merger_.check(*value, one);
      if (answer == Answer::kUnknown) return refused;
      if (answer == Answer::kYes && known.insert(value_key(*value)).second) values.push_back(value);
    }
  }
  Parts parts{.min = shape.items_min, .max = shape.items_max, .comma = text_.comma_of_array()};
  const bool opened = std::ranges::all_of(values, &json::Value::is_string);
  if (opened) parts.opening = text_.quote();
  for (const json::Value* value : values)
    parts.list.push_back({opened ? text_.opened_name(value->as_string()) : text_.literal(*value)});
  return write_parts(parts);
}

Result<Node> SchemaWriter::write_elements(const Shape& shape) {
  std::vector<Conjunction> places;
  std::size_t n_places = merger_.prefix_size(shape);
  Conjunction rest = merger_.element(shape, n_places);
  std::uint32_t min = shape.items_min;
  std::uint32_t max = shape.items_max;
  if (shape.contains.size() > 1) {
    return refused_schema(
        shape.contains.back()->pointer, "contains", "more than one for the same array");
  }
  // One that is contained comes first behind the prefix; where nothing is counted, anywhere.
  const Schema* contains = shape.contains.empty() ? nullptr : shape.contains.front();
  const bool anywhere = contains != nullptr && n_places == 0 && contains->contains_min == 1 &&
                        contains->contains_max == kUnbounded && min <= 1 && max == kUnbounded;
  Conjunction contained = rest;
  if (contains != nullptr) {
    add_to(contained, contains->contains);
    if (contains->contains_min > contains->contains_max) return e_.nothing();
    if (contains->contains_max != kUnbounded) add_to(rest, merger_.negated(contains->contains));
  }
  for (std::size_t i = 0; i < n_places; ++i) {
    places.push_back(merger_.element(shape, i));
    if (contains != nullptr && contains->contains_max != kUnbounded)
      add_to(places.back(), merger_.negated(contains->contains));
  }
  if (contains != nullptr && !anywhere) {
    if (contains->contains_min > kElementsMax) return too_much("minContains", kElementsMax);
    places.insert(places.end(), contains->contains_min, contained);
    if (contains->contains_min > 0) min = std::max(min, static_cast<std::uint32_t>(places.size()));
    n_places = places.size();
  }
  if (min > kElementsMax || n_places > kElementsMax) return too_much("minItems", kElementsMax);
  if (max != kUnbounded) max = std::min(max, std::max(kElementsMax, min));
  const Node comma = text_.comma_of_array();
  auto last = write(rest);
  if (!last.ok() && max > n_places) return last;
  const Node tail = last.ok() && max > n_places ? last.value() : e_.nothing();
  if (anywhere) {
    auto one = write(contained);
    if (!one.ok()) return one;
    const Node before = e_.repeat(e_.sequence({rule_of(tail), comma}), 0);
    const Node behind = e_.repeat(e_.sequence({comma, rule_of(tail)}), 0);
    return e_.sequence({before, one.value(), behind, text_.space()});
  }
  return write_places(places, tail, min, max);
}

// From the end: what may follow the i-th place.
Result<Node> SchemaWriter::write_places(const std::vector<Conjunction>& places,
                                        Node tail,
                                        std::uint32_t min,
                                        std::uint32_t max) {
  const Node comma = text_.comma_of_array();
  auto n = static_cast<std::uint32_t>(places.size());
  std::vector<Node> nodes;
  for (std::uint32_t i = 0; i < n && i < max; ++i) {
    auto node = write(places[i]);
    if (!node.ok()) return node;
    if (node.value() == e_.nothing()) max = std::min(max, i);
    nodes.push_back(node.value());
  }
  if (min > max) return e_.nothing();
  n = std::min(n, max);
  const Node none = e_.empty();
  if (max == 0) return none;
  Node out = none;
  if (n == 0) {
    if (tail == e_.nothing()) return min == 0 ? none : e_.nothing();
    const Node more = e_.repeat(e_.sequence({comma, rule_of(tail)}),
                                min > 0 ? min - 1 : 0,
                                max == kUnbounded ? kUnbounded : max - 1);
    out = e_.sequence({tail, more, text_.space()});
    return min == 0 ? e_.optional(out) : out;
  }
  out = e_.repeat(
      e_.sequence({comma, tail}), min > n ? min - n : 0, max == kUnbounded ? kUnbounded : max - n);
  for (std::uint32_t i = n; i-- > 0;) {
    out = e_.sequence({i > 0 ? comma : none, nodes[i], out});
    if (i == 0) out = e_.sequence({out, text_.space()});
    if (i >= min) out = e_.optional(out);
  }
  return out;
}

Result<Node> SchemaWriter::write_object(const Shape& shape) {
  if (excludes(shape, kObjectType)) return cannot_exclude(shape, kObjectType);
  if (has_free_objects(shape)) return text_.any_object();
  std::vector<std::string> names;
  const auto declare = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const Schema* schema : shape.objects) {
    for (const auto& [name, value] : schema->properties) declare(name);
  }
  for (const std::string& name : shape.required) declare(name);
  Parts parts{.min = shape.members_min,
              .max = shape.members_max,
              .comma = text_.comma(),
              .opening = text_.quote()};
  for (const std::string& name : names) {
    const bool required = std::ranges::find(shape.required, name) != shape.required.end();
    const auto conjunction = merger_.member(shape, name);
    if (!conjunction.ok()) return conjunction.status();
    Node node = e_.nothing();
    if (!merger_.is_empty(conjunction.value())) {
      auto value = write(conjunction.value());
      if (!value.ok()) return value;
      node = value.value();
    }
    if (node == e_.nothing() && required) return node;
    if (node == e_.nothing()) continue;
    parts.list.push_back({e_.sequence({text_.opened_name(name), text_.colon(), node}), required});
  }
  auto more = other_members(shape, names);
  if (!more.ok()) return more.status();
  parts.more = more.value();
  auto inside = write_parts(parts);
  if (!inside.ok()) return inside;
  if (inside.value() == e_.nothing() && shape.min_members_of != nullptr && parts.more) {
    return refused_schema(shape.min_members_of->pointer,
                          "minProperties",
                          "members of any name may come twice, and then count as one");
  }
  if (inside.value() == e_.nothing()) return inside;
  return text_.object(inside.value());
}

Result<std::optional<CharacterAutomaton>> SchemaWriter::names_language(const Shape& shape) {
  if (shape.names.empty()) return std::optional<CharacterAutomaton>();
  const auto shapes = merger_.shapes(shape.names);
  if (!shapes.ok()) return shapes.status();
  std::optional<CharacterAutomaton> out;
  for (const Shape& one : *shapes.value()) {
    if ((one.types & kStringType) == 0) continue;
    if (out) {
      return refused_schema(
          shape.names.front()->pointer, {}, "names with several alternatives cannot be kept");
    }
    if (!one.values) {
      auto language = string_language(merger_, one);
      if (!language.ok()) return language.status();
      out = std::move(language).value();
      continue;
    }
    std::vector<std::string> texts;
    for (const json::Value* value : *one.values) {
      if (value->is_string() && merger_.check(*value, one) == Answer::kYes)
        texts.push_back(value->as_string());
    }
    auto language = CharacterAutomaton::of_texts(texts);
    if (!language.ok()) return language.status();
    out = std::move(language).value();
  }
  // No name at all.
  if (!out) out = CharacterAutomaton::all().complement();
  return out;
}

Result<Node> SchemaWriter::write_member(Node name, const Conjunction& conjunction) {
  auto value = write(conjunction);
  if (!value.ok()) return value;
  return e_.sequence({name, text_.colon(), value.value()});
}

Result<std::optional<Node>> SchemaWriter::other_members(const Shape& shape,
                                                        const std::vector<std::string>& declared) {
  std::vector<std::string> patterns;
  const Schema* at = nullptr;
  for (const Schema* schema : shape.objects) {
    for (const auto& [pattern, value] : schema->pattern_properties) {
      if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(pattern);
      at = schema;
    }
  }
  if (merger_.is_closed(shape)) return std::optional<Node>();
  if (patterns.empty() && shape.names.empty()) {
    const auto conjunction = merger_.other_member(shape, {});
    if (!conjunction.ok()) return conjunction.status();
    if (merger_.is_empty(conjunction.value())) return std::optional<Node>();
    const Node name = declared.empty() ? text_.opened_string() : text_.opened_string_but(declared);
    auto node = write_member(name, conjunction.value());
    if (!node.ok()) return node.status();
    if (node.value() == e_.nothing()) return std::optional<Node>();
    return std::optional<Node>(rule_of(node.value()));
  }
  return members_by_pattern(shape, declared, patterns, at);
}

// Names by the patterns that they match; `at` has the last of these.
Result<std::optional<Node>> SchemaWriter::members_by_pattern(
    const Shape& shape,
    const std::vector<std::string>& declared,
    const std::vector<std::string>& patterns,
    const Schema* at) {
  if (patterns.size() > kPatternsMax) {
    return refused_schema(
        at->pointer, "patternProperties", "more than 4 patterns cannot be told apart");
  }
  const auto broken = [&](const Status& status) {
    const std::string pointer =
        at != nullptr ? at->pointer + "/patternProperties" : shape.names.front()->pointer;
    return Status(status.code(),
                  ErrorKind::kValidation,
                  refused_schema(pointer, {}, status.message()).message());
  };
  const auto names = names_language(shape);
  if (!names.ok()) return names.status();
  CharacterAutomaton base = names.value().value_or(CharacterAutomaton::all());
  const auto known = CharacterAutomaton::of_texts(declared);
  if (!known.ok()) return broken(known.status());
  auto unknown = base.intersection(known.value().complement());
  if (!unknown.ok()) return broken(unknown.status());
  std::vector<Node> parts;
  for (std::size_t mask = 0; mask < std::size_t{1} << patterns.size(); ++mask) {
    std::vector<std::string> matched;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if ((mask >> i & 1U) != 0) matched.push_back(patterns[i]);
    }
    const auto conjunction = merger_.other_member(shape, matched);
    if (!conjunction.ok()) return conjunction.status();
    if (merger_.is_empty(conjunction.value())) continue;
    CharacterAutomaton language = unknown.value();
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const auto pattern = merger_.automaton(patterns[i], CharacterAutomaton::Match::kAnywhere);
      if (!pattern.ok()) return broken(pattern.status());
      const bool wanted = (mask >> i & 1U) != 0;
      auto both = language.intersection(wanted ? *pattern.value() : pattern.value()->complement());
      if (!both.ok()) return broken(both.status());
      language = std::move(both).value();
    }
    if (language.is_empty()) continue;
    const Node name =
        text_.opened(language.write(e_, [&](const CharacterSet& set) { return text_.spell(set); }));
    auto node = write_member(name, conjunction.value());
    if (!node.ok()) return node.status();
    parts.push_back(node.value());
  }
  const Node node = e_.choice(parts);
  if (node == e_.nothing()) return std::optional<Node>();
  return std::optional<Node>(rule_of(node));
}

// As two chains, from the end, for each count that matters: `next` is written behind a comma, `behind` where a part has
// been written. What parts have in common (a comma, white space, a quote) is so read in one place, not in one for each.
Result<Node> SchemaWriter::write_parts(const Parts& parts) {
  const auto n = static_cast<std::uint32_t>(parts.list.size());
  const auto n_required =
      static_cast<std::uint32_t>(std::ranges::count_if(parts.list, &Part::required));
  const bool no_max = parts.max == kUnbounded || (parts.max >= n && !parts.more);
  const bool no_min = parts.min <= n_required;
  const std::uint32_t min = no_min ? 0 : parts.min;
  // Counts from here on are alike.
  const std::uint32_t cap = no_max ? min : std::min<std::uint32_t>(parts.max, kElementsMax);
  if (parts.min > n + 1) return e_.nothing();
  if (std::size_t{cap} * (n + 1) > 100'000)
    return too_much("the number of members times their bound", 100'000);
  const auto ends = [&](std::uint32_t count) { return count >= min; };
  const Node comma = e_.sequence({parts.comma, parts.opening});
  std::vector<Node> next(cap + 1, e_.nothing());
  std::vector<Node> behind(cap + 1, e_.nothing());
  for (std::uint32_t count = 0; count <= cap; ++count) {
    if (parts.more && (no_max || count < cap) && count + 1 >= min) {
      const std::uint32_t more = no_max ? kUnbounded : cap - count - 1;
      next[count] = rule_of(e_.sequence(
          {*parts.more, e_.repeat(e_.sequence({comma, *parts.more}), 0, more), text_.space()}));
    }
    const Node end = ends(count) ? text_.space() : e_.nothing();
    behind[count] = rule_of(e_.choice({e_.sequence({comma, next[count]}), end}));
  }
  bool may_end = true;
  for (std::uint32_t i = n; i-- > 0;) {
    const Part& part = parts.list[i];
    const Node node = cap == 0 ? part.node : rule_of(part.node);
    may_end = may_end && !part.required;
    std::vector<Node> earlier(cap + 1, e_.nothing());
    for (std::uint32_t count = 0; count <= cap; ++count) {
      std::vector<Node> ways;
      if (no_max || count < cap)
        ways.push_back(e_.sequence({node, behind[std::min(count + 1, cap)]}));
      if (!part.required) ways.push_back(next[count]);
      earlier[count] = rule_of(e_.choice(ways));
    }
    next = std::move(earlier);
    for (std::uint32_t count = 0; count <= cap; ++count) {
      const Node end = may_end && ends(count) ? text_.space() : e_.nothing();
      behind[count] = rule_of(e_.choice({e_.sequence({comma, next[count]}), end}));
    }
  }
  const Node none = may_end && ends(0) ? e_.empty() : e_.nothing();
  return e_.choice({e_.sequence({parts.opening, next[0]}), none});
}

}  // namespace coxswain::grammar
