#pragma once
// Range: the legal values of a number, between two ends that are in it or not. NaN and infinities are in none.
//
// Thread rule: values.

#include <limits>
#include <string>

namespace coxswain::request {

struct Range {
  float low = std::numeric_limits<float>::lowest();
  float high = std::numeric_limits<float>::max();
  bool low_included = true;
  bool high_included = true;

  // Written so that NaN fails.
  constexpr bool contains(float value) const {
    return (low_included ? value >= low : value > low) &&
           (high_included ? value <= high : value < high);
  }
  // Every finite number above 0.
  constexpr bool is_positive() const {
    return low == 0.0F && !low_included && high == std::numeric_limits<float>::max();
  }
  // "> 0.0 and <= 1.0", ">= 0.0"; "a finite number" without ends.
  std::string text() const;

  friend bool operator==(const Range&, const Range&) = default;
};

// The shortest text that reads back as the same float.
std::string number_text(float value);

}  // namespace coxswain::request
