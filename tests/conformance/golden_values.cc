#include "conformance/golden_values.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace coxswain::conformance {
namespace {

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

std::vector<std::uint8_t> decode_base64(std::string_view text) {
  std::vector<std::uint8_t> out;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) break;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<std::uint8_t>(bits >> n_bits & 0xFF));
  }
  return out;
}

std::vector<float> golden_floats(const json::Value& object, std::string_view field) {
  const json::Value* found = object.find(field);
  if (found == nullptr || !found->is_string()) return {};
  const std::vector<std::uint8_t> bytes = decode_base64(found->as_string());
  std::vector<float> out(bytes.size() / sizeof(float));
  static_assert(std::endian::native == std::endian::little);
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

std::vector<double> golden_doubles(const json::Value& object, std::string_view field) {
  std::vector<double> out;
  const json::Value* found = object.find(field);
  if (found == nullptr || !found->is_array()) return out;
  for (const json::Value& entry : found->as_array()) out.push_back(entry.to_double().value_or(NAN));
  return out;
}

std::vector<TokenId> golden_ids(const json::Value& object, std::string_view field) {
  std::vector<TokenId> out;
  const json::Value* found = object.find(field);
  if (found == nullptr || !found->is_array()) return out;
  for (const json::Value& id : found->as_array())
    out.push_back(static_cast<TokenId>(id.to_int64().value_or(-1)));
  return out;
}

double golden_number(const json::Value& object, std::string_view field, double otherwise) {
  const json::Value* found = object.find(field);
  return found == nullptr ? otherwise : found->to_double().value_or(otherwise);
}

std::string golden_string(const json::Value& object, std::string_view field) {
  const json::Value* found = object.find(field);
  return found != nullptr && found->is_string() ? found->as_string() : std::string();
}

}  // namespace coxswain::conformance
