// Commands and the course of a load.

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

#include "fleet/state/replica_stepper.h"

namespace coxswain::fleet {
namespace {

constexpr std::string_view kLost = "the replica is lost";

}  // namespace

std::string_view name_of(ManualVerb verb) {
  static constexpr std::array<std::string_view, 5> kNames{
      "TransToNewPrefill", "TransToOldPrefill", "TransToPrefill", "TransToDecode", "Deactivate"};
  return kNames.at(static_cast<std::size_t>(verb));
}

Result<Event> command_of(const Manual& manual, const ReplicaState& state) {
  const BlitzName at = blitz_name(state);
  const auto refused = [&](std::string_view from) {
    return Status(Code::kFailedPrecondition,
                  std::string(name_of(manual.verb)) + " is legal from " + std::string(from) +
                      ", the replica is " + std::string(name_of(at)));
  };
  switch (manual.verb) {
    case ManualVerb::kTransToNewPrefill:
      if (at != BlitzName::kInactive) return refused("Inactive");
      return Event(Load{.role = Role::kPrefill, .source = manual.source, .live = true});
    case ManualVerb::kTransToOldPrefill:
      if (at != BlitzName::kPrefill) return refused("Prefill");
      return Event(AssistBegin{manual.target});
    case ManualVerb::kTransToPrefill:
      if (at != BlitzName::kInactive) return refused("Inactive");
      return Event(Load{.role = Role::kPrefill, .source = manual.source});
    case ManualVerb::kTransToDecode:
      if (at == BlitzName::kPrefill) return Event(SetRole{Role::kDecode});
      if (at != BlitzName::kInactive) return refused("Inactive or Prefill");
      return Event(Load{.role = Role::kDecode, .source = manual.source});
    case ManualVerb::kDeactivate:
      if (at != BlitzName::kPrefill && at != BlitzName::kDecode)
        return refused("Prefill or Decode");
      return Event(BeginDrain{manual.deadline});
  }
  return Status(Code::kInvalidArgument, "no such command");
}

Verdict Stepper::on(const Manual& command) {
  auto meant = command_of(command, state_);
  if (!meant.ok()) return refuse(meant.status().message());
  if (const auto* load = std::get_if<Load>(&meant.value())) return on(*load);
  if (const auto* role = std::get_if<SetRole>(&meant.value())) return on(*role);
  if (const auto* assist = std::get_if<AssistBegin>(&meant.value())) return on(*assist);
  return on(std::get<BeginDrain>(meant.value()));
}

Verdict Stepper::on(const Load& command) {
  if (state_.lost) return refuse(kLost);
  if (state_.params.residency != Residency::kAbsent) {
    return refuse("the parameters are there or on their way");
  }
  if (command.role == Role::kNone) return refuse("a load is for a role");
  if (command.live && command.role == Role::kDecode) {
    return refuse(
        "a decode replica is not loaded live: a prefill replica changes its role instead");
  }
  state_.role = command.role;
  state_.params = {
      .residency = Residency::kLoading, .source = command.source, .load = state_.params.load + 1};
  if (command.live) {
    state_.assist = Assist::kTarget;
    state_.admission = Admission::kOpen;
    state_.since = now_;
  }
  want(StartLoad{state_.params.load, command.source, command.live});
  return Verdict::kDone;
}

Verdict Stepper::on(const LayersReady& event) {
  Params& params = state_.params;
  if (!loading(event.load) || event.n_layers <= params.layers_ready ||
      event.n_layers > config_.layers) {
    return Verdict::kIgnored;
  }
  params.layers_ready = event.n_layers;
  const bool live = state_.assist == Assist::kTarget;
  if (live) want(RunLayers{event.n_layers});
  if (event.n_layers < config_.layers) return Verdict::kDone;
  params.residency = Residency::kResident;
  params.source = {};
  if (live && state_.work.prefilling > 0) {
    state_.assist = Assist::kRefractory;
    state_.admission = Admission::kPullOnly;
    state_.since = {};
    return Verdict::kDone;
  }
  end_assist();
  serve();
  return Verdict::kDone;
}

Verdict Stepper::on(const LoadFailed& event) {
  if (!loading(event.load)) return Verdict::kIgnored;
  return_work();
  end_assist();
  become_cold();
  return Verdict::kDone;
}

Verdict Stepper::on(const SourceChosen& event) {
  if (!loading(event.load)) return Verdict::kIgnored;
  state_.params.source = event.source;
  return Verdict::kDone;
}

Verdict Stepper::on(const SetRole& command) {
  if (state_.lost) return refuse(kLost);
  if (command.role == Role::kNone) return refuse("a role is taken away by a drain");
  if (state_.params.residency == Residency::kAbsent) return refuse("no parameters: load first");
  if (state_.drain.phase != DrainPhase::kNo) return refuse("it drains: cancel the drain first");
  if (state_.assist != Assist::kNone) return refuse("it takes part in a live load");
  if (command.role == state_.role) return Verdict::kIgnored;
  state_.role = command.role;
  if (!resident()) return Verdict::kDone;  // the load goes on, for the other role
  if (state_.decodes() && state_.work.parked > 0) {
    want(AdoptHandovers{state_.work.parked});
    state_.work.running += std::exchange(state_.work.parked, 0);
  }
  if (!state_.decodes()) {
    state_.ingress.held = false;
    if (state_.work.running > 0) want(MigrateOut{state_.work.running});
  }
  serve();
  return Verdict::kDone;
}

Verdict Stepper::on(const AssistBegin& command) {
  if (state_.lost) return refuse(kLost);
  if (!resident() || !state_.takes_prompts()) return refuse("only who computes prompts can help");
  if (state_.drain.phase != DrainPhase::kNo) return refuse("it drains");
  if (state_.assist != Assist::kNone) return refuse("it takes part in a live load");
  if (command.target == ReplicaLife{}) return refuse("no target is named");
  if (command.target == state_.life) return refuse("it cannot be its own target");
  state_.assist = Assist::kDonor;
  state_.assisted = command.target;
  state_.admission = Admission::kPullOnly;
  want(AskRelay{command.target});
  return Verdict::kDone;
}

Verdict Stepper::on(const AssistEnd&) {
  if (state_.assist != Assist::kDonor) return Verdict::kIgnored;
  end_assist();
  serve();
  return Verdict::kDone;
}

Verdict Stepper::on(const BeginDrain& command) {
  if (state_.lost) return refuse(kLost);
  if (!resident()) return refuse("no parameters: unload instead");
  if (state_.role == Role::kNone) return Verdict::kIgnored;
  if (state_.assist != Assist::kNone) return refuse("it takes part in a live load");
  if (state_.drain.phase == DrainPhase::kMigrating) return Verdict::kIgnored;
  state_.drain = {DrainPhase::kWaiting, command.deadline};
  state_.admission = Admission::kClosed;
  state_.ingress.open = false;
  state_.ingress.held = false;
  want(ArmTimer{command.deadline});
  return Verdict::kDone;
}

Verdict Stepper::on(const CancelDrain&) {
  if (state_.drain.phase == DrainPhase::kNo) return Verdict::kIgnored;
  serve();
  return Verdict::kDone;
}

Verdict Stepper::on(const Unload&) {
  if (state_.params.residency == Residency::kAbsent) return Verdict::kIgnored;
  if (resident() && state_.role != Role::kNone) return refuse("it serves: drain first");
  if (resident()) {
    want(DropParams{});
  } else {
    want(CancelLoad{state_.params.load});
    return_work();
    end_assist();
  }
  become_cold();
  return Verdict::kDone;
}

}  // namespace coxswain::fleet
