#pragma once
// For tests: files made of bytes. A folder for them comes along.
//
// Thread rule: pure function.

#include <string>
#include <string_view>

#include "base/testing/temp_folder.h"

namespace coxswain::weights {

// A safetensors file with this header and this data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string out;
  for (unsigned i = 0; i < 8; ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  return out.append(header).append(data);
}

}  // namespace coxswain::weights
