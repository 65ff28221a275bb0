#pragma once
// Numbers within bounds, and multiples of one, as expressions.
//
// Bound numbers have no exponent, at most kIntegerDigitsMax digits before the point and kFractionDigitsMax behind it.
//
// Errors: kInvalidArgument for a `multipleOf` that no automaton of reasonable size can keep; kResourceExhausted where
// it would have too many states. Thread rule: pure functions.

#include <cstdint>
#include <optional>
#include <vector>

#include <coxswain/status.h>

#include "grammar/decimal.h"
#include "grammar/expression.h"

namespace coxswain::grammar {

struct NumberRange {
  std::optional<Decimal> minimum = {};
  std::optional<Decimal> maximum = {};
  bool exclusive_minimum = false;
  bool exclusive_maximum = false;
  std::vector<Decimal> multiples = {};  // of each of these; REQUIRES: above zero

  // Keeps the narrower of the former bound and this one.
  void raise_minimum(const Decimal& value, bool exclusive);
  void lower_maximum(const Decimal& value, bool exclusive);
  bool has_bounds() const { return minimum || maximum; }
  // No number lies between the bounds; no integer does.
  bool is_empty() const;
  bool has_no_integer() const;
  bool contains(const Decimal& value) const;  // between the bounds; multiples are not looked at
};

// Integers without point and exponent.
Result<Node> integer_text(Expressions& expressions, const NumberRange& range);
// Numbers of either kind, without exponent.
Result<Node> number_text(Expressions& expressions, const NumberRange& range);
// Numbers that are no integers. REQUIRES: no multiples.
Result<Node> fraction_text(Expressions& expressions, const NumberRange& range);

}  // namespace coxswain::grammar
