#pragma once
// The option table: the rows of all groups (rows/), and what code may ask of a name, decided while it compiles.
//
// Thread rule: constants.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "options/option_spec.h"
#include "options/rows/batching.h"
#include "options/rows/benchmark.h"
#include "options/rows/fleet.h"
#include "options/rows/http.h"
#include "options/rows/limits.h"
#include "options/rows/logs.h"
#include "options/rows/memory.h"
#include "options/rows/model.h"
#include "options/rows/processes.h"
#include "options/rows/security.h"

namespace coxswain::options {

// REQUIRES: one array for each Group, in its order.
template <std::size_t... kSizes>
consteval auto join_rows(const OptionSpec (&... groups)[kSizes]) {
  static_assert(sizeof...(kSizes) == kGroupCount);
  std::array<OptionSpec, (kSizes + ...)> all{};
  std::size_t n = 0;
  std::size_t group = 0;
  const auto append = [&](const auto& rows) {
    for (const OptionSpec& row : rows) {
      all[n] = row;
      all[n++].group = static_cast<Group>(group);
    }
    ++group;
  };
  (append(groups), ...);
  return all;
}

// The order of the rows is the order of --help and of the page.
inline constexpr auto kOptionTable = join_rows(kModelRows,
                                               kLimitRows,
                                               kBatchingRows,
                                               kMemoryRows,
                                               kHttpRows,
                                               kSecurityRows,
                                               kLogRows,
                                               kProcessRows,
                                               kFleetRows,
                                               kBenchmarkRows);

// A name written in code.
template <std::size_t kSize>
struct OptionName {
  char text[kSize]{};

  // NOLINTNEXTLINE(google-explicit-constructor): get<"port">() is the point of it
  consteval OptionName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  constexpr std::string_view view() const { return {text, kSize - 1}; }
};

// What a getter returns.
enum class ValueKind : std::uint8_t {
  kText,
  kTruth,
  kReal,
  kMilliseconds,
  kSeconds,
  kU16,
  kU32,
  kU64,
  kU64List,
  kList
};

consteval ValueKind kind_of(const OptionSpec& row) {
  switch (row.type) {
    case OptionType::kString:
    case OptionType::kChoice:
      return ValueKind::kText;
    case OptionType::kFlag:
    case OptionType::kBool:
      return ValueKind::kTruth;
    case OptionType::kF64:
      return ValueKind::kReal;
    case OptionType::kList:
      return ValueKind::kList;
    case OptionType::kU64List:
      return ValueKind::kU64List;
    case OptionType::kU64:
      break;
  }
  if (row.unit == "ms") return ValueKind::kMilliseconds;
  if (row.unit == "s") return ValueKind::kSeconds;
  return row.max <= kU16Max   ? ValueKind::kU16
         : row.max <= kU32Max ? ValueKind::kU32
                              : ValueKind::kU64;
}

// What holds for the rows of one name in all binaries.
struct OptionFacts {
  bool exists = false;
  bool is_uniform = true;  // all rows are of one kind
  bool has_value = true;   // each row has a default, or is a flag or a list
  ValueKind kind = ValueKind::kText;
};

consteval OptionFacts facts_of(std::string_view name) {
  OptionFacts facts;
  for (const OptionSpec& row : kOptionTable) {
    if (row.key() != name) continue;
    const ValueKind kind = kind_of(row);
    if (facts.exists && facts.kind != kind) facts.is_uniform = false;
    if (row.default_value.empty() && row.type != OptionType::kFlag &&
        row.type != OptionType::kList) {
      facts.has_value = false;
    }
    facts.exists = true;
    facts.kind = kind;
  }
  return facts;
}

}  // namespace coxswain::options
