#include "fleet/plan/simulator.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "fleet/state/replica_step.h"

namespace coxswain::fleet {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

nanoseconds of_seconds(double s) {
  return duration_cast<nanoseconds>(duration<double>(s));
}
double seconds_of(nanoseconds t) {
  return duration<double>(t).count();
}

enum class What : std::uint8_t {
  kArrival,
  kPrefilled,
  kTransferred,
  kDecoded,
  kLayers,
  kTimer,
  kPlan
};

struct Happening {
  nanoseconds at{};
  std::uint64_t order = 0;  // of equal times
  What what = What::kPlan;
  std::uint32_t replica = 0;
  std::uint32_t request = 0;  // kLayers: layers
  std::uint64_t tag = 0;      // kTransferred: destination; kLayers: load
  bool operator>(const Happening& other) const {
    return std::tie(at, order) > std::tie(other.at, other.order);
  }
};

struct Node {
  ReplicaState state{};
  Role former_role = Role::kNone;
  TimePoint load_ends{};
  nanoseconds load_begins{};
  TimePoint last_load = TimePoint::min();
  TimePoint sends_until{};
  std::vector<std::uint32_t> batch = {};  // prompts under way
  std::deque<std::uint32_t> parked = {};  // computed, no destination yet
};

// At one turn of the planner.
struct Traffic {
  std::uint64_t arrived_tokens = 0;  // in all
  double tokens_per_s = 0.0;
  std::uint64_t used_blocks = 0;
};

class Simulation {
 public:
  Simulation(const SimOptions& options, std::span<const SimRequest> requests)
      : options_(options),
        requests_(requests),
        nodes_(options.n_replicas),
        first_token_(requests.size()) {
    config_ = {.layers = options.layers,
               .pages_max = options.planner.blocks_per_replica,
               .prefill_slots = 1024,
               .ingress_slots = 256,
               .warm_ttl = options.warm_ttl,
               .migrate_grace = std::chrono::hours(24)};
    for (std::uint32_t i = 0; i < options.n_replicas; ++i) {
      nodes_[i].state.life.replica = ReplicaId{i};
      const Role role = i < options.n_prefill                      ? Role::kPrefill
                        : i < options.n_prefill + options.n_decode ? Role::kDecode
                                                                   : Role::kNone;
      tell(i, Joined{role, role != Role::kNone});
    }
    if (!requests_.empty()) push(of_seconds(requests_[0].arrival_s), What::kArrival, 0, 0);
    push(nanoseconds{0}, What::kPlan, 0, 0);
  }

  SimResult go() {
    while (out_.n_finished < requests_.size()) {
      const Happening next = events_.top();
      events_.pop();
      now_ = next.at;
      happen(next);
    }
    return summary();
  }

 private:
  TimePoint time() const { return TimePoint{} + now_; }
  std::uint32_t index_of(ReplicaLife life) const {
    return static_cast<std::uint32_t>(life.replica);
  }
  std::uint32_t pages_of(std::uint32_t request) const {
    const SimRequest& r = requests_[request];
    const std::uint32_t block = options_.planner.block_tokens;
    return std::max(1U, (r.input_tokens + r.output_tokens + block - 1) / block);
  }
  void push(nanoseconds at,
            What what,
            std::uint32_t replica,
            std::uint32_t request,
            std::uint64_t tag = 0) {
    events_.push({at, ++order_, what, replica, request, tag});
  }

  Verdict tell(std::uint32_t i, const Event& event) {
    Node& node = nodes_[i];
    const Role before = node.state.role;
    const bool joins = std::holds_alternative<Joined>(event);
    const Transition out =
        step(node.state, {node.state.life.incarnation + (joins ? 1 : 0), event}, time(), config_);
    node.state = out.state;
    if (before != Role::kNone && node.state.role != before) node.former_role = before;
    for (const Action& action : out.actions) act(i, action);
    const bool takes =
        node.state.takes_prompts() && node.batch.empty() &&
        node.state.params.residency == Residency::kResident &&
        (node.state.admission == Admission::kOpen || node.state.assist == Assist::kDonor);
    if (takes) {
      idle_.insert(i);
    } else {
      idle_.erase(i);
    }
    return out.verdict;
  }

  void act(std::uint32_t i, const Action& action) {
    if (const auto* load = std::get_if<StartLoad>(&action)) start_load(i, *load);
    if (const auto* timer = std::get_if<ArmTimer>(&action)) {
      push(timer->at - TimePoint{}, What::kTimer, i, 0);
    }
    if (std::holds_alternative<ReleaseDonors>(action)) {
      for (std::uint32_t other = 0; other < nodes_.size(); ++other) {
        if (nodes_[other].state.assisted == nodes_[i].state.life) tell(other, AssistEnd{});
      }
    }
    if (std::holds_alternative<AdoptHandovers>(action)) {
      for (const std::uint32_t request : std::exchange(nodes_[i].parked, {})) decode(i, request);
      parked_.erase(i);
    }
  }

