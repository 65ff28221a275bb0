#include "serve/replica_roles.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

namespace coxswain::serve {
namespace {

using fleet::Role;

constexpr std::array kRoles{Role::kMixed, Role::kPrefill, Role::kDecode};

std::optional<Role> role_of(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kRoles, [&](Role role) { return name == fleet::name_of(role); });
  if (found == kRoles.end()) return std::nullopt;
  return *found;
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

Result<std::vector<Role>> roles_of(const options::OptionValues& values, std::size_t n_replicas) {
  auto roles = parse_roles(values.get<"roles">().value_or(""), n_replicas);
  if (roles.ok() && values.get<"disaggregation">() == "off")
    roles.value().assign(n_replicas, Role::kMixed);
  return roles;
}

bool any_hands_over(const std::vector<Role>& roles) {
  return std::ranges::any_of(roles, [](Role role) { return role != Role::kMixed; });
}

Status validate_planner(const options::OptionValues& values, const std::vector<Role>& roles) {
  if (any_hands_over(roles) && std::ranges::find(roles, Role::kMixed) != roles.end())
    return invalid_argument(
        "`roles` must name all replicas or none with `autoscale`: none is mixed");
  const auto n_least = static_cast<std::ptrdiff_t>(values.get<"replicas-min">());
  for (const Role role :
       any_hands_over(roles) ? std::vector{Role::kPrefill, Role::kDecode} : roles) {
    if (std::ranges::count(roles, role) < n_least) {
      return invalid_argument("`replicas_min` is of each role. Given: " + std::to_string(n_least) +
                              ", and fewer are " + std::string(fleet::name_of(role)));
    }
  }
  const auto backlog_low = values.get<"planner-backlog-low-ms">();
  const auto backlog_high = values.get<"planner-backlog-high-ms">();
  if (backlog_low > backlog_high) {
    return invalid_argument(
        "`planner_backlog_low_ms` must be <= `planner_backlog_high_ms`. Given: " +
        std::to_string(backlog_low.count()) + " and " + std::to_string(backlog_high.count()));
  }
  if (values.get<"planner-occupancy-low">() > values.get<"planner-occupancy-high">())
    return invalid_argument("`planner_occupancy_low` must be <= `planner_occupancy_high`");
  return {};
}

Result<std::vector<Role>> parse_roles(std::string_view text, std::size_t n_replicas) {
  if (!text.empty() && n_replicas == 1)
    return invalid_argument("`roles` is for several replicas. `replicas` is 1");
  std::vector<Role> roles;
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
  roles.resize(n_replicas, Role::kMixed);
  COXSWAIN_RETURN_IF_ERROR(fleet::check_roles(roles));
  return roles;
}

}  // namespace coxswain::serve
