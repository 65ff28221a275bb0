#pragma once
// Follows the bytes of one JSON value and says where it ends.
//
// Keeps no text. Control characters within strings pass: models write them, and who copies the value escapes them.
// Nesting beyond kDepthMax is not followed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace coxswain::reply {

class JsonScanner {
 public:
  static constexpr std::size_t kDepthMax = 64;

  enum class Step : std::uint8_t {
    kMore,       // the byte belongs to the value, which goes on
    kEnd,        // the byte ends the value
    kEndBefore,  // the value ended before this byte (numbers and literals)
    kBad,        // no JSON
  };
  // Not to be called again behind anything but kMore.
  Step feed(char c);

  // Whether the next byte stands within a string.
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State : std::uint8_t {
    kValue,
    kFirstKeyOrEnd,
    kKey,
    kColon,
    kFirstElementOrEnd,
    kAfterValue,
    kString,
    kEscape,
    kUnicode,
    kLiteral,
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Step begin_value(char c);
  Step open(bool object);
  Step close(bool object);
  Step value_ended();
  Step feed_structure(char c);
  Step feed_string(char c);
  Step feed_number(char c);
  Step scalar_ended_before(char c);
  Step go(State state) {
    state_ = state;
    return Step::kMore;
  }
  bool in_object() const { return depth_ != 0 && objects_[depth_ - 1]; }

  State state_ = State::kValue;
  bool key_ = false;  // the string is a key
  int hex_left_ = 0;
  std::string_view literal_left_;
  std::size_t depth_ = 0;
  std::array<bool, kDepthMax> objects_{};  // [depth_]: an object, otherwise an array
};

}  // namespace coxswain::reply
