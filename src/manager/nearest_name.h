#pragma once
// "did you mean" for names of tensors and parameters.
//
// Thread rule: pure functions.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/edit_distance.h"

namespace coxswain::manager {

// The one of `names` that was probably meant, or empty: one typing error in four letters is forgiven.
template <typename Names>
std::string_view nearest_name(std::string_view name, const Names& names) {
  constexpr std::size_t kNameMax = 64;
  if (name.size() > kNameMax) return {};
  std::size_t best = name.size() / 4 + 1;
  std::string_view out;
  for (const std::string_view known : names) {
    const std::size_t distance = base::edit_distance(name, known);
    if (distance >= best) continue;
    best = distance;
    out = known;
  }
  return out;
}

// "`nam` is no tensor of a request; did you mean `name`?"
template <typename Names>
std::string unknown_name(std::string_view name, std::string_view what, const Names& names) {
  std::string out = "`" + std::string(name.substr(0, 64)) + "` is no " + std::string(what);
  if (const auto near = nearest_name(name, names); !near.empty())
    out.append("; did you mean `").append(near).append("`?");
  return out;
}

}  // namespace coxswain::manager
