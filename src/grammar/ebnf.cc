#include "grammar/ebnf.h"

#include <algorithm>
#include <string_view>

namespace coxswain::grammar {
namespace {

constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
constexpr std::string_view kBlanks = " \t";

std::string_view without_leading(std::string_view text, std::string_view characters) {
  return text.substr(std::min(text.find_first_not_of(characters), text.size()));
}

bool is_gbnf_rule(std::string_view line) {
  const std::string_view name = without_leading(line, kBlanks);
  const std::string_view rest = without_leading(name, kNameCharacters);
  return rest.size() < name.size() && without_leading(rest, kBlanks).starts_with("::=");
}

}  // namespace

Result<Node> parse_rules(Expressions& expressions, std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    if (is_gbnf_rule(rest.substr(0, end))) return parse_gbnf(expressions, text);
    rest.remove_prefix(end + 1);
  }
  return parse_lark(expressions, text);
}

}  // namespace coxswain::grammar
