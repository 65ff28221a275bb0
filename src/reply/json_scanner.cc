#include "reply/json_scanner.h"

#include "reply/characters.h"

namespace coxswain::reply {

JsonScanner::Step JsonScanner::feed(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kUnicode:
      return feed_string(c);
    case State::kLiteral:
      if (literal_left_.empty()) return scalar_ended_before(c);
      if (c != literal_left_.front()) return Step::kBad;
      literal_left_.remove_prefix(1);
      return Step::kMore;
    case State::kMinus:
    case State::kZero:
    case State::kInteger:
    case State::kPoint:
    case State::kFraction:
    case State::kExponent:
    case State::kExponentSign:
    case State::kExponentDigits:
      return feed_number(c);
    default:
      return feed_structure(c);
  }
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  switch (c) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      key_ = false;
      return go(State::kString);
    case 't':
      literal_left_ = "rue";
      return go(State::kLiteral);
    case 'f':
      literal_left_ = "alse";
      return go(State::kLiteral);
    case 'n':
      literal_left_ = "ull";
      return go(State::kLiteral);
    case '-':
      return go(State::kMinus);
    case '0':
      return go(State::kZero);
    default:
      return is_digit(c) ? go(State::kInteger) : Step::kBad;
  }
}

JsonScanner::Step JsonScanner::open(bool object) {
  if (depth_ == kDepthMax) return Step::kBad;
  objects_[depth_++] = object;
  return go(object ? State::kFirstKeyOrEnd : State::kFirstElementOrEnd);
}

JsonScanner::Step JsonScanner::close(bool object) {
  if (depth_ == 0 || objects_[depth_ - 1] != object) return Step::kBad;
  --depth_;
  return value_ended();
}

JsonScanner::Step JsonScanner::value_ended() {
  state_ = State::kAfterValue;
  return depth_ == 0 ? Step::kEnd : Step::kMore;
}

JsonScanner::Step JsonScanner::feed_structure(char c) {
  if (is_space(c)) return depth_ == 0 ? Step::kBad : Step::kMore;
  switch (state_) {
    case State::kFirstKeyOrEnd:
      if (c == '}') return close(true);
      [[fallthrough]];
    case State::kKey:
      key_ = true;
      return c == '"' ? go(State::kString) : Step::kBad;
    case State::kColon:
      return c == ':' ? go(State::kValue) : Step::kBad;
    case State::kFirstElementOrEnd:
      return c == ']' ? close(false) : begin_value(c);
    case State::kAfterValue:
      if (c == ',') return go(in_object() ? State::kKey : State::kValue);
      if (c == '}' || c == ']') return close(c == '}');
      return Step::kBad;
    default:
      return begin_value(c);
  }
}

JsonScanner::Step JsonScanner::feed_string(char c) {
  if (state_ == State::kUnicode) {
    if (!is_hex_digit(c)) return Step::kBad;
    return --hex_left_ == 0 ? go(State::kString) : Step::kMore;
  }
  if (state_ == State::kEscape) {
    hex_left_ = 4;
    if (c == 'u') return go(State::kUnicode);
    return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos ? go(State::kString)
                                                                            : Step::kBad;
  }
  if (c == '\\') return go(State::kEscape);
  if (c != '"') return Step::kMore;
  return key_ ? go(State::kColon) : value_ended();
}

JsonScanner::Step JsonScanner::feed_number(char c) {
  const bool digit = is_digit(c);
  switch (state_) {
    case State::kMinus:
      if (!digit) return Step::kBad;
      return go(c == '0' ? State::kZero : State::kInteger);
    case State::kPoint:
      return digit ? go(State::kFraction) : Step::kBad;
    case State::kExponent:
      if (c == '+' || c == '-') return go(State::kExponentSign);
      [[fallthrough]];
    case State::kExponentSign:
      return digit ? go(State::kExponentDigits) : Step::kBad;
    default:
      break;
  }
  if (digit) return state_ == State::kZero ? Step::kBad : Step::kMore;
  const bool whole = state_ == State::kZero || state_ == State::kInteger;
  if (c == '.' && whole) return go(State::kPoint);
  if ((c == 'e' || c == 'E') && state_ != State::kExponentDigits) return go(State::kExponent);
  return scalar_ended_before(c);
}

JsonScanner::Step JsonScanner::scalar_ended_before(char c) {
  if (depth_ == 0) return Step::kEndBefore;
  state_ = State::kAfterValue;
  return feed_structure(c);
}

}  // namespace coxswain::reply
