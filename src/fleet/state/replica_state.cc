#include "fleet/state/replica_state.h"

#include <algorithm>
#include <array>
#include <string>

namespace coxswain::fleet {
namespace {

Status broken(std::string_view what) {
  return {Code::kInternal, std::string(what)};
}

Status check_without_params(const ReplicaState& state) {
  if (state.role != Role::kNone) return broken("a role without parameters");
  if (state.params.layers_ready != 0) return broken("layers without parameters");
  if (!state.idle() || state.pages != 0) return broken("work without parameters");
  return {};
}

Status check_loading(const ReplicaState& state, const ReplicaConfig& config) {
  if (state.role == Role::kNone) return broken("a load for no role");
  if (state.params.layers_ready >= config.layers)
    return broken("all layers are there, and it loads");
  const bool live = state.assist == Assist::kTarget;
  if (!live && state.assist != Assist::kNone) return broken("who loads assists nobody");
  if (live && !state.takes_prompts()) return broken("a live target that takes no prompts");
  if (live != (state.admission == Admission::kOpen))
    return broken("a target is open, a load closed");
  if (!live && (!state.idle() || state.pages != 0))
    return broken("work before the layers are there");
  return {};
}

Status check_resident(const ReplicaState& state, const ReplicaConfig& config) {
  if (state.params.layers_ready != config.layers) return broken("resident without all layers");
  if (state.assist == Assist::kTarget) return broken("a target whose load is over");
  if (state.role == Role::kNone) {
    if (!state.idle() || state.pages != 0) return broken("work in a warm replica");
    if (state.admission != Admission::kClosed) return broken("a warm replica that admits");
    if (state.assist != Assist::kNone) return broken("a warm replica that assists");
    if (state.drain.phase != DrainPhase::kNo) return broken("a warm replica that drains");
    return {};
  }
  if (state.assist == Assist::kRefractory && state.work.prefilling == 0) {
    return broken("a refractory target without a backlog");
  }
  if (state.assist != Assist::kNone) {
    if (!state.takes_prompts()) return broken("assistance without prompts");
    if (state.admission != Admission::kPullOnly) return broken("who assists takes relays only");
    if (state.drain.phase != DrainPhase::kNo) return broken("who assists does not drain");
    return {};
  }
  const bool draining = state.drain.phase != DrainPhase::kNo;
  if (draining != (state.admission == Admission::kClosed)) {
    return broken("closed exactly while it drains");
  }
  if (draining && state.idle()) return broken("a drain that is over");
  if (state.admission == Admission::kPullOnly) return broken("relays without assistance");
  return {};
}

}  // namespace

std::uint32_t live_backlog_max(std::chrono::milliseconds since_load_began) {
  const auto steps = std::max<std::int64_t>(0, since_load_began.count() / 200);
  return steps >= 2 ? 2 : static_cast<std::uint32_t>(4 - steps);
}

BlitzName blitz_name(const ReplicaState& state) {
  if (state.params.residency == Residency::kAbsent) return BlitzName::kInactive;
  if (state.params.residency == Residency::kLoading) {
    if (state.assist == Assist::kTarget) return BlitzName::kNewPrefill;
    return state.role == Role::kDecode ? BlitzName::kLoadingDecode : BlitzName::kLoadingPrefill;
  }
  if (state.role == Role::kNone) return BlitzName::kShuttingNull;
  if (state.assist == Assist::kRefractory) return BlitzName::kRefractoryPrefill;
  if (state.assist == Assist::kDonor) return BlitzName::kOldPrefill;
  const Work& work = state.work;
  const bool has_sequences = work.running > 0 || state.ingress.inbound > 0;
  if (state.drain.phase != DrainPhase::kNo) {
    const bool as_decode =
        state.role == Role::kDecode || (state.role == Role::kMixed && has_sequences);
    return as_decode ? BlitzName::kShuttingDecode : BlitzName::kShuttingPrefill;
  }
  if (state.role == Role::kMixed) return BlitzName::kNormal;
  if (state.role == Role::kPrefill) {
    return has_sequences ? BlitzName::kAusPrefill : BlitzName::kPrefill;
  }
  if (work.prefilling + work.parked + work.outbound > 0) return BlitzName::kMutatingToDecode;
  return state.ingress.open && !state.ingress.held ? BlitzName::kDecode : BlitzName::kAusDecode;
}

std::string_view name_of(BlitzName name) {
  static constexpr std::array<std::string_view, 15> kNames{"Inactive",
                                                           "LoadingPrefill",
                                                           "LoadingDecode",
                                                           "Prefill",
                                                           "NewPrefill",
                                                           "RefractoryPrefill",
                                                           "OldPrefill",
                                                           "Decode",
                                                           "MutatingToDecode",
                                                           "AusDecode",
                                                           "AusPrefill",
                                                           "ShuttingPrefill",
                                                           "ShuttingDecode",
                                                           "ShuttingNull",
                                                           "Normal"};
  return kNames.at(static_cast<std::size_t>(name));
}

std::string_view name_of(Role role) {
  static constexpr std::array<std::string_view, 4> kNames{"none", "prefill", "decode", "mixed"};
  return kNames.at(static_cast<std::size_t>(role));
}

std::string_view name_of(Residency residency) {
  static constexpr std::array<std::string_view, 3> kNames{"absent", "loading", "resident"};
  return kNames.at(static_cast<std::size_t>(residency));
}

std::string_view name_of(SourceTier tier) {
  static constexpr std::array<std::string_view, 3> kNames{"peer", "host_memory", "disk"};
  return kNames.at(static_cast<std::size_t>(tier));
}

std::string_view name_of(Admission admission) {
  static constexpr std::array<std::string_view, 3> kNames{"open", "pull_only", "closed"};
  return kNames.at(static_cast<std::size_t>(admission));
}

std::string_view name_of(Assist assist) {
  static constexpr std::array<std::string_view, 4> kNames{"none", "target", "refractory", "donor"};
  return kNames.at(static_cast<std::size_t>(assist));
}

std::string_view name_of(DrainPhase phase) {
  static constexpr std::array<std::string_view, 3> kNames{"no", "waiting", "migrating"};
  return kNames.at(static_cast<std::size_t>(phase));
}

Status check_roles(std::span<const Role> roles) {
  if (std::ranges::none_of(roles, computes_prompts))
    return invalid_argument("`roles` leaves no replica that computes prompts: each is `decode`",
                            "roles");
  if (std::ranges::none_of(roles, generates))
    return invalid_argument("`roles` leaves no replica that generates: each is `prefill`", "roles");
  return {};
}

Status check(const ReplicaState& state, const ReplicaConfig& config) {
  if (state.lost && state.params.residency != Residency::kAbsent) {
    return broken("a lost replica has nothing");
  }
  if (state.pages > config.pages_max) return broken("more pages than there are");
  if (state.ingress.inbound > config.ingress_slots) return broken("more hand-overs than slots");
  if (state.idle() && state.pages != 0) return broken("pages that nobody holds");
  const bool serves = state.params.residency == Residency::kResident && state.decodes() &&
                      state.drain.phase == DrainPhase::kNo;
  if (state.ingress.open && !serves) return broken("an open ingress where nothing decodes");
  if (state.ingress.held && !state.ingress.open) return broken("a closed ingress is not held");
  if ((state.assist == Assist::kDonor) != (state.assisted != ReplicaLife{})) {
    return broken("a donor has a target, and who is none has none");
  }
  if (state.params.residency == Residency::kResident) return check_resident(state, config);
  if (state.drain.phase != DrainPhase::kNo) return broken("a drain without parameters");
  if (state.params.residency == Residency::kLoading) return check_loading(state, config);
  if (state.admission != Admission::kClosed) return broken("admission without parameters");
  if (state.assist != Assist::kNone) return broken("assistance without parameters");
  return check_without_params(state);
}

}  // namespace coxswain::fleet
