#pragma once
// From options, and from what the launcher says, to an autoscaler's settings.
//
// Thread rule: pure functions, but for LauncherProcesses: the autoscaler's thread.

#include <cstddef>
#include <vector>

#include <coxswain/status.h>

#include "fleet/autoscaler.h"
#include "options/options.h"
#include "serve/replica_channel.h"
#include "telemetry/log.h"

namespace coxswain::serve {

// `roles` of the replicas that are there from the start on. Errors: those of validate_planner().
Result<fleet::AutoscalerOptions> autoscaler_options(const options::OptionValues& values,
                                                    const std::vector<fleet::Role>& roles,
                                                    std::size_t n_replicas);

// Processes that the launcher starts and ends.
class LauncherProcesses final : public fleet::ProcessStarter {
 public:
  // The log must outlive this.
  LauncherProcesses(ReplicaChannel channel, std::size_t n_replicas, telemetry::Logger& log)
      : channel_(std::move(channel)), n_replicas_(n_replicas), log_(log) {}

  Status start(std::size_t replica) override;
  Status stop(std::size_t replica) override;
  std::vector<fleet::ProcessNews> news() override;

 private:
  const ReplicaChannel channel_;
  const std::size_t n_replicas_;
  telemetry::Logger& log_;
};

}  // namespace coxswain::serve
