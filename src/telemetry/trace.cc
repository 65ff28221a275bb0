#include "telemetry/trace.h"

#include <algorithm>

#include "base/random.h"

namespace coxswain::telemetry {
namespace {

// Two lower-case digits; nothing else is valid.
std::optional<std::uint8_t> byte_of(std::string_view digits) {
  unsigned value = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(decimal ? c - '0' : c - 'a' + 10);
  }
  return static_cast<std::uint8_t>(value);
}

// An id of zeros is none.
template <std::size_t kN>
bool read_id(std::string_view digits, std::array<std::uint8_t, kN>& id) {
  for (std::size_t i = 0; i < kN; ++i) {
    const auto byte = byte_of(digits.substr(2 * i, 2));
    if (!byte) return false;
    id[i] = *byte;
  }
  return std::ranges::any_of(id, [](std::uint8_t b) { return b != 0; });
}

template <std::size_t kN>
std::array<std::uint8_t, kN> draw() {
  std::array<std::uint8_t, kN> id{};
  while (std::ranges::none_of(id, [](std::uint8_t b) { return b != 0; })) {
    for (std::size_t i = 0; i < kN; i += 8) {
      const std::uint64_t bits = base::random_u64();
      for (std::size_t j = 0; j < 8; ++j) id[i + j] = static_cast<std::uint8_t>(bits >> (8 * j));
    }
  }
  return id;
}

}  // namespace

std::optional<TraceParent> parse_traceparent(std::string_view text) {
  constexpr std::size_t kLength = 55;  // of version 00: 2 + 32 + 16 + 2 digits, three dashes
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const auto version = byte_of(text.substr(0, 2));
  if (!version || *version == 0xFF) return std::nullopt;
  // A later version may have more behind a dash.
  if (text.size() > kLength && (*version == 0 || text[kLength] != '-')) return std::nullopt;
  TraceParent out;
  const auto flags = byte_of(text.substr(53, 2));
  if (!flags || !read_id(text.substr(3, 32), out.trace) || !read_id(text.substr(36, 16), out.span))
    return std::nullopt;
  out.sampled = (*flags & 1U) != 0;
  return out;
}

std::string to_text(const TraceId& id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : id) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
  return out;
}

TraceId new_trace_id() {
  return draw<16>();
}

SpanId new_span_id() {
  return draw<8>();
}

}  // namespace coxswain::telemetry
