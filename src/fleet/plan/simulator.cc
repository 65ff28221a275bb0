#include "fleet/plan/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "fleet/plan/gap_times.h"
#include "fleet/plan/load_history.h"
#include "fleet/state/replica_step.h"

namespace coxswain::fleet {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

// As in a fleet that runs (fleet_placement.cc).
constexpr std::uint32_t kWaitingInEngineMax = 4;
constexpr std::uint32_t kArrivingMax = 4;
// Places that are tried for a request whose blocks do not fit into the first.
constexpr int kTries = 8;
// Nothing should take longer behind the last arrival.
constexpr std::chrono::hours kPatience{24};

nanoseconds of_seconds(double s) {
  return duration_cast<nanoseconds>(duration<double>(s));
}
double seconds_of(nanoseconds t) {
  return duration<double>(t).count();
}

enum class What : std::uint8_t { kArrival, kRunEnds, kTransferred, kLayers, kTimer, kPlan };

struct Happening {
  nanoseconds at{};
  std::uint64_t order = 0;  // of equal times
  What what = What::kPlan;
  std::uint32_t replica = 0;
  std::uint32_t request = 0;  // kLayers: layers
  std::uint64_t tag = 0;      // kTransferred: destination; kLayers: load; kRunEnds: the run
  bool operator>(const Happening& other) const {
    return std::tie(at, order) > std::tie(other.at, other.order);
  }
};

struct ParameterStream {
  nanoseconds begins{};
  nanoseconds takes{};    // with the whole link
  nanoseconds delayed{};  // by keys and values that left its source meanwhile
  std::optional<std::uint32_t> from = std::nullopt;  // a peer
};

// Orders of replicas, by how many sequences each has.
enum Order : std::uint8_t {
  kComputing,      // open to prompts that are handed over
  kTakesPrompt,    // of these, with room
  kGenerating,     // open to prompts whose answers it generates, if there may be such
  kTakesWhole,     // of these, with room
  kTakesSequence,  // of other replicas
  kOrders
};

struct Node {
  explicit Node(const SimOptions& options) : engine(options.times, options.rules) {}

  ReplicaState state{};
  Role former_role = Role::kNone;
  SimEngine engine;
  std::uint64_t run = 0;  // the one under way, or the last one
  ParameterStream load{};
  TimePoint load_ends{};
  TimePoint load_began{};
  TimePoint sends_until{};
  std::deque<std::uint32_t> parked = {};  // computed, no destination yet
  // As it stands in the orders.
  std::array<std::optional<std::uint32_t>, kOrders> at = {};
};

class Simulation {
 public:
  Simulation(const SimOptions& options, std::span<const SimRequest> requests)
      : options_(options),
        requests_(requests),
        nodes_(options.n_replicas, Node(options)),
        first_token_(requests.size()),
        last_token_(requests.size()),
        history_(options.window, Clock::duration(options.plan_interval) / 2),
        copies_until_(options.n_replicas) {
    config_ = {.layers = options.layers,
               .pages_max = options.planner.blocks_per_replica,
               .prefill_slots = 1024,
               .ingress_slots = kArrivingMax,
               .warm_ttl = options.warm_ttl,
               .migrate_grace = std::chrono::hours(24)};
    const Role prompts = options.planner.mixed ? Role::kMixed : Role::kPrefill;
    for (std::uint32_t i = 0; i < options.n_replicas; ++i) {
      nodes_[i].state.life.replica = ReplicaId{i};
      const Role role = i < options.n_prefill                      ? prompts
                        : i < options.n_prefill + options.n_decode ? Role::kDecode
                                                                   : Role::kNone;
      tell(i, Joined{role, role != Role::kNone});
    }
    if (!requests_.empty()) push(of_seconds(requests_[0].arrival_s), What::kArrival, 0, 0);
    push(nanoseconds{0}, What::kPlan, 0, 0);
  }

