#include "serve/log_level.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace coxswain::serve {
namespace {

constexpr std::array<std::string_view, 6> kLevels{"trace", "debug", "info", "warn", "error", "off"};
constexpr std::size_t kShownBytes = 64;

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = text.find_last_not_of(' ') + 1;  // 0 if there is none
  return text.substr(begin, std::max(begin, end) - begin);
}

std::optional<telemetry::Level> level_named(std::string_view text) {
  const auto found = std::ranges::find(kLevels, lower(text));
  if (found == kLevels.end()) return std::nullopt;
  return telemetry::parse_level(*found);
}

}  // namespace

LogLevel log_level_of(std::string_view directives, std::string_view target) {
  constexpr std::string_view kOurTargets = "text_generation_";
  LogLevel out;
  std::size_t best = 0;  // length of the longest target so far, plus one
  while (!directives.empty()) {
    const std::size_t comma = std::min(directives.find(','), directives.size());
    const std::string_view directive = trimmed(directives.substr(0, comma));
    directives.remove_prefix(std::min(comma + 1, directives.size()));
    if (directive.empty()) continue;
    const std::size_t equals = directive.find('=');
    auto level = level_named(directive.substr(equals == std::string_view::npos ? 0 : equals + 1));
    std::string_view name =
        equals == std::string_view::npos ? "" : trimmed(directive.substr(0, equals));
    if (!level && equals == std::string_view::npos && directive.starts_with(kOurTargets)) {
      level = telemetry::Level::kTrace;
      name = directive;
    }
    if (!level) {
      out.warning =
          "`LOG_LEVEL` must be trace, debug, info, warn, error, off or a list of TARGET=LEVEL; `" +
          lower(directive.substr(0, kShownBytes)) + "` has no effect";
    } else if (target.starts_with(name) && name.size() + 1 >= best) {
      best = name.size() + 1;
      out.level = *level;
    }
  }
  return out;
}

std::string_view name_of(telemetry::Level level) {
  return kLevels[static_cast<std::size_t>(level)];
}

}  // namespace coxswain::serve
