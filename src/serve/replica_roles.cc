#include "serve/replica_roles.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

namespace coxswain::serve {
namespace {

using NamedRole = std::pair<std::string_view, ReplicaRole>;
constexpr std::array<NamedRole, 3> kRoles{{{"mixed", ReplicaRole::kMixed},
                                           {"prefill", ReplicaRole::kPrefill},
                                           {"decode", ReplicaRole::kDecode}}};

std::optional<ReplicaRole> role_of(std::string_view name) {
  const auto* const found = std::ranges::find(kRoles, name, &NamedRole::first);
  if (found == kRoles.end()) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> count_of(std::string_view digits) {
  std::size_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return n;
}

Status wrong_part(std::string_view part, const char* why) {
  return invalid_argument("`roles`: `" + std::string(part) + "` " + why);
}

}  // namespace

std::string_view name_of(ReplicaRole role) {
  return std::ranges::find(kRoles, role, &NamedRole::second)->first;
}

Result<std::vector<ReplicaRole>> parse_roles(std::string_view text, std::size_t n_replicas) {
  std::vector<ReplicaRole> roles;
  std::size_t n_named = 0;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const auto role = role_of(part.substr(0, equals));
    if (!role) return wrong_part(part, "names no role; there are mixed, prefill and decode");
    const auto n =
        equals == std::string_view::npos ? std::nullopt : count_of(part.substr(equals + 1));
    if (!n) return wrong_part(part, "should be a role and how many replicas have it: prefill=1");
    n_named += std::min(*n, n_replicas + 1);
    if (n_named > n_replicas) {
      return invalid_argument("`roles` names more replicas than there are: `replicas` is " +
                              std::to_string(n_replicas));
    }
    roles.insert(roles.end(), *n, *role);
  }
  roles.resize(n_replicas, ReplicaRole::kMixed);
  return roles;
}

}  // namespace coxswain::serve