  void start_load(std::uint32_t i, const StartLoad& load) {
    const PlannerConfig& p = options_.planner;
    double rate = load.source.tier == SourceTier::kDisk ? p.disk_bytes_per_s : p.host_bytes_per_s;
    TimePoint not_before = time();
    if (load.source.tier == SourceTier::kPeer) {
      rate = p.peer_bytes_per_s;
      Node& peer = nodes_[index_of(load.source.peer)];
      if (peer.state.params.residency == Residency::kLoading) not_before = peer.load_ends;
      peer.sends_until = std::max(peer.sends_until, time() + of_seconds(p.parameter_bytes / rate));
    }
    Node& node = nodes_[i];
    node.load_begins = now_;
    node.last_load = time();
    node.load_ends = std::max(not_before, time() + of_seconds(p.parameter_bytes / rate));
    ++out_.n_loads;
    const nanoseconds whole = node.load_ends - time();
    for (std::uint32_t k = 1; k <= options_.layers; ++k) {
      push(now_ + whole * k / options_.layers, What::kLayers, i, k, load.load);
    }
  }

  void happen(const Happening& event) {
    switch (event.what) {
      case What::kArrival:
        queue_.push_back(event.request);
        arrived_tokens_ += requests_[event.request].input_tokens;
        waiting_tokens_ += requests_[event.request].input_tokens;
        if (event.request + 1 < requests_.size()) {
          push(of_seconds(requests_[event.request + 1].arrival_s),
               What::kArrival,
               0,
               event.request + 1);
        }
        break;
      case What::kPrefilled:
        end_batch(event.replica);
        break;
      case What::kTransferred:
        tell(event.replica, HandoverEnded{pages_of(event.request)});
        tell(static_cast<std::uint32_t>(event.tag), IngressEnded{.committed = true});
        decode(static_cast<std::uint32_t>(event.tag), event.request);
        break;
      case What::kDecoded:
        tell(event.replica, SequencesEnded{1, pages_of(event.request)});
        ++out_.n_finished;
        offer_parked();
        break;
      case What::kLayers:
        tell(event.replica, LayersReady{event.tag, event.request});
        break;
      case What::kTimer:
        tell(event.replica, Tick{});
        break;
      case What::kPlan:
        plan_once();
        offer_parked();
        push(now_ + options_.plan_interval, What::kPlan, 0, 0);
        break;
    }
    while (!queue_.empty() && !idle_.empty() && start_batch(*idle_.begin())) {
    }
  }

  bool start_batch(std::uint32_t i) {
    Node& node = nodes_[i];
    const bool donor = node.state.assist == Assist::kDonor;
    std::uint64_t tokens = 0;
    while (!queue_.empty()) {
      const std::uint32_t request = queue_.front();
      const std::uint32_t input = requests_[request].input_tokens;
      if (tokens > 0 && tokens + input > options_.batch_tokens) break;
      const Event takes = donor ? Event(RelayAnswered{.has_task = true, .pages = pages_of(request)})
                                : Event(WorkTaken{1, pages_of(request)});
      if (tell(i, takes) != Verdict::kDone) break;
      queue_.pop_front();
      waiting_tokens_ -= input;
      tokens += input;
      node.batch.push_back(request);
    }
    idle_.erase(i);
    if (node.batch.empty()) return !idle_.empty();  // full: it comes back when something ends
    const double s = static_cast<double>(tokens) / options_.planner.tokens_prefilled_per_s;
    push(now_ + of_seconds(s * donor_share(node)), What::kPrefilled, i, 0);
    return true;
  }

  // Of the time of a prompt that a donor needs, with a target that has k of L layers.
  double donor_share(const Node& node) const {
    if (node.state.assist != Assist::kDonor) return 1.0;
    const Node& target = nodes_[index_of(node.state.assisted)];
    const double l = options_.layers;
    return std::max(l - target.state.params.layers_ready, l / 2.0) / l;
  }

  void end_batch(std::uint32_t i) {
    const std::vector<std::uint32_t> batch = std::exchange(nodes_[i].batch, {});
    for (const std::uint32_t request : batch) {
      first_token_[request] = now_;
      if (requests_[request].output_tokens <= 1) {
        tell(i, PrefillEnded{.n_ended = 1, .pages_freed = pages_of(request)});
        ++out_.n_finished;
        continue;
      }
      tell(i, PrefillEnded{.n_kept = 1});
      if (nodes_[i].state.decodes()) {
        decode(i, request);
      } else {
        nodes_[i].parked.push_back(request);
        parked_.insert(i);
      }
    }
    offer_parked();
  }

  void offer_parked() {
    for (auto at = parked_.begin(); at != parked_.end();) {
      const std::uint32_t i = *at;
      while (!nodes_[i].parked.empty() && hand_over(i, nodes_[i].parked.front())) {
        nodes_[i].parked.pop_front();
      }
      if (!nodes_[i].parked.empty()) return;  // nobody has room
      at = parked_.erase(at);
    }
  }

