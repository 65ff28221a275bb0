#include "options/nearest_option.h"

#include <algorithm>
#include <cstddef>
#include <vector>

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

// How many letters must be inserted, removed, replaced or swapped with their neighbour to get from `a` to `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
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
    if (typed.size() >= kBeginningLettersMin && letters.starts_with(typed))
      completions.push_back(spec.name);
    const std::size_t errors = distance(typed, letters);
    if (errors > errors_max || (errors == errors_max && !nearest.empty())) continue;
    errors_max = errors;
    nearest = spec.name;
  }
  if (nearest.empty() && completions.size() == 1) nearest = completions.front();
  return nearest.empty() ? std::string() : "--" + std::string(nearest);
}

}  // namespace coxswain::options
