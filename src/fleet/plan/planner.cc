#include "fleet/plan/planner.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "fleet/plan/multicast.h"

namespace coxswain::fleet {
namespace {

// Decisions under way: what is still wanted, and the fleet as it will be when they are carried out.
class Planner {
 public:
  Planner(const PlannerConfig& config, const PlannerMemory& memory, const Snapshot& snapshot)
      : config_(config), snapshot_(snapshot), fleet_(snapshot.replicas) {
    out_.memory = memory;
    out_.inputs = needs_of(config, snapshot);
    std::erase_if(out_.memory.changes,
                  [&](TimePoint at) { return at + config.changes_window <= snapshot.now; });
    const RoleNeed& prompts = out_.inputs.prefill;
    from_zero_ = prompts.n + out_.inputs.decode.n == 0 && prompts.min > 0;
    const PlannerMemory& m = out_.memory;
    prefill_ = cooled(out_.inputs.prefill.delta, m.prefill_up, m.prefill_down);
    decode_ = cooled(out_.inputs.decode.delta, m.decode_up, m.decode_down);
  }

  Plan go() {
    if (config_.executor == Executor::kStatic) return std::move(out_);
    hold_ingress();
    rescue(Role::kDecode, decode_);
    rescue(prompt_role(), prefill_);
    reuse_warm();
    if (config_.executor != Executor::kServerless) mutate();
    load();
    shrink();
    return std::move(out_);
  }

 private:
  Role prompt_role() const { return config_.mixed ? Role::kMixed : Role::kPrefill; }

  std::int32_t cooled(std::int32_t delta, TimePoint up, TimePoint down) const {
    const auto since = [&](TimePoint at, std::chrono::milliseconds pause) {
      return at == TimePoint::min() || at + pause <= snapshot_.now;
    };
    if (delta > 0 && !since(up, config_.up_cooldown)) return from_zero_ ? 1 : 0;
    if (delta < 0 && !since(std::max(up, down), config_.down_cooldown)) return 0;
    return delta;
  }

  bool may_change() const {
    return out_.memory.changes.size() < config_.changes_max ||
           (from_zero_ && out_.decisions.empty());
  }

  void decide(Choice choice,
              const ReplicaView& replica,
              const Event& command,
              std::string_view reason) {
    out_.decisions.push_back({choice, replica.life, command, reason, out_.inputs});
    if (choice == Choice::kHoldIngress || choice == Choice::kReleaseIngress) return;
    if (choice != Choice::kAssist) out_.memory.changes.push_back(snapshot_.now);
  }

  void grew(Role role) {
    (role == Role::kDecode ? out_.memory.decode_up : out_.memory.prefill_up) = snapshot_.now;
  }

  // Those that `fits`, by rising use; ties by place.
  template <class Fits>
  std::vector<ReplicaView*> by_use(const Fits& fits) {
    std::vector<ReplicaView*> out;
    for (ReplicaView& replica : fleet_) {
      if (!replica.lost && fits(replica)) out.push_back(&replica);
    }
    std::stable_sort(out.begin(), out.end(), [](const ReplicaView* a, const ReplicaView* b) {
      return a->used_blocks < b->used_blocks;
    });
    return out;
  }
  std::vector<ReplicaView*> serving(Role role) {
    return by_use([role](const ReplicaView& r) {
      return r.role == role && r.residency == Residency::kResident && !r.draining &&
             r.assist == Assist::kNone;
    });
  }

  void hold_ingress();
  void rescue(Role role, std::int32_t& wanted);
  void reuse_warm();
  bool take_warm(Role role, std::int32_t& wanted);
  void mutate();
  void change_role(ReplicaView& replica, Role role, std::string_view reason);
  void load();
  void load_from_caches(const std::vector<ReplicaView*>& cold);
  void load_from_peers(const std::vector<ReplicaView*>& cold, std::size_t n);
  void load_one(ReplicaView& replica, Role role, LoadSource source, bool live);
  bool cached(const ReplicaView& replica) const;
  void shrink();
  void drain(Role role, std::int32_t wanted, std::uint32_t least, TimePoint& when);

