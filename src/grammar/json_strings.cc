#include "grammar/json_strings.h"

#include <algorithm>
#include <optional>

#include "grammar/json_formats.h"
#include "grammar/regex.h"

namespace coxswain::grammar {
namespace {

using Match = CharacterAutomaton::Match;

// Lengths that are tried where a bound makes too many states with everything else.
constexpr std::uint32_t kShortLength = 64;

// A pattern of the whole text or anywhere in it.
struct Pattern {
  std::string text;
  Match match = Match::kAnywhere;
  bool negated = false;
  std::string pointer;
};

bool is_bounded(const Shape& shape) {
  return shape.length_min > 0 || shape.length_max != kUnbounded;
}

std::vector<Pattern> patterns_of(const Shape& shape) {
  std::vector<Pattern> out;
  out.reserve(shape.patterns.size() + shape.excluded_patterns.size() + shape.formats.size());
  for (const Shape::Keyword& keyword : shape.patterns)
    out.push_back({keyword.text, Match::kAnywhere, false, keyword.schema->pointer + "/pattern"});
  for (const Shape::Keyword& keyword : shape.excluded_patterns)
    out.push_back({keyword.text, Match::kAnywhere, true, keyword.schema->pointer + "/pattern"});
  for (const Shape::Keyword& keyword : shape.formats) {
    if (auto pattern = format_pattern(keyword.text, is_bounded(shape)))
      out.push_back(
          {std::move(*pattern), Match::kWhole, false, keyword.schema->pointer + "/format"});
  }
  return out;
}

std::vector<std::string> excluded_texts(const Shape& shape) {
  std::vector<std::string> out;
  for (const json::Value* value : shape.excluded) {
    if (value->is_string()) out.push_back(value->as_string());
  }
  return out;
}

Status at(const Pattern& pattern, const Status& status) {
  return {status.code(),
          ErrorKind::kValidation,
          refused_schema(pattern.pointer, {}, status.message()).message()};
}

Status at_strings(const Shape& shape, const Status& status) {
  const std::string pointer = shape.schemas.empty() ? std::string() : shape.schemas.back()->pointer;
  return {status.code(),
          ErrorKind::kValidation,
          refused_schema(pointer, {}, status.message()).message()};
}

Result<CharacterAutomaton> with_lengths(const CharacterAutomaton& language, const Shape& shape) {
  if (!is_bounded(shape)) return language;
  auto lengths = CharacterAutomaton::of_lengths(shape.length_min, shape.length_max);
  if (lengths.ok()) {
    auto both = language.intersection(lengths.value());
    if (both.ok()) return both;
  }
  const std::uint32_t shorter =
      std::min(shape.length_max, std::max(shape.length_min, kShortLength));
  lengths = CharacterAutomaton::of_lengths(shape.length_min, shorter);
  if (!lengths.ok()) return lengths;
  return language.intersection(lengths.value());
}

}  // namespace

Result<CharacterAutomaton> string_language(SchemaMerger& merger, const Shape& shape) {
  CharacterAutomaton out = CharacterAutomaton::all();
  for (const Pattern& pattern : patterns_of(shape)) {
    const auto language = merger.automaton(pattern.text, pattern.match);
    if (!language.ok()) return at(pattern, language.status());
    auto both =
        out.intersection(pattern.negated ? language.value()->complement() : *language.value());
    if (!both.ok()) return at(pattern, both.status());
    out = std::move(both).value();
  }
  if (const std::vector<std::string> excluded = excluded_texts(shape); !excluded.empty()) {
    auto texts = CharacterAutomaton::of_texts(excluded);
    if (!texts.ok()) return at_strings(shape, texts.status());
    auto both = out.intersection(texts.value().complement());
    if (!both.ok()) return at_strings(shape, both.status());
    out = std::move(both).value();
  }
  auto bounded = with_lengths(out, shape);
  if (!bounded.ok()) return at_strings(shape, bounded.status());
  return bounded;
}

Result<Node> string_text(JsonText& text, SchemaMerger& merger, const Shape& shape) {
  Expressions& e = text.expressions();
  const std::vector<Pattern> patterns = patterns_of(shape);
  const std::vector<std::string> excluded = excluded_texts(shape);
  const bool bounded = is_bounded(shape);
  if (shape.length_min > kLengthMax) {
    return at_strings(shape,
                      {Code::kResourceExhausted,
                       "minLength is " + std::to_string(shape.length_min) + ", more than " +
                           std::to_string(kLengthMax)});
  }
  if (patterns.empty() && !bounded) {
    return excluded.empty() ? text.any_string() : text.string_but(excluded);
  }
  if (patterns.empty() && excluded.empty()) {
    const std::uint32_t max =
        shape.length_max == kUnbounded ? kUnbounded : std::min(shape.length_max, kLengthMax);
    return text.quoted(e.repeat(text.spell(CharacterSet::all()), shape.length_min, max));
  }
  std::optional<Status> error;
  if (patterns.size() == 1 && excluded.empty() && !patterns[0].negated) {
    const Pattern& pattern = patterns[0];
    const auto body = parse_regex(
        e,
        pattern.text,
        {.spell = [&](Expressions&, const CharacterSet& set) { return text.spell(set); },
         .searches = pattern.match == Match::kAnywhere,
         .length_min = shape.length_min,
         .length_max =
             shape.length_max == kUnbounded ? kUnbounded : std::min(shape.length_max, kLengthMax)});
    if (body.ok()) return text.quoted(body.value());
    error = at(pattern, body.status());
    if (!bounded) return *error;
  }
  const auto language = string_language(merger, shape);
  if (!language.ok()) return error.value_or(language.status());
  if (language.value().is_empty()) return e.nothing();
  return text.quoted(
      language.value().write(e, [&](const CharacterSet& set) { return text.spell(set); }));
}

}  // namespace coxswain::grammar
