#pragma once
// SHA-256 (FIPS 180-4), for reference values that are given by their hash.
//
// Thread rule: pure function.

#include <cstddef>
#include <span>
#include <string>

namespace coxswain::conformance {

// 64 hexadecimal digits, small letters.
std::string sha256_hex(std::span<const std::byte> data);

}  // namespace coxswain::conformance
