#include "request/range.h"

#include <array>
#include <charconv>

namespace coxswain::request {
namespace {

// With a point, so that a reader sees that fractions are allowed: "1.0".
std::string end_text(float value) {
  std::string out = number_text(value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace

std::string Range::text() const {
  const Range all;
  std::string out;
  if (low != all.low) out = (low_included ? ">= " : "> ") + end_text(low);
  if (high != all.high) {
    if (!out.empty()) out += " and ";
    out += (high_included ? "<= " : "< ") + end_text(high);
  }
  return out.empty() ? "a finite number" : out;
}

std::string number_text(float value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), written.ptr};
}

}  // namespace coxswain::request
