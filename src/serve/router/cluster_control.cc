#include "serve/router/cluster_control.h"

#include <optional>
#include <variant>
#include <vector>

#include "fleet/import/cluster_command.h"

namespace coxswain::serve {
namespace {

// Of one replica: a role in which it is to serve, or when it is to have nothing.
struct Change {
  std::size_t replica = 0;
  std::optional<fleet::Role> role = {};
  std::optional<TimePoint> gone_by = {};
};

Change change_of(const fleet::ClusterCommand& command, TimePoint now) {
  Change out{.replica = static_cast<std::size_t>(command.replica)};
  if (const auto* load = std::get_if<fleet::Load>(&command.command)) {
    out.role = load->role;
  } else if (const auto* drain = std::get_if<fleet::BeginDrain>(&command.command)) {
    out.gone_by = drain->deadline;
  } else if (const auto* manual = std::get_if<fleet::Manual>(&command.command)) {
    using enum fleet::ManualVerb;
    if (manual->verb == kTransToNewPrefill) out.role = fleet::Role::kPrefill;
    if (manual->verb == kTransToDecode) out.role = fleet::Role::kDecode;
    if (manual->verb == kDeactivate) out.gone_by = now;
  }
  return out;
}

// Of those that would serve afterwards.
Status check(const fleet::FleetStatus& status, const std::vector<Change>& changes) {
  std::vector<std::optional<fleet::Role>> after;
  for (const fleet::ReplicaStatus& replica : status.replicas) {
    const bool serves = replica.drain.phase == fleet::DrainPhase::kNo;
    after.push_back(serves ? std::optional(replica.role) : std::nullopt);
  }
  bool any_role = false;
  bool any_drain = false;
  for (const Change& change : changes) {
    any_role = any_role || change.role.has_value();
    any_drain = any_drain || change.gone_by.has_value();
    if (change.role) after[change.replica] = change.role;
    if (change.gone_by) after[change.replica].reset();
  }
  std::vector<fleet::Role> roles;
  bool any_serves = false;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!after[i]) continue;
    roles.push_back(*after[i]);
    any_serves = any_serves || status.replicas[i].stats.runner_up;
  }
  if (any_drain && !any_serves) {
    return {Code::kFailedPrecondition,
            ErrorKind::kValidation,
            "`stub_indices` would leave no replica that serves",
            "stub_indices"};
  }
  return any_role ? fleet::check_roles(roles) : Status();
}

Status carry_out(fleet::Fleet& fleet, const Change& change) {
  if (change.gone_by) return fleet.begin_drain(change.replica, *change.gone_by);
  if (!change.role) return {};
  COXSWAIN_RETURN_IF_ERROR(fleet.set_role(change.replica, *change.role));
  return fleet.cancel_drain(change.replica);
}

}  // namespace

Status modify_cluster_state(fleet::Fleet& fleet, std::string_view body, TimePoint now) {
  const fleet::ClusterLayout layout{.n_replicas = static_cast<std::uint32_t>(fleet.n_replicas()),
                                    .drain_deadline = now + kDrainTime};
  COXSWAIN_ASSIGN_OR_RETURN(const auto commands, fleet::parse_cluster_command(body, layout));
  std::vector<Change> changes;
  changes.reserve(commands.size());
  for (const fleet::ClusterCommand& command : commands) changes.push_back(change_of(command, now));
  COXSWAIN_RETURN_IF_ERROR(check(fleet.status(), changes));
  for (const Change& change : changes) COXSWAIN_RETURN_IF_ERROR(carry_out(fleet, change));
  return {};
}

}  // namespace coxswain::serve
