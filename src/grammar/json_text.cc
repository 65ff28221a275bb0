#include "grammar/json_text.h"

#include <algorithm>
#include <map>

namespace coxswain::grammar {
namespace {

using Space = SchemaOptions::Space;

constexpr std::uint32_t kBlanksBeforeLineMax = 8;
constexpr std::uint32_t kIndentationMax = 64;
constexpr std::uint32_t kLineBreaksMax = 2;

struct ShortEscape {
  char32_t character;
  char letter;
};
constexpr ShortEscape kShortEscapes[] = {{U'"', '"'},
                                         {U'\\', '\\'},
                                         {U'\b', 'b'},
                                         {U'\f', 'f'},
                                         {U'\n', 'n'},
                                         {U'\r', 'r'},
                                         {U'\t', 't'}};

const CharacterSet& plain_characters() {
  static const CharacterSet set =
      CharacterSet::all().without(CharacterSet{{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}});
  return set;
}

std::string escape_of(char32_t character) {
  for (const ShortEscape& escape : kShortEscapes) {
    if (escape.character == character) return {'\\', escape.letter};
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  return std::string("\\u00") + kHex[(character >> 4U) & 0xFU] + kHex[character & 0xFU];
}

Node digits(Expressions& e, char first, char last) {
  return e.characters(CharacterSet{{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

}  // namespace

std::string spell_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\') {
      out += escape_of(byte);
    } else {
      out += c;
    }
  }
  return out;
}

Node JsonText::once(std::optional<Node>& kept, Node (JsonText::*make)()) {
  if (!kept) {
    const RuleId rule = expressions_.add_rule();
    kept = expressions_.rule(rule);  // before it is made: it may call itself
    expressions_.define(rule, (this->*make)());
  }
  return *kept;
}

Node JsonText::space() {
  switch (space_) {
    case Space::kNone:
      return expressions_.empty();
    case Space::kTgi:
      return expressions_.optional(expressions_.bytes(" "));
    case Space::kBounded:
      return once(space_node_, &JsonText::make_space);
  }
  return expressions_.empty();
}

Node JsonText::make_space() {
  Expressions& e = expressions_;
  const Node blank = e.characters(CharacterSet{{U' ', U' '}, {U'\t', U'\t'}});
  const Node line =
      e.sequence({e.optional(e.bytes("\r")), e.bytes("\n"), e.repeat(blank, 0, kIndentationMax)});
  return e.sequence({e.repeat(blank, 0, kBlanksBeforeLineMax), e.repeat(line, 0, kLineBreaksMax)});
}

Node JsonText::colon() {
  return expressions_.sequence({space(), expressions_.bytes(":"), space()});
}

Node JsonText::comma() {
  return expressions_.sequence({space(), expressions_.bytes(","), space()});
}

Node JsonText::comma_of_array() {
  if (space_ != Space::kTgi) return comma();
  return expressions_.sequence({expressions_.bytes(","), space()});
}

Node JsonText::quote() {
  return expressions_.bytes("\"");
}

Node JsonText::quoted(Node body) {
  return expressions_.sequence({quote(), opened(body)});
}

Node JsonText::opened(Node body) {
  return expressions_.sequence({body, quote()});
}

Node JsonText::object(Node inside) {
  Expressions& e = expressions_;
  return e.sequence({e.bytes("{"), space(), inside, e.bytes("}")});
}

Node JsonText::array(Node inside) {
  Expressions& e = expressions_;
  return e.sequence({e.bytes("["), space(), inside, e.bytes("]")});
}

Node JsonText::any_value() {
  return once(value_, &JsonText::make_any_value);
}
Node JsonText::any_object() {
  return once(object_, &JsonText::make_any_object);
}
Node JsonText::any_array() {
  return once(array_, &JsonText::make_any_array);
}
Node JsonText::any_string() {
  return expressions_.sequence({quote(), opened_string()});
}
Node JsonText::opened_string() {
  return once(string_, &JsonText::make_opened_string);
}
Node JsonText::any_number() {
  return once(number_, &JsonText::make_any_number);
}
Node JsonText::any_integer() {
  return once(integer_, &JsonText::make_any_integer);
}
Node JsonText::any_text() {
  return once(text_, &JsonText::make_any_text);
}

Node JsonText::spell(const CharacterSet& set) {
  if (const auto at = spelled_.find(set); at != spelled_.end()) return at->second;
  return spelled_.emplace(set, make_spelled(set)).first->second;
}

Node JsonText::make_spelled(const CharacterSet& set) {
  // What is not ASCII and what needs escapes takes many edges, and mostly is the same: rules, made once for each set.
  static const CharacterSet ascii{{0, 0x7F}};
  const CharacterSet plain = set.intersection(plain_characters());
  return expressions_.choice({expressions_.characters(plain.intersection(ascii)),
                              spell_part(plain.without(ascii), false),
                              spell_part(set.without(plain_characters()), true)});
}

Node JsonText::spell_part(const CharacterSet& set, bool escaped) {
  Expressions& e = expressions_;
  if (set.empty()) return e.nothing();
  const auto [at, is_new] = spelled_parts_.try_emplace(set, 0);
  if (!is_new) return at->second;
  Node node = e.characters(set);
  if (escaped) {
    std::vector<Node> spellings;
    for (const CharacterSet::Range& range : set.ranges()) {
      for (char32_t c = range.first; c <= range.last; ++c)
        spellings.push_back(e.bytes(escape_of(c)));
    }
    node = e.choice(spellings);
  }
  if (set.ranges().size() > 1 || set.ranges()[0].first != set.ranges()[0].last) {
    const RuleId rule = e.add_rule();
    e.define(rule, node);
    node = e.rule(rule);
  }
  return at->second = node;
}

Node JsonText::make_any_value() {
  Expressions& e = expressions_;
  return e.choice({any_object(),
                   any_array(),
                   any_string(),
                   any_number(),
                   e.bytes("true"),
                   e.bytes("false"),
                   e.bytes("null")});
}

Node JsonText::make_any_object() {
  Expressions& e = expressions_;
  const Node member = e.sequence({any_string(), colon(), any_value()});
  const Node members = e.sequence({member, e.repeat(e.sequence({comma(), member}), 0), space()});
  return object(e.optional(members));
}

Node JsonText::make_any_array() {
  Expressions& e = expressions_;
  const Node more = e.repeat(e.sequence({comma_of_array(), any_value()}), 0);
  return array(e.optional(e.sequence({any_value(), more, space()})));
}

Node JsonText::make_opened_string() {
  Expressions& e = expressions_;
  const Node hex = e.characters(CharacterSet{{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}});
  const Node hex_but_d = e.characters(
      CharacterSet{{U'0', U'9'}, {U'A', U'C'}, {U'E', U'F'}, {U'a', U'c'}, {U'e', U'f'}});
  const Node d = e.characters(CharacterSet{{U'D', U'D'}, {U'd', U'd'}});
  const Node high = e.characters(CharacterSet{{U'8', U'9'}, {U'A', U'B'}, {U'a', U'b'}});
  const Node low = e.characters(CharacterSet{{U'C', U'F'}, {U'c', U'f'}});
  const Node u = e.bytes("\\u");
  const Node unit = e.choice({e.sequence({hex_but_d, hex, hex, hex}),
                              e.sequence({d, digits(e, '0', '7'), hex, hex}),
                              e.sequence({d, high, hex, hex, u, d, low, hex, hex})});
  const Node short_escape = e.sequence({e.bytes("\\"),
                                        e.characters(CharacterSet{{U'"', U'"'},
                                                                  {U'\\', U'\\'},
                                                                  {U'/', U'/'},
                                                                  {U'b', U'b'},
                                                                  {U'f', U'f'},
                                                                  {U'n', U'n'},
                                                                  {U'r', U'r'},
                                                                  {U't', U't'}})});
  const Node character =
      e.choice({e.characters(plain_characters()), short_escape, e.sequence({u, unit})});
  return opened(e.repeat(character, 0));
}

Node JsonText::make_any_integer() {
  Expressions& e = expressions_;
  const Node digit = digits(e, '0', '9');
  const Node more = e.sequence({digits(e, '1', '9'), e.repeat(digit, 0, kIntegerDigitsMax - 1)});
  return e.sequence({e.optional(e.bytes("-")), e.choice({e.bytes("0"), more})});
}

Node JsonText::make_any_number() {
  Expressions& e = expressions_;
  const Node digit = digits(e, '0', '9');
  const Node fraction = e.sequence({e.bytes("."), e.repeat(digit, 1, kFractionDigitsMax)});
  const Node exponent =
      e.sequence({e.characters(CharacterSet{{U'E', U'E'}, {U'e', U'e'}}),
                  e.optional(e.characters(CharacterSet{{U'+', U'+'}, {U'-', U'-'}})),
                  e.repeat(digit, 1, 2)});
  return e.sequence({make_any_integer(), e.optional(fraction), e.optional(exponent)});
}

Node JsonText::make_any_text() {
  return expressions_.repeat(spell(CharacterSet::all()), 0);
}

Node JsonText::name(std::string_view text) {
  return expressions_.bytes('"' + spell_text(text) + '"');
}

Node JsonText::opened_name(std::string_view text) {
  return expressions_.bytes(spell_text(text) + '"');
}

Node JsonText::string_but(std::span<const std::string> texts) {
  return expressions_.sequence({quote(), opened_string_but(texts)});
}

Node JsonText::opened_string_but(std::span<const std::string> texts) {
  Expressions& e = expressions_;
  // A tree of the texts. Behind a character that leaves it, anything may follow; where it ends, a text must not.
  struct Branch {
    std::map<char32_t, std::size_t> next = {};
    bool ends = false;
  };
  std::vector<Branch> branches(1);
  for (const std::string& text : texts) {
    std::size_t at = 0;
    for (const char32_t c : to_code_points(text).value_or(std::u32string{})) {
      const auto [it, is_new] = branches[at].next.try_emplace(c, branches.size());
      at = it->second;
      if (is_new) branches.emplace_back();
    }
    branches[at].ends = true;
  }
  // Children have higher numbers than their parents.
  std::vector<Node> nodes(branches.size());
  for (std::size_t i = branches.size(); i-- > 0;) {
    std::vector<Node> parts;
    CharacterSet leaving = CharacterSet::all();
    for (const auto& [c, child] : branches[i].next) {
      leaving = leaving.without(CharacterSet::of(c));
      parts.push_back(e.sequence({spell(CharacterSet::of(c)), nodes[child]}));
    }
    parts.push_back(e.sequence({spell(leaving), any_text()}));
    if (!branches[i].ends) parts.push_back(e.empty());
    nodes[i] = e.choice(parts);
  }
  return opened(nodes[0]);
}

Node JsonText::literal(const json::Value& value) {
  Expressions& e = expressions_;
  std::vector<Node> parts;
  switch (value.type()) {
    case json::Value::Type::kNull:
      return e.bytes("null");
    case json::Value::Type::kBool:
      return e.bytes(value.as_bool() ? "true" : "false");
    case json::Value::Type::kNumber:
      return e.bytes(value.number_text());
    case json::Value::Type::kString:
      return name(value.as_string());
    case json::Value::Type::kArray:
      for (const json::Value& element : value.as_array()) {
        if (!parts.empty()) parts.push_back(comma_of_array());
        parts.push_back(literal(element));
      }
      if (!parts.empty()) parts.push_back(space());
      return array(e.sequence(parts));
    case json::Value::Type::kObject:
      for (const auto& [key, member] : value.as_object()) {
        if (!parts.empty()) parts.push_back(comma());
        parts.insert(parts.end(), {name(key), colon(), literal(member)});
      }
      if (!parts.empty()) parts.push_back(space());
      return object(e.sequence(parts));
  }
  return e.nothing();
}

}  // namespace coxswain::grammar
