#include "grammar/json_numbers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "grammar/json_text.h"

namespace coxswain::grammar {
namespace {

constexpr std::size_t kListedMax = 400;               // multiples that are listed one by one
constexpr std::uint64_t kRemaindersMax = 2'000;       // of a divisor
constexpr std::uint64_t kRemainderRulesMax = 30'000;  // remainders times digits
constexpr std::size_t kExactDigits = 15;              // that every double holds
constexpr std::size_t kExactIntegerDigits = 9;        // of those, before a point
constexpr std::uint64_t kStepsOfOneMax = 100;         // 1 / multipleOf

Node digit_between(Expressions& e, char first, char last) {
  return e.characters(CharacterSet{{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}
Node any_digit(Expressions& e) {
  return digit_between(e, '0', '9');
}

bool all_are(std::string_view digits, char digit) {
  return digits.find_first_not_of(digit) == std::string_view::npos;
}

bool less(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// Magnitudes: numbers from zero on.
struct Interval {
  Decimal low = {};
  std::optional<Decimal> high = {};
  bool low_open = false;
  bool high_open = false;
};

bool is_empty(const Interval& interval) {
  if (!interval.high) return false;
  if (interval.low > *interval.high) return true;
  return interval.low == *interval.high && (interval.low_open || interval.high_open);
}

// Numbers >= 0, and the magnitudes of those below zero.
std::optional<Interval> above_zero(const NumberRange& range) {
  Interval out{.high = range.maximum, .high_open = range.exclusive_maximum};
  if (range.maximum && range.maximum->is_negative()) return std::nullopt;
  if (range.minimum && !range.minimum->is_negative()) {
    out.low = *range.minimum;
    out.low_open = range.exclusive_minimum;
  }
  if (is_empty(out)) return std::nullopt;
  return out;
}

std::optional<Interval> below_zero(const NumberRange& range) {
  Interval out{.low_open = true};
  if (range.minimum && !range.minimum->is_negative()) return std::nullopt;
  if (range.minimum) {
    out.high = range.minimum->magnitude();
    out.high_open = range.exclusive_minimum;
  }
  if (range.maximum && range.maximum->is_negative()) {
    out.low = range.maximum->magnitude();
    out.low_open = range.exclusive_maximum;
  }
  if (is_empty(out)) return std::nullopt;
  return out;
}

// The integers of an interval by their digits; no high: as many digits as there may be.
struct IntegerInterval {
  std::string low;
  std::optional<std::string> high;
};

std::optional<IntegerInterval> integers_of(const Interval& interval) {
  IntegerInterval out{interval.low.integer_digits(), std::nullopt};
  if (!interval.low.is_integer() || interval.low_open) out.low = add_one(out.low);
  if (out.low.size() > kIntegerDigitsMax) return std::nullopt;
  if (interval.high) {
    std::string high = interval.high->integer_digits();
    if (interval.high->is_integer() && interval.high_open) {
      if (high == "0") return std::nullopt;
      high = subtract_one(std::move(high));
    }
    if (less(high, out.low)) return std::nullopt;
    if (high.size() <= kIntegerDigitsMax) out.high = std::move(high);
  }
  return out;
}

// Integers with the same beginning: `prefix`, one digit of [first, last] (none if first is 0), then n_free digits at
// will; at least so many if `open`.
struct Piece {
  std::string prefix;
  char first = 0;
  char last = 0;
  std::size_t n_free = 0;
  bool open = false;
};

// From one number to another of as many digits.
void add_pieces(std::vector<Piece>& out,
                const std::string& low,
                const std::string& high,
                std::size_t at = 0) {
  const std::size_t n = low.size();
  while (at < n && low[at] == high[at]) ++at;
  const std::string prefix = low.substr(0, at);
  if (at == n) {
    out.push_back({.prefix = prefix});
    return;
  }
  const std::size_t n_free = n - at - 1;
  char first = low[at];
  char last = high[at];
  if (!all_are(std::string_view(low).substr(at + 1), '0')) {
    add_pieces(out, low, prefix + first + std::string(n_free, '9'), at + 1);
    ++first;
  }
  const bool whole_end = all_are(std::string_view(high).substr(at + 1), '9');
  if (!whole_end) --last;
  if (first <= last) out.push_back({prefix, first, last, n_free});
  if (!whole_end) add_pieces(out, prefix + high[at] + std::string(n_free, '0'), high, at + 1);
}

std::vector<Piece> pieces_of(const IntegerInterval& interval) {
  std::vector<Piece> out;
  const std::size_t n_low = interval.low.size();
  const std::size_t n_high = interval.high ? interval.high->size() : 0;
  if (n_high == n_low) {
    add_pieces(out, interval.low, *interval.high);
    return out;
  }
  add_pieces(out, interval.low, std::string(n_low, '9'));
  if (!interval.high) {
    if (n_low < kIntegerDigitsMax) out.push_back({"", '1', '9', n_low, true});
    return out;
  }
  for (std::size_t n = n_low + 1; n < n_high; ++n) out.push_back({"", '1', '9', n - 1});
  add_pieces(out, '1' + std::string(n_high - 1, '0'), *interval.high);
  return out;
}

Node write(Expressions& e, const Piece& piece) {
  if (piece.first == 0) return e.bytes(piece.prefix);
  const auto n_free = static_cast<std::uint32_t>(piece.n_free);
  return e.sequence({e.bytes(piece.prefix),
                     digit_between(e, piece.first, piece.last),
                     e.repeat(any_digit(e), n_free, piece.open ? kIntegerDigitsMax - 1 : n_free)});
}

Node write(Expressions& e, const IntegerInterval& interval) {
  std::vector<Node> parts;
  for (const Piece& piece : pieces_of(interval)) parts.push_back(write(e, piece));
  return e.choice(parts);
}

// Digits that leave the remainder 0 behind those that left another: a rule for each remainder.
class Remainders {
 public:
  Remainders(Expressions& e, std::uint64_t divisor) : e_(e), divisor_(divisor) {}

  Node write(const Piece& piece) {
    std::uint64_t remainder = 0;
    for (const char c : piece.prefix) remainder = next(remainder, c);
    if (piece.first == 0) return remainder == 0 ? e_.bytes(piece.prefix) : e_.nothing();
    std::vector<Node> parts;
    for (char digit = piece.first; digit <= piece.last; ++digit) {
      parts.push_back(e_.sequence({e_.bytes(piece.prefix + digit),
                                   digits(piece.n_free, piece.open, next(remainder, digit))}));
    }
    return e_.choice(parts);
  }

 private:
  std::uint64_t next(std::uint64_t remainder, char digit) const {
    return (remainder * 10 + static_cast<std::uint64_t>(digit - '0')) % divisor_;
  }

  // So many digits, or at least so many.
  Node digits(std::size_t n, bool open, std::uint64_t remainder) {
    if (n == 0 && !open) return remainder == 0 ? e_.empty() : e_.nothing();
    const auto [at, is_new] = rules_.try_emplace({open, n, remainder}, 0);
    if (!is_new) return e_.rule(at->second);
    const RuleId rule = e_.add_rule();
    at->second = rule;
    std::vector<Node> parts;
    for (char digit = '0'; digit <= '9'; ++digit) {
      parts.push_back(e_.sequence({digit_between(e_, digit, digit),
                                   digits(n > 0 ? n - 1 : 0, open, next(remainder, digit))}));
    }
    if (n == 0 && remainder == 0) parts.push_back(e_.empty());
    e_.define(rule, e_.choice(parts));
    return e_.rule(rule);
  }

  Expressions& e_;
  std::uint64_t divisor_;
  std::map<std::tuple<bool, std::size_t, std::uint64_t>, RuleId> rules_;
};

// digits * 10^zeros = the least number that all multiples divide; digits ends in no zero.
struct Step {
  std::uint64_t digits = 1;
  std::int64_t zeros = 0;
};

std::uint64_t power_of_ten(std::int64_t exponent) {
  std::uint64_t out = 1;
  for (std::int64_t i = 0; i < exponent; ++i) out *= 10;
  return out;
}

Status no_multiple(std::string_view why) {
  return invalid_argument("this multipleOf cannot be kept: " + std::string(why));
}

Result<Step> step_of(const std::vector<Decimal>& multiples) {
  Step out;
  std::int64_t scale = 0;
  for (const Decimal& multiple : multiples) scale = std::min(scale, multiple.exponent());
  if (scale < -9) return no_multiple("more than 9 digits behind the point");
  std::uint64_t common = 1;
  for (const Decimal& multiple : multiples) {
    const std::int64_t exponent = multiple.exponent() - scale;
    if (multiple.digits().size() + static_cast<std::size_t>(exponent) > 18) {
      return no_multiple("more than 18 digits");
    }
    const std::uint64_t value = std::stoull(multiple.digits()) * power_of_ten(exponent);
    const std::uint64_t factor = value / std::gcd(value, common);
    if (factor > 1'000'000'000'000'000'000ULL / common) {
      return no_multiple("the least common multiple of several has more than 18 digits");
    }
    common *= factor;
  }
  out.digits = common;
  out.zeros = multiples.empty() ? 0 : scale;
  while (!multiples.empty() && out.digits % 10 == 0) {
    out.digits /= 10;
    ++out.zeros;
  }
  return out;
}

// The multiples of an integer in one interval of magnitudes; where that leaves any, those alone that a double holds.
Result<Node> multiples_text(Expressions& e, IntegerInterval interval, std::uint64_t step) {
  const bool is_long = !interval.high || interval.high->size() > kExactDigits;
  if (is_long && interval.low.size() <= kExactDigits)
    interval.high = std::string(kExactDigits, '9');
  // Of few, each is written out.
  if (interval.high && interval.high->size() <= 18) {
    const std::uint64_t low = std::stoull(interval.low);
    const std::uint64_t high = std::stoull(*interval.high);
    const std::uint64_t first = (low + step - 1) / step * step;
    if (first > high) return e.nothing();
    if ((high - first) / step < kListedMax) {
      std::vector<Node> parts;
      for (std::uint64_t value = first; value <= high; value += step)
        parts.push_back(e.bytes(std::to_string(value)));
      return e.choice(parts);
    }
  }
  const std::size_t n_digits = interval.high ? interval.high->size() : interval.low.size();
  if (step > kRemaindersMax || step * n_digits > kRemainderRulesMax) {
    return no_multiple("a divisor of more than " + std::to_string(kRemaindersMax) +
                       " without near bounds");
  }
  Remainders remainders(e, step);
  std::vector<Node> parts;
  for (const Piece& piece : pieces_of(interval)) parts.push_back(remainders.write(piece));
  return e.choice(parts);
}

// Integers of the interval that are multiples of step * 10^zeros.
Result<Node> integer_text(Expressions& e, const Interval& interval, const Step& step) {
  if (step.zeros <= 0) {
    // digits / 10^k divides an integer where digits / gcd(digits, 10^k) does.
    const std::uint64_t whole = step.digits / std::gcd(step.digits, power_of_ten(-step.zeros));
    const auto integers = integers_of(interval);
    if (!integers) return e.nothing();
    if (whole == 1) return write(e, *integers);
    return multiples_text(e, *integers, whole);
  }
  // n * 10^zeros is n with as many zeros behind it, but for zero itself.
  const auto shifted = [&](const Decimal& value) {
    return Decimal::parse((value.is_zero() ? "0" : value.digits()) + "e" +
                          std::to_string(value.exponent() - step.zeros))
        .value_or(Decimal{});
  };
  Interval smaller{
      .low = shifted(interval.low), .low_open = interval.low_open, .high_open = interval.high_open};
  if (interval.high) smaller.high = shifted(*interval.high);
  const bool has_zero = interval.low.is_zero() && !interval.low_open;
  if (has_zero) smaller.low_open = true;
  const auto integers = integers_of(smaller);
  Node node = e.nothing();
  if (integers) {
    auto multiples = step.digits == 1 ? Result<Node>(write(e, *integers))
                                      : multiples_text(e, *integers, step.digits);
    if (!multiples.ok()) return multiples;
    node = e.sequence(
        {multiples.value(), e.bytes(std::string(static_cast<std::size_t>(step.zeros), '0'))});
  }
  return has_zero ? e.choice({e.bytes("0"), node}) : node;
}

// Digits behind the point, from [low, high] of the digits of both bounds.
class Fractions {
 public:
  Fractions(Expressions& e, std::size_t digits_max) : e_(e), digits_max_(digits_max) {}

  struct Bounds {
    std::optional<std::string> low = {};  // the digits must come to at least these
    std::optional<std::string> high = {};
    bool low_open = false;
    bool high_open = false;
  };

  // The point and what follows, or nothing where the integer alone is within the bounds.
  Node write(const Bounds& bounds) {
    bounds_ = bounds;
    const Node behind = e_.sequence(
        {e_.bytes("."), digits(0, bounds.low.has_value(), bounds.high.has_value(), true)});
    return may_end(0, bounds.low.has_value(), bounds.high.has_value()) ? e_.optional(behind)
                                                                       : behind;
  }
  // A point, and digits that are not all zeros.
  Node not_zero() { return e_.sequence({e_.bytes("."), not_zero(0)}); }

 private:
  static std::size_t rest(const std::optional<std::string>& digits, std::size_t at) {
    return digits->size() > at ? digits->size() - at : 0;
  }
  static char digit(const std::optional<std::string>& digits, std::size_t at) {
    return at < digits->size() ? (*digits)[at] : '0';
  }

  // `low_tight`: the digits so far are those of the lower bound.
  bool may_end(std::size_t at, bool low_tight, bool high_tight) const {
    if (low_tight && (rest(bounds_.low, at) > 0 || bounds_.low_open)) return false;
    return !(high_tight && rest(bounds_.high, at) == 0 && bounds_.high_open);
  }

  Node free(std::size_t at, bool one) {
    const std::size_t n = at < digits_max_ ? digits_max_ - at : 0;
    if (one && n == 0) return e_.nothing();
    return e_.repeat(any_digit(e_), one ? 1 : 0, static_cast<std::uint32_t>(n));
  }

  Node zeros(std::size_t at, bool one) {
    const std::size_t n = at < digits_max_ ? digits_max_ - at : 0;
    if (one && n == 0) return e_.nothing();
    return e_.repeat(e_.bytes("0"), one ? 1 : 0, static_cast<std::uint32_t>(n));
  }

  Node not_zero(std::size_t at) {
    if (at >= digits_max_) return e_.nothing();
    const std::size_t n = digits_max_ - at;
    if (n > 4) {
      const auto half = static_cast<std::uint32_t>(n / 2);
      return e_.sequence({e_.repeat(e_.bytes("0"), 0, half),
                          digit_between(e_, '1', '9'),
                          e_.repeat(any_digit(e_), 0, static_cast<std::uint32_t>(n) - half - 1)});
    }
    return e_.choice({e_.sequence({digit_between(e_, '1', '9'), free(at + 1, false)}),
                      e_.sequence({e_.bytes("0"), not_zero(at + 1)})});
  }

  Node digits(std::size_t at, bool low_tight, bool high_tight, bool one) {
    if (!low_tight && !high_tight) return free(at, one);
    if (at >= digits_max_) {
      return !one && may_end(at, low_tight, high_tight) ? e_.empty() : e_.nothing();
    }
    const bool low_done = !low_tight || rest(bounds_.low, at) == 0;
    const bool high_done = !high_tight || rest(bounds_.high, at) == 0;
    if (low_done && high_done) {
      if (!high_tight) return bounds_.low_open ? not_zero(at) : free(at, one);
      if (bounds_.high_open || (low_tight && bounds_.low_open)) return e_.nothing();
      return zeros(at, one);
    }
    const char first = low_tight ? digit(bounds_.low, at) : '0';
    const char last = high_tight ? digit(bounds_.high, at) : '9';
    std::vector<Node> parts;
    if (!one && may_end(at, low_tight, high_tight)) parts.push_back(e_.empty());
    if (first == last) {
      parts.push_back(e_.sequence(
          {digit_between(e_, first, first), digits(at + 1, low_tight, high_tight, false)}));
      return e_.choice(parts);
    }
    if (first > last) return e_.choice(parts);
    parts.push_back(
        e_.sequence({digit_between(e_, first, first), digits(at + 1, low_tight, false, false)}));
    if (first + 1 < last) {
      parts.push_back(
          e_.sequence({digit_between(e_, static_cast<char>(first + 1), static_cast<char>(last - 1)),
                       free(at + 1, false)}));
    }
    parts.push_back(
        e_.sequence({digit_between(e_, last, last), digits(at + 1, false, high_tight, false)}));
    return e_.choice(parts);
  }

  Expressions& e_;
  std::size_t digits_max_;
  Bounds bounds_;
};

// Magnitudes of an interval.
Node decimal_text(Expressions& e, const Interval& interval, Fractions& fractions) {
  const std::string low = interval.low.integer_digits();
  if (low.size() > kIntegerDigitsMax) return e.nothing();
  std::optional<std::string> high;
  if (interval.high) high = interval.high->integer_digits();
  if (high && high->size() > kIntegerDigitsMax) high.reset();
  const Fractions::Bounds above{.low = interval.low.fraction_digits(),
                                .low_open = interval.low_open};
  std::vector<Node> parts;
  if (high && *high == low) {
    Fractions::Bounds both = above;
    both.high = interval.high->fraction_digits();
    both.high_open = interval.high_open;
    return e.sequence({e.bytes(low), fractions.write(both)});
  }
  parts.push_back(e.sequence({e.bytes(low), fractions.write(above)}));
  IntegerInterval between{add_one(low), std::nullopt};
  if (high) {
    between.high = subtract_one(*high);
    parts.push_back(e.sequence({e.bytes(*high),
                                fractions.write({.high = interval.high->fraction_digits(),
                                                 .high_open = interval.high_open})}));
  }
  if (between.low.size() <= kIntegerDigitsMax &&
      !(between.high && less(*between.high, between.low)))
    parts.push_back(e.sequence({write(e, between), fractions.write({})}));
  return e.choice(parts);
}

// Multiples of 1/n: an integer and one of n fractions, where the next integer is within the bounds too.
Result<Node> part_of_one_text(Expressions& e, const Interval& interval, const Step& step) {
  const std::uint64_t scale = power_of_ten(-step.zeros);
  auto whole = integer_text(e, interval, {});
  if (!whole.ok()) return whole;
  std::vector<Node> fractions;
  for (std::uint64_t value = step.digits; value < scale; value += step.digits) {
    std::string digits = std::to_string(value);
    digits.insert(0, static_cast<std::size_t>(-step.zeros) - digits.size(), '0');
    while (digits.back() == '0') digits.pop_back();
    fractions.push_back(e.bytes("." + digits));
  }
  std::vector<Node> parts = {e.sequence({whole.value(), e.optional(e.bytes(".0"))})};
  auto integers = integers_of(interval);
  // Between a bound and the next integer no fraction is written, but for those next to zero.
  if (integers) {
    if (interval.low.is_zero()) integers->low = "0";
    bool has_room = true;
    if (integers->high) {
      if (*integers->high == "0") has_room = false;
      if (has_room) integers->high = subtract_one(*integers->high);
      if (less(*integers->high, integers->low)) has_room = false;
    }
    if (has_room) parts.push_back(e.sequence({write(e, *integers), e.choice(fractions)}));
  }
  return e.choice(parts);
}

Result<Node> number_text(Expressions& e,
                         const Interval& interval,
                         const std::optional<Step>& step) {
  if (!step) {
    Fractions fractions(e, kFractionDigitsMax);
    return decimal_text(e, interval, fractions);
  }
  if (step->zeros < 0 && step->digits == 1) {
    Fractions fractions(e, static_cast<std::size_t>(-step->zeros));
    return decimal_text(e, interval, fractions);
  }
  if (step->zeros < 0) {
    const std::uint64_t scale = power_of_ten(-step->zeros);
    if (scale % step->digits == 0 && scale / step->digits <= kStepsOfOneMax) {
      return part_of_one_text(e, interval, *step);
    }
  }
  auto whole = integer_text(e, interval, *step);
  if (!whole.ok()) return whole;
  return e.sequence({whole.value(), e.optional(e.bytes(".0"))});
}

template <typename Write>
Result<Node> both_signs(Expressions& e, const NumberRange& range, const Write& write_interval) {
  std::vector<Node> parts;
  if (const auto interval = above_zero(range)) {
    auto node = write_interval(*interval);
    if (!node.ok()) return node;
    parts.push_back(node.value());
  }
  if (const auto interval = below_zero(range)) {
    auto node = write_interval(*interval);
    if (!node.ok()) return node;
    parts.push_back(e.sequence({e.bytes("-"), node.value()}));
  }
  return e.choice(parts);
}

}  // namespace

void NumberRange::raise_minimum(const Decimal& value, bool exclusive) {
  if (minimum && *minimum == value) exclusive_minimum = exclusive_minimum || exclusive;
  if (minimum && *minimum >= value) return;
  minimum = value;
  exclusive_minimum = exclusive;
}

void NumberRange::lower_maximum(const Decimal& value, bool exclusive) {
  if (maximum && *maximum == value) exclusive_maximum = exclusive_maximum || exclusive;
  if (maximum && *maximum <= value) return;
  maximum = value;
  exclusive_maximum = exclusive;
}

bool NumberRange::is_empty() const {
  if (!minimum || !maximum) return false;
  return *minimum > *maximum || (*minimum == *maximum && (exclusive_minimum || exclusive_maximum));
}

bool NumberRange::has_no_integer() const {
  const auto above = above_zero(*this);
  const auto below = below_zero(*this);
  return !(above && integers_of(*above)) && !(below && integers_of(*below));
}

bool NumberRange::contains(const Decimal& value) const {
  if (minimum && (value < *minimum || (exclusive_minimum && value == *minimum))) return false;
  return !maximum || value < *maximum || (!exclusive_maximum && value == *maximum);
}

Result<Node> integer_text(Expressions& e, const NumberRange& range) {
  const auto step = step_of(range.multiples);
  if (!step.ok()) return step.status();
  return both_signs(
      e, range, [&](const Interval& interval) { return integer_text(e, interval, step.value()); });
}

Result<Node> number_text(Expressions& e, const NumberRange& range) {
  std::optional<Step> step;
  if (!range.multiples.empty()) {
    auto made = step_of(range.multiples);
    if (!made.ok()) return made.status();
    step = made.value();
  }
  return both_signs(
      e, range, [&](const Interval& interval) { return number_text(e, interval, step); });
}

Result<Node> fraction_text(Expressions& e, const NumberRange& range) {
  // Between integers alone: an integer, then digits that are not all zeros.
  return both_signs(e, range, [&](const Interval& interval) -> Result<Node> {
    auto integers = integers_of({.low = interval.low, .high = interval.high});
    if (!integers) return e.nothing();
    if (integers->high) {
      if (*integers->high == "0") return e.nothing();
      integers->high = subtract_one(*integers->high);
      if (less(*integers->high, integers->low)) return e.nothing();
    }
    // Of more digits, a double would keep the integer alone.
    const bool is_long = !integers->high || integers->high->size() > kExactIntegerDigits;
    if (is_long && integers->low.size() <= kExactIntegerDigits)
      integers->high = std::string(kExactIntegerDigits, '9');
    Fractions fractions(e, kExactDigits - kExactIntegerDigits);
    return e.sequence({write(e, *integers), fractions.not_zero()});
  });
}

}  // namespace coxswain::grammar
