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
#include "telemetry/exposition.h"

namespace coxswain::serve {

struct FleetView {
  fleet::FleetStatus status;
  std::vector<Status> health = {};  // of each replica, as its supervisor saw it last
  TimePoint now{};
  std::optional<fleet::AutoscalerView> scaling = {};
};

json::Value fleet_document(const FleetView& view);
// With the label `replica`.
std::string replica_metrics(const FleetView& view, telemetry::TextFormat format);

}  // namespace coxswain::serve
