#include "options/nearest_option.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/edit_distance.h"
#include "options/options.h"

namespace coxswain::options {
namespace {

constexpr std::size_t kLettersMax = 64;
constexpr std::size_t kLettersPerError = 8;
constexpr std::size_t kBeginningLettersMin = 4;

// Lower case, without dashes and underscores.
std::string letters_of(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, kLettersMax)) {
    if (c == '-' || c == '_') continue;
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return out;
}

}  // namespace

std::string nearest_option(Binary binary, std::string_view word) {
  const std::string typed = letters_of(word);
  std::size_t errors_max = 1 + typed.size() / kLettersPerError;
  std::string_view nearest;
  std::vector<std::string_view> completions;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_in(binary) || spec.name.empty()) continue;
    const std::string letters = letters_of(spec.name);
    if (letters.starts_with(typed)) completions.push_back(spec.name);
    const std::size_t errors = base::edit_distance(typed, letters);
    if (errors > errors_max || (errors == errors_max && !nearest.empty())) continue;
    errors_max = errors;
    nearest = spec.name;
  }
  if (completions.size() > 1) return {};  // what many begin with is no mistyped one
  if (nearest.empty() && completions.size() == 1 && typed.size() >= kBeginningLettersMin)
    nearest = completions.front();
  return nearest.empty() ? std::string() : "--" + std::string(nearest);
}

}  // namespace coxswain::options