  // To the decode replica with the fewest pages.
  bool hand_over(std::uint32_t from, std::uint32_t request) {
    std::uint32_t best = options_.n_replicas;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const ReplicaState& state = nodes_[i].state;
      const bool fits = i != from && state.ingress.open && !state.ingress.held &&
                        state.ingress.inbound < config_.ingress_slots &&
                        pages_of(request) <= config_.pages_max - state.pages;
      if (fits && (best == options_.n_replicas || state.pages < nodes_[best].state.pages)) best = i;
    }
    if (best == options_.n_replicas) return false;
    if (tell(best, IngressAsked{nodes_[from].state.life, pages_of(request)}) != Verdict::kDone)
      return false;
    tell(from, HandoverBegan{});
    const double s = requests_[request].input_tokens / options_.planner.tokens_transferred_per_s;
    push(now_ + of_seconds(s), What::kTransferred, from, request, best);
    return true;
  }

  void decode(std::uint32_t i, std::uint32_t request) {
    handovers_.push_back(seconds_of(now_ - first_token_[request]));
    const double token_s =
        options_.token_s + options_.token_s_per_sequence * nodes_[i].state.work.running;
    push(now_ + of_seconds(token_s * (requests_[request].output_tokens - 1)),
         What::kDecoded,
         i,
         request);
  }

  // Rates over the last second, peaks over the last ten.
  void note_traffic(Snapshot& snapshot, std::uint64_t used_blocks) {
    const auto per_second =
        static_cast<std::size_t>(std::chrono::seconds(1) / options_.plan_interval);
    traffic_.push_back({arrived_tokens_, 0.0, used_blocks});
    if (traffic_.size() > 10 * per_second) traffic_.pop_front();
    const std::size_t back = std::min(traffic_.size() - 1, per_second);
    const std::uint64_t before = traffic_[traffic_.size() - 1 - back].arrived_tokens;
    traffic_.back().tokens_per_s = static_cast<double>(arrived_tokens_ - before);
    snapshot.arriving_tokens_per_s = traffic_.back().tokens_per_s;
    for (const Traffic& each : traffic_) {
      snapshot.peak_tokens_per_s = std::max(snapshot.peak_tokens_per_s, each.tokens_per_s);
      snapshot.peak_blocks = std::max(snapshot.peak_blocks, each.used_blocks);
    }
  }

  void plan_once() {
    Snapshot snapshot{.now = time(), .waiting_tokens = waiting_tokens_};
    double n_used = 0.0;
    std::uint64_t used_blocks = 0;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      ReplicaView view = view_of(node.state, i / options_.replicas_per_machine);
      view.former_role = node.former_role;
      view.load_ends = node.load_ends;
      view.last_load = node.last_load;
      view.sends_params = node.sends_until > time();
      if (node.state.params.residency != Residency::kAbsent) n_used += 1.0;
      snapshot.replicas.push_back(view);
      used_blocks += view.used_blocks;
    }
    note_traffic(snapshot, used_blocks);
    out_.replica_hours += n_used * duration<double>(options_.plan_interval).count() / 3600.0;
    const Plan made = plan(options_.planner, memory_, snapshot);
    memory_ = made.memory;
    for (const Decision& decision : made.decisions) {
      out_.n_role_changes += decision.choice == Choice::kMutate ? 1 : 0;
      if (tell(index_of(decision.replica), decision.command) == Verdict::kRefused) ++out_.n_refused;
    }
  }

  SimResult summary() {
    std::vector<double> ttft;
    const double n = static_cast<double>(requests_.size());
    std::size_t n_attained = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      ttft.push_back(seconds_of(first_token_[i]) - requests_[i].arrival_s);
      out_.ttft_mean_s += ttft.back() / n;
      n_attained += ttft.back() <= options_.ttft_limit_s ? 1 : 0;
    }
    out_.attained = requests_.empty() ? 0.0 : static_cast<double>(n_attained) / n;
    const auto quantile = [](std::vector<double>& values, double q) {
      if (values.empty()) return 0.0;
      std::sort(values.begin(), values.end());
      return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
    };
    out_.ttft_p50_s = quantile(ttft, 0.5);
    out_.ttft_p95_s = quantile(ttft, 0.95);
    out_.handover_p95_s = quantile(handovers_, 0.95);
    for (const Node& node : nodes_) {
      const Work& work = node.state.work;
      out_.n_left += work.prefilling + work.parked + work.outbound + work.running +
                     node.state.ingress.inbound + node.state.pages;
    }
    return out_;
  }

  const SimOptions& options_;
  std::span<const SimRequest> requests_;
  ReplicaConfig config_;
  std::vector<Node> nodes_;
  std::vector<nanoseconds> first_token_;
  std::vector<double> handovers_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  nanoseconds now_{};
  std::deque<std::uint32_t> queue_;
  std::uint64_t waiting_tokens_ = 0;
  std::uint64_t arrived_tokens_ = 0;
  std::deque<Traffic> traffic_;
  std::set<std::uint32_t> idle_;    // replicas that could take a prompt
  std::set<std::uint32_t> parked_;  // replicas with parked requests
  PlannerMemory memory_;
  SimResult out_;
};

}  // namespace

SimResult simulate(const SimOptions& options, std::span<const SimRequest> requests) {
  return Simulation(options, requests).go();
}

}  // namespace coxswain::fleet
