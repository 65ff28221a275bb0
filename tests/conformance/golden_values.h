#pragma once
// Values inside the files of reference answers: numbers and base64 of little-endian floats or bits.
// Reading is lenient about what is missing (empty results): the comparison then fails and names the case.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "json/json.h"

namespace coxswain::conformance {

// Standard base64 (RFC 4648). Decoding ends at the first character that is none.
std::vector<std::uint8_t> decode_base64(std::string_view text);

// The member `field` of an object: base64 of little-endian float32, an array of numbers, an array
// of ids (-1 for what is none).
std::vector<float> golden_floats(const json::Value& object, std::string_view field);
std::vector<double> golden_doubles(const json::Value& object, std::string_view field);
std::vector<TokenId> golden_ids(const json::Value& object, std::string_view field);

double golden_number(const json::Value& object, std::string_view field, double otherwise);
std::string golden_string(const json::Value& object, std::string_view field);

}  // namespace coxswain::conformance
