#pragma once
// Grammars of tests: what a schema allows, asked text by text.
// Thread rule: one thread.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/json_schema.h"
#include "grammar/program.h"
#include "grammar/token_masks.h"
#include "grammar/token_trie.h"
#include "json/json.h"

namespace coxswain::grammar::testing {

class Grammar {
 public:
  explicit Grammar(Program program)
      : masks_(std::make_unique<TokenMasks>(
            std::move(program),
            std::make_shared<const TokenTrie>(1, [](TokenId) { return std::string(); }))) {}

  bool accepts(std::string_view text) const {
    auto position = masks_->begin();
    return masks_->advance(position, text) && masks_->is_whole(position);
  }

 private:
  std::unique_ptr<TokenMasks> masks_;
};

inline Result<Grammar> grammar_of(const json::Value& schema, const SchemaOptions& options) {
  Expressions expressions;
  const auto node = schema_expression(expressions, schema, options);
  if (!node.ok()) return node.status();
  auto program = compile_program(expressions, node.value());
  if (!program.ok()) return program.status();
  return Grammar(std::move(program).value());
}

// The text of a value with a blank behind ',' and ':', or over lines if there is an indentation.
inline std::string spaced(const json::Value& value,
                          std::optional<std::string> indentation,
                          std::size_t depth = 0) {
  std::string line;
  if (indentation) {
    line = "\n";
    for (std::size_t i = 0; i < depth; ++i) line += *indentation;
  }
  const std::string inner = indentation ? line + *indentation : std::string();
  const std::string comma = indentation ? "," + inner : std::string(", ");
  std::string out;
  if (value.is_array() && !value.as_array().empty()) {
    for (const json::Value& element : value.as_array())
      out += (out.empty() ? "[" + inner : comma) + spaced(element, indentation, depth + 1);
    return out + line + "]";
  }
  if (value.is_object() && !value.as_object().empty()) {
    for (const auto& [name, member] : value.as_object()) {
      out += out.empty() ? "{" + inner : comma;
      json::append_quoted(out, name);
      out += ": " + spaced(member, indentation, depth + 1);
    }
    return out + line + "}";
  }
  return json::write(value);
}

}  // namespace coxswain::grammar::testing
