#include "grammar/lark_terminals.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coxswain::grammar {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 26> kTerminals{{
    {"CNAME", "[A-Za-z_][A-Za-z_0-9]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"CR", "\\r"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"DIGIT", "[0-9]"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"HEXDIGIT", "[0-9A-Fa-f]"},
    {"INT", "[0-9]+"},
    {"LCASE_LETTER", "[a-z]"},
    {"LETTER", "[A-Za-z]"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"NUMBER", "[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"PYTHON_COMMENT", "#[^\\n]*"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"SIGNED_NUMBER",
     "[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SQL_COMMENT", "--[^\\n]*"},
    {"UCASE_LETTER", "[A-Z]"},
    {"WORD", "[A-Za-z]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"WS_INLINE", "[ \\t]+"},
    {"_EXP", "[eE][+-]?[0-9]+"},
}};

}  // namespace

std::optional<std::string_view> common_terminal(std::string_view name) {
  const auto at = std::ranges::find(kTerminals, name, [](const auto& row) { return row.first; });
  if (at == kTerminals.end()) return std::nullopt;
  return at->second;
}

}  // namespace coxswain::grammar
