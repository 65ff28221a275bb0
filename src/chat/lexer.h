#pragma once
// Lexer: template source to tokens, with Jinja's rules for white space (trim_blocks and
// lstrip_blocks on, '-' and '+' marks, one final line feed dropped). Source: Jinja 3.1
// documentation, "Template Designer Documentation", section Whitespace Control.
//
// Thread rule: pure function.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::chat {

enum class TokenKind : std::uint8_t {
  kData,           // literal text
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text holds it: "==", "+", "(", ...
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  std::size_t line = 1;
};

// Throws RenderError with the line of the fault. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace coxswain::chat
