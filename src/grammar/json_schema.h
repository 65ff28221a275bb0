#pragma once
// JSON Schema (drafts 7 and 2020-12) as expressions: the JSON texts of the instances that a schema allows.
//
// What a left-to-right automaton can enforce is enforced; everything else is refused by its JSON pointer, never passed
// over: no text that the schema calls invalid can be written. The texts that can be written may be fewer than those
// that are valid: members come in the order of `properties`, then what `additionalProperties` allows.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string_view>

#include <coxswain/status.h>

#include "grammar/expression.h"
#include "json/json.h"

namespace coxswain::grammar {

struct SchemaOptions {
  // Between the tokens of the text.
  enum class Space : std::uint8_t {
    kNone,     // {"a":1}
    kTgi,      // at most one blank at each place, as text-generation-inference's engine lets it
    kBounded,  // blanks and up to two line breaks, each with its indentation, at each place
  };
  Space space = Space::kBounded;
  // Objects that say nothing of additionalProperties have no others than those of `properties`.
  bool closes_objects = false;

  friend bool operator==(const SchemaOptions&, const SchemaOptions&) = default;
};

inline constexpr SchemaOptions kTgiSchema{.space = SchemaOptions::Space::kTgi,
                                          .closes_objects = true};

// Errors: kInvalidArgument with the JSON pointer of the keyword at fault and why it is refused; kResourceExhausted for
// schemas beyond the limits.
Result<Node> schema_expression(Expressions& expressions,
                               const json::Value& schema,
                               const SchemaOptions& options);

// Any JSON object, as response_format json_object asks for.
Node any_json_object(Expressions& expressions, const SchemaOptions& options);

}  // namespace coxswain::grammar
