#pragma once
// What can happen to a replica, and what a transition wants done. Values only; replica_step.h has the function.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "fleet/state/ids.h"
#include "fleet/state/replica_state.h"

namespace coxswain::fleet {

// Commands, of the planner or a person.
struct Load {
  Role role = Role::kPrefill;
  LoadSource source{};
  bool live = false;  // it serves with the layers that it has; not for decode replicas
};
struct SetRole {
  Role role = Role::kMixed;
};
struct AssistBegin {
  ReplicaLife target{};
};
struct AssistEnd {};
struct BeginDrain {
  TimePoint deadline{};
};
struct CancelDrain {};
struct Unload {};

// BlitzScale's five, legal from the states that it names; each becomes one of the commands above.
enum class ManualVerb : std::uint8_t {
  kTransToNewPrefill,
  kTransToOldPrefill,
  kTransToPrefill,
  kTransToDecode,
  kDeactivate,
};
struct Manual {
  ManualVerb verb = ManualVerb::kDeactivate;
  LoadSource source{};   // of what has to be loaded
  ReplicaLife target{};  // TransToOldPrefill
  TimePoint deadline{};  // Deactivate
};
std::string_view name_of(ManualVerb verb);

// Parameters. The load ends with its last layer.
struct LayersReady {
  std::uint64_t load = 0;
  std::uint32_t n_layers = 0;  // in all, from the first
};
struct LoadFailed {
  std::uint64_t load = 0;
};
struct SourceChosen {  // in place of one that was lost
  std::uint64_t load = 0;
  LoadSource source{};
};

// Work.
struct WorkAvailable {};  // the shared queue has some, or the target has some for its donor
struct WorkTaken {        // what a pull brought
  std::uint32_t n = 0;
  std::uint32_t pages = 0;
  bool together = false;  // what generates takes their prompts, too (disaggregation.h)
};
struct PrefillEnded {
  std::uint32_t n_kept = 0;   // go on decoding
  std::uint32_t n_ended = 0;  // had their only token, or the client has gone
  std::uint32_t pages_freed = 0;
};
struct HandoverBegan {};  // a destination granted a parked request
struct HandoverEnded {    // committed: the source gives up its pages
  std::uint32_t pages_freed = 0;
};
struct HandoverAborted {};  // the source still owns the request
struct IngressAsked {
  ReplicaLife source{};
  std::uint32_t pages = 0;
};
struct IngressEnded {
  bool committed = false;
  std::uint32_t pages_freed = 0;  // of one that was aborted
};
struct IngressHeld {
  bool held = false;
};
struct SequencesEnded {  // or handed on, or taken back by the queue
  std::uint32_t n = 0;
  std::uint32_t pages_freed = 0;
};
enum class WorkPlace : std::uint8_t { kPrefilling, kParked, kRunning };
struct ClientGone {
  WorkPlace place = WorkPlace::kRunning;
  std::uint32_t pages_freed = 0;
};
struct RelayAsked {
  ReplicaLife donor{};
};
struct RelayGiven {            // the target's backlog shrank by one
  std::uint32_t n_layers = 0;  // computed here; 0: the donor computes all of them
  std::uint32_t pages_freed = 0;
};
struct RelayAnswered {
  bool has_task = false;
  bool released = false;  // the target needs its donor no more
  std::uint32_t pages = 0;
};

// The rest of the world.
struct PeerLost {
  ReplicaLife peer{};
};
struct Tick {};
struct LeaseExpired {};
struct Joined {  // a process is there; the message carries its incarnation
  Role role = Role::kNone;
  bool resident = false;  // with its parameters; required for a role
};

using Event = std::variant<Load,
                           SetRole,
                           AssistBegin,
                           AssistEnd,
                           BeginDrain,
                           CancelDrain,
                           Unload,
                           Manual,
                           LayersReady,
                           LoadFailed,
                           SourceChosen,
                           WorkAvailable,
                           WorkTaken,
                           PrefillEnded,
                           HandoverBegan,
                           HandoverEnded,
                           HandoverAborted,
                           IngressAsked,
                           IngressEnded,
                           IngressHeld,
                           SequencesEnded,
                           ClientGone,
                           RelayAsked,
                           RelayGiven,
                           RelayAnswered,
                           PeerLost,
                           Tick,
                           LeaseExpired,
                           Joined>;

struct Message {
  std::uint64_t incarnation = 0;  // whom it is meant for, or who says it
  Event event{};
};

// What is to be done. Answers come back as events.
struct StartLoad {
  std::uint64_t load = 0;
  LoadSource source{};
  bool live = false;
};
struct ResumeLoad {  // choose another source; the layers that have arrived stay
  std::uint64_t load = 0;
  std::uint32_t layers_ready = 0;
};
struct CancelLoad {
  std::uint64_t load = 0;
};
struct DropParams {};
struct PullWork {
  std::uint32_t n_max = 0;
};
// To the front of the queue, to be computed elsewhere; transfers of it are aborted.
struct ReturnWork {
  Work work{};
  std::uint32_t inbound = 0;
};
struct RunLayers {  // so many of a live target can be run now
  std::uint32_t n_layers = 0;
};
struct OfferHandovers {  // find destinations for what is parked
  std::uint32_t n = 0;
};
struct AdoptHandovers {  // parked requests stay, as sequences of this replica
  std::uint32_t n = 0;
};
struct MigrateOut {  // hand on what decodes here
  std::uint32_t n = 0;
};
struct GrantIngress {
  ReplicaLife source{};
  std::uint32_t pages = 0;
};
struct RefuseIngress {
  ReplicaLife source{};
  std::string_view reason;
};
struct AskRelay {
  ReplicaLife target{};
};
struct AnswerRelay {
  ReplicaLife donor{};
  bool has_task = false;
  bool head_allowed = true;  // false: the task that the target is about to finish stays
};
struct ReleaseDonors {};
struct ArmTimer {
  TimePoint at{};
};
struct EndLife {  // what the life owns is lost: Ledger::lose, LinkLedger::lose
  ReplicaLife life{};
};

using Action = std::variant<StartLoad,
                            ResumeLoad,
                            CancelLoad,
                            DropParams,
                            PullWork,
                            ReturnWork,
                            RunLayers,
                            OfferHandovers,
                            AdoptHandovers,
                            MigrateOut,
                            GrantIngress,
                            RefuseIngress,
                            AskRelay,
                            AnswerRelay,
                            ReleaseDonors,
                            ArmTimer,
                            EndLife>;

}  // namespace coxswain::fleet
