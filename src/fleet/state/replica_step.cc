#include "fleet/state/replica_step.h"

#include <utility>
#include <variant>

#include "fleet/state/replica_stepper.h"

namespace coxswain::fleet {

Verdict Stepper::refuse(std::string_view reason) {
  reason_ = reason;
  return Verdict::kRefused;
}

void Stepper::serve() {
  state_.admission = Admission::kOpen;
  state_.drain = {};
  state_.since = {};
  state_.ingress.open = state_.decodes();
  if (state_.takes_prompts() && prefill_room() > 0) want(PullWork{prefill_room()});
}

void Stepper::become_cold() {
  const ReplicaState before = state_;
  state_ = ReplicaState{.life = before.life, .lost = before.lost, .counts = before.counts};
  state_.params.load = before.params.load;
}

void Stepper::become_warm() {
  state_.role = Role::kNone;
  state_.admission = Admission::kClosed;
  state_.drain = {};
  state_.ingress = {};
  state_.since = now_;
  want(ArmTimer{now_ + config_.warm_ttl});
}

void Stepper::end_assist() {
  if (state_.assist == Assist::kTarget || state_.assist == Assist::kRefractory) {
    want(ReleaseDonors{});
  }
  state_.assist = Assist::kNone;
  state_.assisted = {};
}

void Stepper::return_work() {
  if (!state_.idle()) want(ReturnWork{state_.work, state_.ingress.inbound});
  state_.work = {};
  state_.ingress.inbound = 0;
  state_.pages = 0;
}

std::uint32_t Stepper::prefill_room() const {
  const std::uint32_t most =
      state_.assist == Assist::kTarget
          ? live_backlog_max(
                std::chrono::duration_cast<std::chrono::milliseconds>(now_ - state_.since))
          : config_.prefill_slots;
  return most > state_.work.prefilling ? most - state_.work.prefilling : 0;
}

void Stepper::settle() {
  if (state_.idle() && state_.pages != 0) {
    state_.counts.pages_reconciled += state_.pages;
    state_.pages = 0;
  }
  if (state_.assist == Assist::kRefractory && state_.work.prefilling == 0) {
    end_assist();
    serve();
  }
  if (state_.drain.phase != DrainPhase::kNo && state_.idle()) become_warm();
}

Verdict Stepper::on(const PeerLost& event) {
  if (state_.assist == Assist::kDonor && state_.assisted == event.peer) {
    end_assist();
    serve();
    return Verdict::kDone;
  }
  const Params& params = state_.params;
  const bool from_it = params.residency == Residency::kLoading &&
                       params.source.tier == SourceTier::kPeer && params.source.peer == event.peer;
  if (!from_it) return Verdict::kIgnored;
  want(ResumeLoad{params.load, params.layers_ready});
  return Verdict::kDone;
}

Verdict Stepper::on(const Tick&) {
  Drain& drain = state_.drain;
  if (drain.phase == DrainPhase::kWaiting && now_ >= drain.deadline) {
    drain = {DrainPhase::kMigrating, now_ + config_.migrate_grace};
    if (state_.work.parked > 0) want(OfferHandovers{state_.work.parked});
    if (state_.work.running > 0) want(MigrateOut{state_.work.running});
    want(ArmTimer{drain.deadline});
    return Verdict::kDone;
  }
  if (drain.phase == DrainPhase::kMigrating && now_ >= drain.deadline) {
    return_work();
    become_warm();
    return Verdict::kDone;
  }
  const bool warm = resident() && state_.role == Role::kNone;
  if (!warm || now_ < state_.since + config_.warm_ttl) return Verdict::kIgnored;
  want(DropParams{});
  become_cold();
  return Verdict::kDone;
}

Verdict Stepper::on(const LeaseExpired&) {
  if (state_.lost) return Verdict::kIgnored;
  want(EndLife{state_.life});
  if (state_.params.residency == Residency::kLoading) want(CancelLoad{state_.params.load});
  return_work();
  end_assist();
  state_.lost = true;
  become_cold();
  return Verdict::kDone;
}

// Only with a higher incarnation than the one that is known: step() sees to that.
Verdict Stepper::on(const Joined& event) {
  if (event.resident ? false : event.role != Role::kNone) {
    return refuse("a process joins with its parameters, or without a role");
  }
  if (!state_.lost) (void)on(LeaseExpired{});
  state_.lost = false;
  state_.params = {};
  if (!event.resident) return Verdict::kDone;
  state_.params.residency = Residency::kResident;
  state_.params.layers_ready = config_.layers;
  state_.role = event.role;
  if (event.role == Role::kNone) {
    become_warm();
  } else {
    serve();
  }
  return Verdict::kDone;
}

Transition step(const ReplicaState& state,
                const Message& message,
                TimePoint now,
                const ReplicaConfig& config) {
  Stepper stepper(state, now, config);
  Transition out;
  const bool joins = std::holds_alternative<Joined>(message.event);
  const bool is_ours = joins ? message.incarnation > state.life.incarnation
                             : message.incarnation == state.life.incarnation;
  if (!is_ours) {
    out.verdict = Verdict::kStale;
  } else {
    out.verdict = std::visit([&](const auto& event) { return stepper.on(event); }, message.event);
  }
  if (out.verdict == Verdict::kDone) {
    stepper.settle();
    if (joins) stepper.state().life.incarnation = message.incarnation;
    out.state = stepper.state();
  } else {
    out.state = state;
    out.state.counts.stale += out.verdict == Verdict::kStale ? 1 : 0;
    out.state.counts.ignored += out.verdict == Verdict::kIgnored ? 1 : 0;
    out.state.counts.refused += out.verdict == Verdict::kRefused ? 1 : 0;
    out.reason = stepper.take_reason();
  }
  out.actions = stepper.take_actions();
  return out;
}

}  // namespace coxswain::fleet
