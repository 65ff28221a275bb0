#pragma once
// What GET /fleet and the metrics of --admin-listen tell about each replica. docs/fleet.md has the fields.
//
// Thread rule: pure functions.

#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "fleet/autoscaler.h"
#include "fleet/fleet.h"
#include "json/json.h"
#include "membership/membership.h"
#include "telemetry/exposition.h"

namespace coxswain::serve {

// Of a fleet whose members etcd or Kubernetes tell.
struct MembersView {
  struct Replica {
    std::string name{};      // of its member, or of the last one
    bool is_listed = false;  // it is a member
  };
  std::string source;
  membership::SourceStatus status{};
  std::vector<Replica> replicas = {};
};

struct FleetView {
  fleet::FleetStatus status;
  std::vector<Status> health = {};          // of each replica, as its supervisor saw it last
  std::vector<std::string> addresses = {};  // of each: its socket or tcp://HOST:PORT
  TimePoint now{};
  std::optional<fleet::AutoscalerView> scaling = {};
  std::optional<MembersView> members = {};
};

json::Value fleet_document(const FleetView& view);
// With the label `replica`.
std::string replica_metrics(const FleetView& view, telemetry::TextFormat format);

}  // namespace coxswain::serve
