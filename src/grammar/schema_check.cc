// Whether a value matches a schema, where that can be told.

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "grammar/json_formats.h"
#include "grammar/schema_merge.h"

namespace coxswain::grammar {
namespace {

using json::Value;

Answer answer(bool yes) {
  return yes ? Answer::kYes : Answer::kNo;
}

Answer both(Answer a, Answer b) {
  if (a == Answer::kNo || b == Answer::kNo) return Answer::kNo;
  return a == Answer::kUnknown || b == Answer::kUnknown ? Answer::kUnknown : Answer::kYes;
}

Answer opposite(Answer a) {
  if (a == Answer::kUnknown) return a;
  return answer(a == Answer::kNo);
}

Answer any(Answer a, Answer b) {
  return opposite(both(opposite(a), opposite(b)));
}

// How many of them hold: surely, and at most.
struct Count {
  std::size_t sure = 0;
  std::size_t possible = 0;
  void add(Answer a) {
    if (a == Answer::kYes) ++sure;
    if (a != Answer::kNo) ++possible;
  }
  Answer within(std::size_t min, std::size_t max) const {
    if (possible < min || sure > max) return Answer::kNo;
    return sure >= min && possible <= max ? Answer::kYes : Answer::kUnknown;
  }
};

Answer check_number(const Decimal& number, const NumberRange& range) {
  Answer out = answer(range.contains(number));
  for (const Decimal& multiple : range.multiples) {
    const auto is_multiple = number.is_multiple_of(multiple);
    out = both(out, is_multiple ? answer(*is_multiple) : Answer::kUnknown);
  }
  return out;
}

}  // namespace

Result<const CharacterAutomaton*> SchemaMerger::automaton(std::string_view pattern,
                                                          CharacterAutomaton::Match match) {
  const auto key = std::make_pair(std::string(pattern), match);
  auto at = automata_.find(key);
  if (at == automata_.end())
    at = automata_.emplace(key, CharacterAutomaton::of_pattern(pattern, match)).first;
  if (!at->second.ok()) return at->second.status();
  return &at->second.value();
}

Answer SchemaMerger::matches(const std::string& text,
                             std::string_view pattern,
                             CharacterAutomaton::Match match) {
  const auto language = automaton(pattern, match);
  return language.ok() ? answer(language.value()->accepts(text)) : Answer::kUnknown;
}

Answer SchemaMerger::check(const Value& value, const Conjunction& conjunction) {
  Answer out = Answer::kYes;
  for (const Schema* schema : conjunction) out = both(out, check(value, *schema));
  return out;
}

Answer SchemaMerger::check(const Value& value, const Shape& shape) {
  Answer out = Answer::kYes;
  for (const Schema* schema : shape.schemas) {
    out = both(out, check(value, *schema));
    if (out == Answer::kNo) break;
  }
  return out;
}

Answer SchemaMerger::check(const Value& value, const Schema& schema) {
  if (++n_checks_ > kChecksMax) return Answer::kUnknown;
  Answer out = check_value(value, schema);
  if (out == Answer::kNo) return out;
  if (!schema.refused.empty()) out = Answer::kUnknown;
  switch (value.type()) {
    case Value::Type::kNull:
    case Value::Type::kBool:
      break;
    case Value::Type::kNumber: {
      const auto number = Decimal::parse(value.number_text());
      out = both(out, number ? check_number(*number, schema.numbers) : Answer::kUnknown);
      break;
    }
    case Value::Type::kString:
      out = both(out, check_string(value.as_string(), schema));
      break;
    case Value::Type::kArray:
      out = both(out, check_array(value.as_array(), schema));
      break;
    case Value::Type::kObject:
      out = both(out, check_object(value.as_object(), schema));
      break;
  }
  return out == Answer::kNo ? out : both(out, check_in_place(value, schema));
}

Answer SchemaMerger::check_value(const Value& value, const Schema& schema) {
  if ((type_of(value) & schema.types) == 0) return Answer::kNo;
  if (schema.values.empty() && schema.excluded == nullptr) return Answer::kYes;
  const std::string key = counted_key(value);
  for (const auto& values : schema.values) {
    if (!values->keys.contains(key)) return Answer::kNo;
  }
  return answer(schema.excluded == nullptr || !schema.excluded->keys.contains(key));
}

Answer SchemaMerger::check_string(const std::string& text, const Schema& schema) {
  using Match = CharacterAutomaton::Match;
  const std::size_t length = base::count_characters(text);
  Answer out = answer(length >= schema.length_min && length <= schema.length_max);
  if (schema.pattern) out = both(out, matches(text, *schema.pattern, Match::kAnywhere));
  if (schema.excluded_pattern)
    out = both(out, opposite(matches(text, *schema.excluded_pattern, Match::kAnywhere)));
  if (schema.format) {
    if (const auto pattern = format_pattern(*schema.format)) {
      // The patterns of formats allow less than the formats do: what does not match is not surely wrong.
      if (matches(text, *pattern, Match::kWhole) != Answer::kYes) out = both(out, Answer::kUnknown);
    }
  }
  return out;
}

Answer SchemaMerger::check_array(const json::Array& elements, const Schema& schema) {
  Answer out = answer(elements.size() >= schema.items_min && elements.size() <= schema.items_max);
  Count contained;
  ValueKeys seen;
  for (std::size_t i = 0; i < elements.size() && out != Answer::kNo; ++i) {
    const Schema* part = i < schema.prefix.size() ? schema.prefix[i] : schema.items;
    if (part != nullptr) out = both(out, check(elements[i], *part));
    if (schema.contains != nullptr) contained.add(check(elements[i], *schema.contains));
    if (schema.unique && !seen.insert(value_key(elements[i])).second) return Answer::kNo;
  }
  if (schema.contains != nullptr)
    out = both(out, contained.within(schema.contains_min, schema.contains_max));
  if (schema.unevaluated_items != nullptr && !elements.empty()) out = both(out, Answer::kUnknown);
  return out;
}

Answer SchemaMerger::check_object(const json::Object& members, const Schema& schema) {
  Answer out =
      answer(members.size() >= schema.members_min && members.size() <= schema.members_max &&
             std::ranges::all_of(schema.required, [&](const std::string& name) {
               return members.find(name) != nullptr;
             }));
  for (const auto& [name, value] : members) {
    if (out == Answer::kNo) return out;
    if (schema.names != nullptr) out = both(out, check(Value(name), *schema.names));
    bool found = false;
    bool perhaps = false;
    for (const auto& [key, part] : schema.properties) {
      if (key != name) continue;
      found = true;
      out = both(out, check(value, *part));
    }
    for (const auto& [pattern, part] : schema.pattern_properties) {
      const Answer match = matches(name, pattern, CharacterAutomaton::Match::kAnywhere);
      if (match == Answer::kYes) found = true;
      if (match == Answer::kUnknown) perhaps = true;
      if (match != Answer::kNo) out = both(out, any(opposite(match), check(value, *part)));
    }
    if (found || schema.additional == nullptr) continue;
    const Answer additional = check(value, *schema.additional);
    out = both(out, perhaps ? any(Answer::kUnknown, additional) : additional);
  }
  for (const auto& [name, required] : schema.dependent_required) {
    if (members.find(name) == nullptr) continue;
    for (const std::string& other : required)
      out = both(out, answer(members.find(other) != nullptr));
  }
  if (schema.unevaluated_members != nullptr && !members.empty()) out = both(out, Answer::kUnknown);
  return out;
}

Answer SchemaMerger::check_in_place(const Value& value, const Schema& schema) {
  Answer out = Answer::kYes;
  for (const Schema* part : schema.all_of) out = both(out, check(value, *part));
  for (const Schema::List& list : schema.any_of) {
    Answer one = Answer::kNo;
    for (const Schema* part : list) one = any(one, check(value, *part));
    out = both(out, one);
  }
  if (!schema.one_of.empty()) {
    Count count;
    for (const Schema* part : schema.one_of) count.add(check(value, *part));
    out = both(out, count.within(1, 1));
  }
  for (const Schema* part : schema.none_of) out = both(out, opposite(check(value, *part)));
  if (schema.condition != nullptr) {
    const Answer holds = check(value, *schema.condition);
    if (schema.then != nullptr) out = both(out, any(opposite(holds), check(value, *schema.then)));
    if (schema.otherwise != nullptr) out = both(out, any(holds, check(value, *schema.otherwise)));
  }
  for (const auto& [name, dependent] : schema.dependent_schemas) {
    if (value.find(name) != nullptr) out = both(out, check(value, *dependent));
  }
  return out;
}

}  // namespace coxswain::grammar
