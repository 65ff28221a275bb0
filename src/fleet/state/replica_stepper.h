#pragma once
// One transition under way: the state as it becomes, and what is wanted done. For replica_step.cc and its parts alone.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/state/replica_step.h"

namespace coxswain::fleet {

class Stepper {
 public:
  Stepper(const ReplicaState& state, TimePoint now, const ReplicaConfig& config)
      : state_(state), now_(now), config_(config) {}

  Verdict on(const Load& command);
  Verdict on(const SetRole& command);
  Verdict on(const AssistBegin& command);
  Verdict on(const AssistEnd& command);
  Verdict on(const BeginDrain& command);
  Verdict on(const CancelDrain& command);
  Verdict on(const Unload& command);
  Verdict on(const Manual& command);
  Verdict on(const LayersReady& event);
  Verdict on(const LoadFailed& event);
  Verdict on(const SourceChosen& event);
  Verdict on(const WorkAvailable& event);
  Verdict on(const WorkTaken& event);
  Verdict on(const PrefillEnded& event);
  Verdict on(const HandoverBegan& event);
  Verdict on(const HandoverEnded& event);
  Verdict on(const HandoverAborted& event);
  Verdict on(const IngressAsked& event);
  Verdict on(const IngressEnded& event);
  Verdict on(const IngressHeld& event);
  Verdict on(const SequencesEnded& event);
  Verdict on(const ClientGone& event);
  Verdict on(const RelayAsked& event);
  Verdict on(const RelayGiven& event);
  Verdict on(const RelayAnswered& event);
  Verdict on(const PeerLost& event);
  Verdict on(const Tick& event);
  Verdict on(const LeaseExpired& event);
  Verdict on(const Joined& event);

  // What follows from the counts: pages that nobody holds, a drain or a backlog that is done.
  void settle();

  ReplicaState& state() { return state_; }
  std::vector<Action> take_actions() { return std::move(actions_); }
  std::string take_reason() { return std::move(reason_); }

 private:
  Verdict refuse(std::string_view reason);
  void want(const Action& action) { actions_.push_back(action); }
  bool resident() const { return state_.params.residency == Residency::kResident; }
  bool loading(std::uint64_t load) const {
    return state_.params.residency == Residency::kLoading && state_.params.load == load;
  }
  // Residency is complete, or a drain is called off: the role is exercised.
  void serve();
  void become_cold();
  void become_warm();
  void end_assist();
  // What the replica holds goes back to the queue.
  void return_work();
  std::uint32_t prefill_room() const;
  void take_pages(std::uint32_t pages) { state_.pages += pages; }
  bool pages_fit(std::uint32_t pages) const { return pages <= config_.pages_max - state_.pages; }
  Verdict keep_prefilled(std::uint32_t n);

  ReplicaState state_;
  const TimePoint now_;
  const ReplicaConfig& config_;
  std::vector<Action> actions_;
  std::string reason_;
};

}  // namespace coxswain::fleet
