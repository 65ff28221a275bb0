#pragma once
// LOG_LEVEL as users write it.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace coxswain::serve {

// A warning if `text` is no level, so that "info" is taken; empty otherwise.
inline std::string log_level_warning(std::string_view text) {
  constexpr std::array<std::string_view, 5> kLevels{"trace", "debug", "info", "warn", "error"};
  std::string lower;
  for (const char c : text.substr(0, 64)) {
    lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  if (lower.empty() || std::find(kLevels.begin(), kLevels.end(), lower) != kLevels.end()) return {};
  return "`LOG_LEVEL` must be trace, debug, info, warn or error, not `" + lower + "`; info is used";
}

}  // namespace coxswain::serve
