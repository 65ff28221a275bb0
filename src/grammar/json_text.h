#pragma once
// JsonText: the building blocks of JSON texts as expressions: white space, strings, members, any value.
//
// Two ways to spell strings: free ones have every escape of JSON; bound ones (names, and what a pattern, a length or a
// format restricts) have one spelling for each character, so that characters can be counted and told apart.
//
// Thread rule: belongs to one thread, as the Expressions it writes to.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/characters.h"
#include "grammar/expression.h"
#include "grammar/json_schema.h"
#include "json/json.h"

namespace coxswain::grammar {

// Digits on either side of the point, and of the exponent: no number overflows a double or a reader's limit.
inline constexpr std::uint32_t kIntegerDigitsMax = 40;
inline constexpr std::uint32_t kFractionDigitsMax = 30;

// The body of a bound string, without quotes.
std::string spell_text(std::string_view text);

class JsonText {
 public:
  JsonText(Expressions& expressions, SchemaOptions::Space space)
      : expressions_(expressions), space_(space) {}

  Expressions& expressions() { return expressions_; }

  Node space();
  Node colon();           // with the space around it
  Node comma();           // between members
  Node comma_of_array();  // between elements
  Node quote();
  Node quoted(Node body);  // in quotes
  Node opened(Node body);  // the same behind the first quote

  Node any_value();
  Node any_object();
  Node any_array();
  Node any_string();
  Node opened_string();
  Node any_number();
  Node any_integer();
  // One character of a bound string: as it is, or with the one escape it needs.
  Node spell(const CharacterSet& set);
  Node name(std::string_view text);
  Node opened_name(std::string_view text);
  // A bound string that is none of these.
  Node string_but(std::span<const std::string> texts);
  Node opened_string_but(std::span<const std::string> texts);
  // One spelling of a value: members in their order, numbers as the document has them.
  Node literal(const json::Value& value);

  // "{" inside "}" and "[" inside "]", with the space within.
  Node object(Node inside);
  Node array(Node inside);

 private:
  // Each is made once, as a rule.
  Node once(std::optional<Node>& kept, Node (JsonText::*make)());
  Node make_space();
  Node make_any_value();
  Node make_any_object();
  Node make_any_array();
  Node make_opened_string();
  Node make_any_number();
  Node make_any_integer();
  Node make_any_text();
  Node any_text();  // of a bound string, without quotes
  Node make_spelled(const CharacterSet& set);
  Node spell_part(const CharacterSet& set, bool escaped);

  Expressions& expressions_;
  SchemaOptions::Space space_;
  std::optional<Node> space_node_, value_, object_, array_, string_, number_, integer_, text_;
  std::map<CharacterSet, Node> spelled_;
  std::map<CharacterSet, Node> spelled_parts_;  // that take many edges
};

}  // namespace coxswain::grammar