  const PlannerConfig& config_;
  const Snapshot& snapshot_;
  std::vector<ReplicaView> fleet_;
  // Somebody waits and nobody is there: damping does not hold up the first of each role.
  bool from_zero_ = false;
  std::int32_t prefill_ = 0;
  std::int32_t decode_ = 0;
  Plan out_;
};

void Planner::hold_ingress() {
  double sum = 0.0;
  double n = 0.0;
  for (const ReplicaView* replica : serving(Role::kDecode)) {
    sum += replica->used_blocks;
    n += 1.0;
  }
  for (const ReplicaView* replica : serving(Role::kDecode)) {
    const double used = replica->used_blocks;
    const bool over = n > 1.0 && used > config_.hold_over_mean * sum / n &&
                      used > config_.hold_occupancy * config_.blocks_per_replica;
    if (over == replica->ingress_held) continue;
    decide(over ? Choice::kHoldIngress : Choice::kReleaseIngress,
           *replica,
           IngressHeld{over},
           over ? "holds far more KV than the others" : "holds no more than its share");
  }
}

void Planner::rescue(Role role, std::int32_t& wanted) {
  const auto draining =
      by_use([role](const ReplicaView& r) { return r.role == role && r.draining; });
  // The fullest first: it has the most to lose.
  for (auto at = draining.rbegin(); at != draining.rend() && wanted > 0 && may_change(); ++at) {
    (*at)->draining = false;
    --wanted;
    decide(Choice::kCancelDrain, **at, CancelDrain{}, "more are needed and it drains");
    grew(role);
  }
}

bool Planner::take_warm(Role role, std::int32_t& wanted) {
  if (wanted <= 0 || !may_change()) return false;
  const bool same = config_.executor == Executor::kServerless;
  const auto warm = by_use([&](const ReplicaView& r) {
    return r.is_warm() && !r.sends_params && (!same || r.former_role == role);
  });
  if (warm.empty()) return false;
  warm.front()->role = role;
  --wanted;
  decide(Choice::kReuseWarm, *warm.front(), SetRole{role}, "more are needed and it is warm");
  grew(role);
  return true;
}

void Planner::reuse_warm() {
  bool took = true;
  while (took) {
    const bool for_decode = take_warm(Role::kDecode, decode_);
    took = take_warm(prompt_role(), prefill_) || for_decode;
  }
}

void Planner::change_role(ReplicaView& replica, Role role, std::string_view reason) {
  replica.role = role;
  decide(Choice::kMutate, replica, SetRole{role}, reason);
  grew(role);
}

void Planner::mutate() {
  if (config_.mixed) return;
  const auto swap = [&](Role from, std::int32_t& fewer, Role to, std::int32_t& more) {
    while (fewer < 0 && more > 0 && may_change()) {
      const auto candidates = serving(from);
      if (candidates.size() < 2) return;
      change_role(*candidates.front(), to, "one role has too many, the other too few");
      ++fewer;
      --more;
    }
  };
  swap(Role::kPrefill, prefill_, Role::kDecode, decode_);
  swap(Role::kDecode, decode_, Role::kPrefill, prefill_);
  if (!config_.live || config_.executor != Executor::kBlitz) return;
  // A decode replica cannot serve while it loads, a prefill replica can: one becomes the other, and is replaced.
  const auto n_cold = by_use([](const ReplicaView& r) { return r.is_cold(); }).size();
  for (std::size_t i = 0; i < n_cold && decode_ > 0 && may_change(); ++i) {
    const auto candidates = serving(Role::kPrefill);
    if (candidates.size() < 2) return;
    change_role(
        *candidates.front(), Role::kDecode, "it decodes at once, another is loaded live for it");
    --decode_;
    ++prefill_;
  }
}

void Planner::load_one(ReplicaView& replica, Role role, LoadSource source, bool live) {
  replica.role = role;
  replica.residency = Residency::kLoading;
  decide(Choice::kLoad, replica, Load{role, source, live}, "more are needed and it is empty");
  grew(role);
  if (!live) return;
  const auto donors = serving(prompt_role());
  if (donors.empty()) return;
  donors.front()->assist = Assist::kDonor;
  decide(Choice::kAssist,
         *donors.front(),
         AssistBegin{replica.life},
         "it runs the layers that are missing");
}

bool Planner::cached(const ReplicaView& replica) const {
  return config_.executor == Executor::kAllCache || has_host_copy(snapshot_, replica.machine);
}

void Planner::load_from_caches(const std::vector<ReplicaView*>& cold) {
  std::vector<ReplicaView*> order = cold;
  std::stable_partition(
      order.begin(), order.end(), [&](const ReplicaView* r) { return cached(*r); });
  for (ReplicaView* replica : order) {
    std::int32_t& wanted = decode_ > 0 ? decode_ : prefill_;
    if (wanted <= 0 || !may_change()) return;
    const Role role = decode_ > 0 ? Role::kDecode : prompt_role();
    load_one(*replica,
             role,
             {cached(*replica) ? SourceTier::kHostMemory : SourceTier::kDisk, {}},
             false);
    --wanted;
  }
}

void Planner::load_from_peers(const std::vector<ReplicaView*>& cold, std::size_t n) {
  std::vector<MulticastNode> receivers;
  for (std::size_t i = 0; i < n; ++i) {
    receivers.push_back({.life = cold[i]->life, .machine = cold[i]->machine});
  }
  const auto view = [&](ReplicaLife life) {
    return *std::find_if(
        cold.begin(), cold.end(), [&](const ReplicaView* r) { return r->life == life; });
  };
  const SourceOptions options{.avoid_interference = config_.avoid_interference,
                              .host_copies = snapshot_.host_copies};
  std::vector<MulticastNode> sources;
  for (const ReplicaLife peer : rank_peers(fleet_, options)) sources.push_back({.life = peer});
  std::vector<std::pair<ReplicaView*, LoadSource>> loads;
  if (sources.empty()) {  // one from host memory or disk, the others from that one
    const LoadSource first = rank_sources(fleet_, cold.front()->machine, options).front();
    loads.emplace_back(cold.front(), first);
    sources.push_back({.life = cold.front()->life});
    receivers.erase(receivers.begin());
  }
  const auto spread = plan_multicast(sources, receivers, {.chains_max = config_.chains_max});
  std::vector<ReplicaLife> tails;
  if (spread.ok()) {
    tails = spread.value().tails;
    for (const MulticastEdge& edge : spread.value().edges) {
      loads.emplace_back(view(edge.to), LoadSource{SourceTier::kPeer, edge.from});
    }
  }
  if (tails.empty()) tails.push_back(cold.front()->life);
  // Tails serve while they load, and that only prefill replicas do: they take that role first.
  const auto is_tail = [&](const auto& load) {
    return std::find(tails.begin(), tails.end(), load.first->life) != tails.end();
  };
  std::stable_partition(loads.begin(), loads.end(), is_tail);
  for (const auto& [replica, source] : loads) {
    if (!may_change()) return;
    const bool prompts = prefill_ > 0 && (is_tail(std::pair{replica, source}) || decode_ <= 0);
    const bool live = config_.live && prompts && is_tail(std::pair{replica, source});
    load_one(*replica, prompts ? prompt_role() : Role::kDecode, source, live);
    --(prompts ? prefill_ : decode_);
  }
}

void Planner::load() {
  const auto loading =
      by_use([](const ReplicaView& r) { return r.residency == Residency::kLoading; });
  const auto cold = by_use([](const ReplicaView& r) { return r.is_cold() && !r.receives_params; });
  const std::size_t room =
      config_.loads_max - std::min<std::size_t>(config_.loads_max, loading.size());
  const auto wanted = static_cast<std::size_t>(std::max(0, prefill_)) +
                      static_cast<std::size_t>(std::max(0, decode_));
  const std::size_t n = std::min({room, cold.size(), wanted});
  if (n == 0 || !may_change()) return;
  if (config_.executor == Executor::kBlitz) {
    load_from_peers(cold, n);
  } else {
    load_from_caches({cold.begin(), cold.begin() + static_cast<std::ptrdiff_t>(n)});
  }
}

void Planner::drain(Role role, std::int32_t wanted, std::uint32_t least, TimePoint& when) {
  const auto candidates = serving(role);
  if (wanted >= 0 || candidates.empty() || candidates.size() <= least || !may_change()) return;
  ReplicaView& replica = *candidates.front();
  replica.draining = true;
  decide(Choice::kDrain,
         replica,
         BeginDrain{snapshot_.now + config_.drain_deadline},
         "fewer are needed and it is the least used");
  when = snapshot_.now;
}

void Planner::shrink() {
  drain(prompt_role(), prefill_, config_.prefill_min, out_.memory.prefill_down);
  if (!config_.mixed) drain(Role::kDecode, decode_, config_.decode_min, out_.memory.decode_down);
}

}  // namespace

std::string_view name_of(Executor executor) {
  static constexpr std::array<std::string_view, 4> kNames{
      "blitz", "serverless", "allcache", "static"};
  return kNames.at(static_cast<std::size_t>(executor));
}

std::string_view name_of(Choice choice) {
  static constexpr std::array<std::string_view, 8> kNames{"cancel_drain",
                                                          "reuse_warm",
                                                          "change_role",
                                                          "load",
                                                          "assist",
                                                          "drain",
                                                          "hold_ingress",
                                                          "release_ingress"};
  return kNames.at(static_cast<std::size_t>(choice));
}

Plan plan(const PlannerConfig& config, const PlannerMemory& memory, const Snapshot& snapshot) {
  return Planner(config, memory, snapshot).go();
}

std::string text_of(const Decision& decision) {
  std::string out(name_of(decision.choice));
  const auto add = [&out](std::string_view name, double value) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    out.append(" ").append(name).append("=").append(text.data());
  };
  add("replica", static_cast<double>(decision.replica.replica));
  if (const auto* load = std::get_if<Load>(&decision.command)) {
    out.append(" role=").append(name_of(load->role));
    out.append(" source=").append(name_of(load->source.tier));
    if (load->source.tier == SourceTier::kPeer) {
      add("peer", static_cast<double>(load->source.peer.replica));
    }
    out.append(load->live ? " live=true" : " live=false");
  }
  if (const auto* role = std::get_if<SetRole>(&decision.command)) {
    out.append(" role=").append(name_of(role->role));
  }
  if (const auto* assist = std::get_if<AssistBegin>(&decision.command)) {
    add("target", static_cast<double>(assist->target.replica));
  }
  const PlanInputs& in = decision.inputs;
  add("waiting", static_cast<double>(in.n_waiting));
  add("waiting_tokens", in.waiting_tokens);
  add("tokens_at_arrival", in.tokens_at_arrival);
  add("used_blocks", in.used_blocks);
  add("moving_tokens", in.moving_tokens);
  add("load_s", in.load_s);
  for (const RoleNeed* need : {&in.prefill, &in.decode}) {
    out.append(" ").append(name_of(need->role)).append("=");
    out.append(std::to_string(need->n)).append("/").append(std::to_string(need->min)).append("..");
    out.append(std::to_string(need->max));
  }
  return out.append(": ").append(decision.reason);
}

}  // namespace coxswain::fleet