  SimResult go() {
    const double last = requests_.empty() ? 0.0 : requests_.back().arrival_s;
    const nanoseconds limit = of_seconds(last) + kPatience;
    while (out_.n_finished < requests_.size() && now_ < limit) {
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
  bool fits(const Node& node, std::uint32_t request) const {
    return pages_of(request) <= config_.pages_max - node.state.pages;
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
    note_place(i);
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

  // ---- places

  void note_place(std::uint32_t i) {
    const Node& node = nodes_[i];
    const ReplicaState& state = node.state;
    const bool serves = state.params.residency == Residency::kResident;
    const bool open =
        serves && (state.admission == Admission::kOpen || state.assist == Assist::kDonor);
    const bool has_room = node.engine.n_queued() < kWaitingInEngineMax ||
                          node.engine.queued_tokens() < options_.rules.step_prompt_tokens;
    const bool computes = open && state.takes_prompts();
    const bool generates = open && decides() && state.decodes();
    stand(kComputing, i, computes);
    stand(kTakesPrompt, i, computes && has_room);
    stand(kGenerating, i, generates);
    stand(kTakesWhole, i, generates && has_room);
    stand(kTakesSequence,
          i,
          serves && state.ingress.open && !state.ingress.held &&
              state.ingress.inbound < config_.ingress_slots);
  }

  void stand(Order order, std::uint32_t i, bool is_in) {
    Node& node = nodes_[i];
    const auto n = is_in ? std::optional(node.engine.n_sequences() + node.state.ingress.inbound)
                         : std::nullopt;
    std::optional<std::uint32_t>& at = node.at[order];
    if (at == n) return;
    if (at) orders_[order].erase({*at, i});
    if (n) orders_[order].insert({*n, i});
    at = n;
  }

  std::optional<std::uint32_t> choose(Order order,
                                      std::uint32_t request,
                                      std::optional<std::uint32_t> not_this) const {
    const auto& places = orders_[order];
    int tries = kTries;
    for (auto at = places.begin(); at != places.end() && tries > 0; ++at, --tries) {
      if (at->second != not_this && fits(nodes_[at->second], request)) return at->second;
    }
    return std::nullopt;
  }

  // Whether each request's prompt is computed where all lose less by it, as in a fleet that runs.
  bool decides() const {
    return options_.disaggregation == Disaggregation::kAuto && !options_.planner.mixed;
  }
  // Between those of both kinds that have the fewest sequences.
  bool is_apart(std::uint32_t request) const {
    const auto& computing = orders_[kComputing];
    const auto& generating = orders_[kGenerating];
    if (generating.empty() || computing.empty()) return generating.empty();
    const SimRequest& r = requests_[request];
    const PromptSite apart{
        .waiting_tokens = nodes_[computing.begin()->second].engine.prompt_tokens(),
        .own_tokens = r.input_tokens};
    const PromptSite together{
        .waiting_tokens = nodes_[generating.begin()->second].engine.queued_tokens(),
        .own_tokens = r.input_tokens,
        .n_generating = generating.begin()->first};
    return pays_apart(
        {.token_seconds = options_.times.prompt_token,
         .together = together,
         .apart = apart,
         .transfer_seconds = r.input_tokens / options_.planner.tokens_transferred_per_s});
  }

  void place_waiting() {
    while (!queue_.empty()) {
      const std::uint32_t request = queue_.front();
      const bool apart = is_apart(request);
      const auto i = choose(apart ? kTakesPrompt : kTakesWhole, request, std::nullopt);
      if (!i) return;
      Node& node = nodes_[*i];
      const Event takes = node.state.assist == Assist::kDonor
                              ? Event(RelayAnswered{.has_task = true, .pages = pages_of(request)})
                              : Event(WorkTaken{1, pages_of(request), !apart});
      node.engine.add_prompt(now_, request, requests_[request].input_tokens);
      if (tell(*i, takes) != Verdict::kDone) ++out_.n_refused;
      queue_.pop_front();
      queue_tokens_ -= requests_[request].input_tokens;
      run(*i);
    }
  }

  // ---- loads

  void start_load(std::uint32_t i, const StartLoad& load) {
    const PlannerConfig& p = options_.planner;
    const bool from_peer = load.source.tier == SourceTier::kPeer;
    const double rate = from_peer                               ? p.peer_bytes_per_s
                        : load.source.tier == SourceTier::kDisk ? p.disk_bytes_per_s
                                                                : p.host_bytes_per_s;
    Node& node = nodes_[i];
    node.load = {.begins = now_, .takes = of_seconds(p.parameter_bytes / rate)};
    if (from_peer) receive(node.load, index_of(load.source.peer));
    node.load_began = time();
    node.load_ends = TimePoint{} + node.load.begins + node.load.takes;
    ++out_.n_loads;
    push(layers_at(node, 1), What::kLayers, i, 1, load.load);
  }

  void receive(ParameterStream& load, std::uint32_t peer) {
    if (!options_.multicast) {
      while (nodes_[peer].state.params.residency == Residency::kLoading && nodes_[peer].load.from)
        peer = *nodes_[peer].load.from;
      load.begins = std::max(now_, nodes_[peer].sends_until - TimePoint{});
    } else if (nodes_[peer].state.params.residency == Residency::kLoading) {
      // What forwards has nothing before it has received it.
      load.takes = std::max(load.takes, nodes_[peer].load_ends - TimePoint{} - now_);
    }
    load.from = peer;
    nodes_[peer].sends_until =
        std::max(nodes_[peer].sends_until, TimePoint{} + load.begins + load.takes);
  }

  nanoseconds layers_at(const Node& node, std::uint32_t n_layers) const {
    const ParameterStream& load = node.load;
    return std::max(now_, load.begins + load.takes * n_layers / options_.layers + load.delayed);
  }

  void more_layers(const Happening& event) {
    Node& node = nodes_[event.replica];
    if (event.request < options_.layers) {
      push(layers_at(node, event.request + 1),
           What::kLayers,
           event.replica,
           event.request + 1,
           event.tag);
    } else {
      load_s_ += seconds_of(now_ - (node.load_began - TimePoint{}));
      ++n_loaded_;
    }
    tell(event.replica, LayersReady{event.tag, event.request});
  }

  // ---- steps

  // Of the time of a prompt that a donor needs, with a target that has k of L layers.
  double prompt_share(const Node& node) const {
    if (node.state.assist != Assist::kDonor) return 1.0;
    const Node& target = nodes_[index_of(node.state.assisted)];
    const double l = options_.layers;
    return std::max(l - target.state.params.layers_ready, l / 2.0) / l;
  }

  void run(std::uint32_t i) {
    Node& node = nodes_[i];
    const auto ends = node.engine.next(now_, prompt_share(node));
    if (ends) push(*ends, What::kRunEnds, i, 0, ++node.run);
    note_place(i);
  }

  void end_run(std::uint32_t i) {
    const SimEngine::Ended ended = nodes_[i].engine.end();
    gaps_.add(ended.gap_s, ended.n_gaps);
    for (const std::uint32_t request : ended.sequences) {
      last_token_[request] = now_;
      tell(i, SequencesEnded{1, pages_of(request)});
      ++out_.n_finished;
    }
    for (const std::uint32_t request : ended.prompts) end_prompt(i, request);
    run(i);
    offer_parked();
  }

  void end_prompt(std::uint32_t i, std::uint32_t request) {
    first_token_[request] = last_token_[request] = now_;
    if (requests_[request].output_tokens <= 1) {
      tell(i, PrefillEnded{.n_ended = 1, .pages_freed = pages_of(request)});
      ++out_.n_finished;
      return;
    }
    tell(i, PrefillEnded{.n_kept = 1});
    if (nodes_[i].state.decodes()) {
      decode(i, request);
    } else {
      nodes_[i].parked.push_back(request);
      parked_.insert(i);
    }
  }

  void decode(std::uint32_t i, std::uint32_t request) {
    const SimRequest& r = requests_[request];
    nodes_[i].engine.go_on(request, r.input_tokens, r.output_tokens - 1);
  }

  // ---- hand-over

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

  bool hand_over(std::uint32_t from, std::uint32_t request) {
    const auto to = choose(kTakesSequence, request, from);
    if (!to) return false;
    if (tell(*to, IngressAsked{nodes_[from].state.life, pages_of(request)}) != Verdict::kDone)
      return false;
    tell(from, HandoverBegan{});
    const nanoseconds takes =
        of_seconds(requests_[request].input_tokens / options_.planner.tokens_transferred_per_s);
    push(now_ + takes + share_link(from, takes), What::kTransferred, from, request, *to);
    return true;
  }

  // While parameters leave, too, each has half of the link: how much later both are through.
  nanoseconds share_link(std::uint32_t from, nanoseconds takes) {
    Node& node = nodes_[from];
    if (node.sends_until <= time()) return nanoseconds{0};
    for (Node& other : nodes_) {
      if (other.load.from != from || other.state.params.residency != Residency::kLoading) continue;
      other.load.delayed += takes;
      other.load_ends += takes;
    }
    node.sends_until += takes;
    return takes;
  }

  void transferred(const Happening& event) {
    const auto to = static_cast<std::uint32_t>(event.tag);
    tell(event.replica, HandoverEnded{pages_of(event.request)});
    tell(to, IngressEnded{.committed = true});
    handovers_.push_back(static_cast<float>(seconds_of(now_ - first_token_[event.request])));
    const SimRequest& r = requests_[event.request];
    nodes_[to].engine.add_decode(now_, event.request, r.input_tokens, r.output_tokens - 1);
    run(to);
    offer_parked();
  }

  void happen(const Happening& event) {
    switch (event.what) {
      case What::kArrival:
        queue_.push_back(event.request);
        arrived_tokens_ += requests_[event.request].input_tokens;
        arrived_squares_ += std::pow(requests_[event.request].input_tokens, 2.0);
        queue_tokens_ += requests_[event.request].input_tokens;
        if (event.request + 1 < requests_.size()) {
          push(of_seconds(requests_[event.request + 1].arrival_s),
               What::kArrival,
               0,
               event.request + 1);
        }
        break;
      case What::kRunEnds:
        if (event.tag == nodes_[event.replica].run) end_run(event.replica);
        break;
      case What::kTransferred:
        transferred(event);
        break;
      case What::kLayers:
        more_layers(event);
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
    place_waiting();
  }

  // ---- the planner

  void plan_once() {
    Snapshot snapshot{.now = time(), .waiting_tokens = queue_tokens_, .n_waiting = queue_.size()};
    double n_used = 0.0;
    std::uint64_t used_blocks = 0;
    snapshot.replicas.reserve(nodes_.size());
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      ReplicaView view = view_of(node.state, i / options_.replicas_per_machine);
      view.former_role = node.former_role;
      view.load_ends = node.load_ends;
      view.sends_params = node.sends_until > time();
      if (node.state.params.residency != Residency::kAbsent) n_used += 1.0;
      snapshot.waiting_tokens += node.engine.queued_tokens();
      snapshot.replicas.push_back(view);
      used_blocks += view.used_blocks;
    }
    if (options_.planner.executor == Executor::kServerless) snapshot.host_copies = host_copies();
    history_.add({.at = time(),
                  .arrived_tokens = arrived_tokens_,
                  .arrived_squares = arrived_squares_,
                  .used_blocks = used_blocks});
    const LoadTrend trend = history_.trend();
    snapshot.arriving_tokens_per_s = trend.tokens_per_s;
    snapshot.arriving_slope = trend.slope;
    snapshot.peak_tokens_per_s = history_.peak_tokens_per_s();
    snapshot.peak_blocks = history_.peak_blocks();
    note_used(n_used);
    const Plan made = plan(options_.planner, memory_, snapshot);
    memory_ = made.memory;
    for (const Decision& decision : made.decisions) {
      out_.n_role_changes += decision.choice == Choice::kMutate ? 1 : 0;
      const std::uint32_t i = index_of(decision.replica);
      if (tell(i, decision.command) == Verdict::kRefused) ++out_.n_refused;
      run(i);  // it may have adopted what was parked
    }
  }

  // A load leaves a copy in its machine's host memory, which stays while a replica there has the parameters, and for
  // its keep-alive longer.
  std::vector<std::uint32_t> host_copies() {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const std::uint32_t machine = i / options_.replicas_per_machine;
      if (nodes_[i].state.params.residency == Residency::kResident)
        copies_until_[machine] = time() + options_.host_cache_ttl;
      const bool is_last = i + 1 == nodes_.size() || (i + 1) % options_.replicas_per_machine == 0;
      if (is_last && copies_until_[machine] > time()) out.push_back(machine);
    }
    return out;
  }

  void note_used(double n_used) {
    const double interval_s = duration<double>(options_.plan_interval).count();
    out_.replica_hours += n_used * interval_s / 3600.0;
    if (options_.sample_s > 0.0)
      sample_at(seconds_of(now_)).replicas += n_used * interval_s / options_.sample_s;
  }

  SimSample& sample_at(double s) {
    const auto at = static_cast<std::size_t>(s / options_.sample_s);
    if (at >= out_.samples.size()) out_.samples.resize(at + 1);
    return out_.samples[at];
  }

  bool attained(std::size_t i, double ttft) const {
    if (options_.ttft_limit_s > 0.0 && ttft > options_.ttft_limit_s) return false;
    const std::uint32_t n_gaps = requests_[i].output_tokens - 1;
    return options_.gap_limit_s <= 0.0 || n_gaps == 0 ||
           seconds_of(last_token_[i] - first_token_[i]) <= options_.gap_limit_s * n_gaps;
  }

  SimResult summary() {
    std::vector<float> ttft;
    ttft.reserve(requests_.size());
    const double n = static_cast<double>(requests_.size());
    std::size_t n_attained = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const double s = seconds_of(first_token_[i]) - requests_[i].arrival_s + options_.request_s;
      const bool in_time = attained(i, s);
      ttft.push_back(static_cast<float>(s));
      out_.ttft_mean_s += s / n;
      n_attained += in_time ? 1 : 0;
      if (options_.sample_s <= 0.0) continue;
      SimSample& sample = sample_at(requests_[i].arrival_s);
      ++sample.n_arrived;
      sample.n_attained += in_time ? 1 : 0;
      sample.ttft_mean_s += s;
    }
    for (SimSample& sample : out_.samples)
      sample.ttft_mean_s /= static_cast<double>(std::max<std::uint64_t>(1, sample.n_arrived));
    out_.attained = requests_.empty() ? 0.0 : static_cast<double>(n_attained) / n;
    const auto quantile = [](std::vector<float>& values, double q) {
      if (values.empty()) return 0.0;
      std::sort(values.begin(), values.end());
      return static_cast<double>(
          values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))]);
    };
    out_.ttft_p50_s = quantile(ttft, 0.5);
    out_.ttft_p95_s = quantile(ttft, 0.95);
    out_.handover_p95_s = quantile(handovers_, 0.95);
    out_.gap_p50_s = gaps_.quantile(0.5);
    out_.gap_p95_s = gaps_.quantile(0.95);
    out_.duration_s = seconds_of(now_);
    out_.load_mean_s = n_loaded_ == 0 ? 0.0 : load_s_ / static_cast<double>(n_loaded_);
    for (const Node& node : nodes_) {
      const Work& work = node.state.work;
      out_.n_left += work.prefilling + work.parked + work.outbound + work.running +
                     node.state.ingress.inbound + node.state.pages;
    }
    return std::move(out_);
  }

  const SimOptions& options_;
  std::span<const SimRequest> requests_;
  ReplicaConfig config_;
  std::vector<Node> nodes_;
  std::vector<nanoseconds> first_token_;
  std::vector<nanoseconds> last_token_;
  std::vector<float> handovers_;
  GapTimes gaps_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  nanoseconds now_{};
  std::deque<std::uint32_t> queue_;
  std::uint64_t queue_tokens_ = 0;
  std::uint64_t arrived_tokens_ = 0;
  double arrived_squares_ = 0.0;
  LoadHistory history_;
  // Of each order: sequences, replica.
  std::array<std::set<std::pair<std::uint32_t, std::uint32_t>>, kOrders> orders_;
  std::set<std::uint32_t> parked_;  // replicas with parked requests
  PlannerMemory memory_;
  std::vector<TimePoint> copies_until_;  // of machines, in host memory
  double load_s_ = 0.0;
  std::size_t n_loaded_ = 0;
  SimResult out_;
};

}  // namespace

SimResult simulate(const SimOptions& options, std::span<const SimRequest> requests) {
  return Simulation(options, requests).go();
}

}  // namespace coxswain::fleet
