#include "serve/router/fleet_document.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "telemetry/exposition.h"

namespace coxswain::serve {
namespace {

json::Value count(std::uint64_t n) {
  return json::Value::unsigned_integer(n);
}

std::string_view state_of(const Status& health) {
  if (health.ok()) return "serving";
  return health.code() == Code::kUnavailable ? "lost" : "late";
}

// Whether anybody loads, or is refractory, who helps.
bool any_target(const FleetView& view) {
  for (std::size_t i = 0; i < view.status.replicas.size(); ++i) {
    const fleet::ReplicaStatus& replica = view.status.replicas[i];
    const bool loads = replica.live.phase == fleet::LivePhase::kLoading ||
                       replica.live.phase == fleet::LivePhase::kRefractory;
    if (loads && view.health[i].ok() && fleet::computes_prompts(replica.role)) return true;
  }
  return false;
}

// One that loads, or has prompts of that time: it helps where it computes prompts.
fleet::ReplicaState regions_of_target(fleet::ReplicaState out,
                                      const fleet::ReplicaStatus& replica) {
  const bool loads = replica.live.phase == fleet::LivePhase::kLoading;
  out.work.prefilling += static_cast<std::uint32_t>(replica.live.n_prompts);
  if (!fleet::computes_prompts(replica.role)) {
    out.admission = fleet::Admission::kClosed;
  } else {
    out.assist = loads ? fleet::Assist::kTarget : fleet::Assist::kRefractory;
    if (!loads) out.admission = fleet::Admission::kPullOnly;
  }
  return out;
}

// Those of its regions (fleet/state) that change in this fleet.
fleet::ReplicaState regions_of(const FleetView& view, std::size_t index) {
  const fleet::ReplicaStatus& replica = view.status.replicas[index];
  const Status& health = view.health[index];
  fleet::ReplicaState out;
  if (health.code() == Code::kUnavailable) return out;
  out.lost = false;
  out.role = replica.role;
  const fleet::LivePhase phase = replica.live.phase;
  out.params.residency = phase == fleet::LivePhase::kLoading ? fleet::Residency::kLoading
                                                             : fleet::Residency::kResident;
  out.params.layers_ready = replica.live.layers_ready;
  out.work.prefilling = static_cast<std::uint32_t>(replica.n_for_others);
  out.work.parked = static_cast<std::uint32_t>(replica.n_leaving);
  out.work.running = static_cast<std::uint32_t>(replica.n_stays - replica.n_for_others);
  out.ingress.inbound = static_cast<std::uint32_t>(replica.n_arriving);
  out.drain = replica.drain;
  out.admission = fleet::Admission::kOpen;
  const bool drains = replica.drain.phase != fleet::DrainPhase::kNo;
  if (!drains && (phase == fleet::LivePhase::kLoading || phase == fleet::LivePhase::kRefractory))
    return regions_of_target(out, replica);
  out.ingress.open = !drains && fleet::generates(replica.role);
  if (!drains) {
    if (fleet::computes_prompts(replica.role) && any_target(view))
      out.assist = fleet::Assist::kDonor;
    return out;
  }
  out.admission = fleet::Admission::kClosed;
  if (out.idle()) {
    out.role = fleet::Role::kNone;
    out.drain = {};
  }
  return out;
}

json::Value blocks_of(const batch::EngineStats& stats) {
  json::Object out;
  out.append_new("total", count(stats.blocks_total));
  out.append_new("free", count(stats.blocks_free));
  out.append_new("cached", count(stats.blocks_cached));
  out.append_new("leased", count(stats.blocks_leased));
  out.append_new("retiring", count(stats.blocks_retiring));
  return json::Value(std::move(out));
}

json::Value handovers_of(const fleet::FleetStatus& status) {
  const batch::HandoverStats& stats = status.handovers;
  json::Object out;
  out.append_new("moved", count(stats.n_moved));
  out.append_new("recomputed", count(stats.n_recomputed));
  out.append_new("running", count(stats.n_running));
  out.append_new("bytes", count(stats.n_bytes));
  out.append_new("bytes_ahead", count(stats.n_bytes_ahead));
  if (!stats.transport.empty()) out.append_new("transport", stats.transport);
  out.append_new("together", count(status.n_together));
  return json::Value(std::move(out));
}

json::Value divided_of(const fleet::DividedPrompts& divided) {
  json::Object out;
  out.append_new("moved", count(divided.n_moved));
  out.append_new("layers", count(divided.n_layers));
  out.append_new("finished", count(divided.n_finished));
  out.append_new("recomputed", count(divided.n_recomputed));
  return json::Value(std::move(out));
}

json::Value first_layers_of(const fleet::LiveTarget::State& live) {
  json::Object out;
  out.append_new("prompts", count(live.n_prompts));
  out.append_new("begun", count(live.n_prompts_begun));
  out.append_new("layers", count(live.n_layers_run));
  return json::Value(std::move(out));
}

// Runners after the first.
std::uint64_t restarts_of(const fleet::ReplicaStatus& replica) {
  return replica.incarnation - std::min<std::uint64_t>(replica.incarnation, 1);
}

json::Value role_document(const fleet::RoleNeed& need) {
  json::Object out;
  out.append_new("replicas", count(need.n));
  out.append_new("serving", count(need.n_serving));
  out.append_new("least", count(need.min));
  out.append_new("most", count(need.max));
  return json::Value(std::move(out));
}

json::Value inputs_document(const fleet::PlanInputs& inputs) {
  json::Object out;
  out.append_new("waiting", count(inputs.n_waiting));
  out.append_new("waiting_tokens", json::Value::real(inputs.waiting_tokens));
  out.append_new("tokens_at_arrival", json::Value::real(inputs.tokens_at_arrival));
  out.append_new("used_blocks", json::Value::real(inputs.used_blocks));
  out.append_new("moving_tokens", json::Value::real(inputs.moving_tokens));
  out.append_new("load_s", json::Value::real(inputs.load_s));
  const bool mixed = inputs.prefill.role == fleet::Role::kMixed;
  out.append_new(std::string(fleet::name_of(inputs.prefill.role)), role_document(inputs.prefill));
  if (!mixed) out.append_new("decode", role_document(inputs.decode));
  return json::Value(std::move(out));
}

json::Value scaling_document(const fleet::AutoscalerView& view, TimePoint now) {
  json::Array decisions;
  for (const fleet::DecisionRecord& record : view.decisions) {
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(now - record.at);
    json::Object one;
    one.append_new("ago_ms",
                   count(static_cast<std::uint64_t>(std::max<std::int64_t>(ago.count(), 0))));
    one.append_new("decision", std::string(fleet::name_of(record.decision.choice)));
    one.append_new("replica", count(static_cast<std::uint64_t>(record.decision.replica.replica)));
    one.append_new("outcome", record.outcome);
    one.append_new("reason", std::string(record.decision.reason));
    one.append_new("inputs", inputs_document(record.decision.inputs));
    decisions.push_back(json::Value(std::move(one)));
  }
  json::Object out;
  out.append_new("planner", std::string(view.dry_run ? "dry-run" : "act"));
  out.append_new("replicas_min", count(view.replicas_min));
  out.append_new("replicas_max", count(view.replicas_max));
  out.append_new("state", std::string(view.state));
  out.append_new("failed_starts", count(view.n_failed_starts));
  out.append_new("inputs", inputs_document(view.inputs));
  out.append_new("decisions", json::Value(std::move(decisions)));
  return json::Value(std::move(out));
}

json::Value members_document(const MembersView& view) {
  json::Object out;
  out.append_new("source", view.source);
  out.append_new("members",
                 count(static_cast<std::uint64_t>(
                     std::ranges::count(view.replicas, true, &MembersView::Replica::is_listed))));
  out.append_new("current", view.status.is_current);
  out.append_new("failures", count(view.status.n_failures));
  out.append_new("refused", count(view.status.n_refused));
  if (!view.status.last_failure.empty()) out.append_new("last_failure", view.status.last_failure);
  return json::Value(std::move(out));
}

fleet::Presence presence_of(const FleetView& view, std::size_t replica) {
  if (view.scaling) return view.scaling->presences[replica];
  const bool is_away = view.members && !view.members->replicas[replica].is_listed &&
                       view.health[replica].code() == Code::kUnavailable;
  return is_away ? fleet::Presence::kAbsent : fleet::Presence::kPresent;
}

json::Value replica_document(const FleetView& view, std::size_t index) {
  const fleet::ReplicaStatus& replica = view.status.replicas[index];
  const Status& health = view.health[index];
  const fleet::Presence presence = presence_of(view, index);
  json::Object out;
  out.append_new("replica", count(index));
  if (view.members) out.append_new("member", view.members->replicas[index].name);
  out.append_new("address", view.addresses[index]);
  out.append_new("role", std::string(fleet::name_of(replica.role)));
  out.append_new("state",
                 std::string(presence == fleet::Presence::kPresent ? state_of(health)
                                                                   : fleet::name_of(presence)));
  if (!health.ok()) out.append_new("reason", health.message());
  const fleet::ReplicaState regions = regions_of(view, index);
  out.append_new("admission", std::string(fleet::name_of(regions.admission)));
  out.append_new("drain", std::string(fleet::name_of(replica.drain.phase)));
  if (regions.assist != fleet::Assist::kNone)
    out.append_new("assist", std::string(fleet::name_of(regions.assist)));
  out.append_new("blitz_name", std::string(fleet::name_of(fleet::blitz_name(regions))));
  out.append_new("incarnation", count(replica.incarnation));
  out.append_new("restarts", count(restarts_of(replica)));
  out.append_new("requests", count(replica.n_stays));
  out.append_new("queued", count(replica.stats.queued));
  out.append_new("running", count(replica.stats.running));
  out.append_new("blocks", blocks_of(replica.stats));
  // As its last step said.
  const bool told = replica.live.n_layers != 0;
  if (replica.stats.layers_ready != 0 || told)
    out.append_new("layers_ready", count(replica.stats.layers_ready));
  if (told) out.append_new("layers", count(replica.live.n_layers));
  if (replica.live.n_prompts_begun != 0)
    out.append_new("first_layers", first_layers_of(replica.live));
  out.append_new("steps", count(replica.stats.steps));
  out.append_new("prompt_tokens", count(replica.stats.prompt_tokens));
  out.append_new("cached_prompt_tokens", count(replica.stats.cached_prompt_tokens));
  out.append_new("generated_tokens", count(replica.stats.generated_tokens));
  out.append_new("pauses", count(replica.stats.pauses));
  return json::Value(std::move(out));
}

// One family: a value for each replica.
struct ReplicaMetric {
  std::string_view name;
  std::string_view help;
  bool counts = false;  // only grows, but for a new runner
  std::uint64_t (*value)(const fleet::ReplicaStatus&);
};

constexpr std::array kMetrics{
    ReplicaMetric{"tgi_replica_incarnation",
                  "Runners that the replica has had",
                  false,
                  [](const fleet::ReplicaStatus& r) { return r.incarnation; }},
    ReplicaMetric{"tgi_replica_queue_size",
                  "Requests that wait in the replica's engine",
                  false,
                  [](const fleet::ReplicaStatus& r) { return std::uint64_t{r.stats.queued}; }},
    ReplicaMetric{"tgi_replica_running",
                  "Sequences that the replica computes",
                  false,
                  [](const fleet::ReplicaStatus& r) { return std::uint64_t{r.stats.running}; }},
    ReplicaMetric{
        "tgi_replica_kv_blocks_total",
        "Blocks of the replica's KV cache",
        false,
        [](const fleet::ReplicaStatus& r) { return std::uint64_t{r.stats.blocks_total}; }},
    ReplicaMetric{"tgi_replica_kv_blocks_free",
                  "Of these, such that hold nothing",
                  false,
                  [](const fleet::ReplicaStatus& r) { return std::uint64_t{r.stats.blocks_free}; }},
    ReplicaMetric{
        "tgi_replica_kv_blocks_leased",
        "Of these, such that requests use",
        false,
        [](const fleet::ReplicaStatus& r) { return std::uint64_t{r.stats.blocks_leased}; }},
    ReplicaMetric{"tgi_replica_steps_total",
                  "Steps that the replica has computed",
                  true,
                  [](const fleet::ReplicaStatus& r) { return r.stats.steps; }},
    ReplicaMetric{"tgi_replica_generated_tokens_total",
                  "Tokens that the replica has generated",
                  true,
                  [](const fleet::ReplicaStatus& r) { return r.stats.generated_tokens; }},
    ReplicaMetric{
        "tgi_replica_layers_ready",
        "Layers of the model whose weights have arrived at the replica",
        false,
        [](const fleet::ReplicaStatus& r) { return std::uint64_t{r.stats.layers_ready}; }},
    ReplicaMetric{"tgi_replica_first_layers_total",
                  "Layers of waiting prompts that the replica has computed while it loaded",
                  true,
                  [](const fleet::ReplicaStatus& r) { return r.live.n_layers_run; }}};

std::string label_of(std::size_t replica) {
  return "replica=\"" + std::to_string(replica) + "\"";
}

}  // namespace

json::Value fleet_document(const FleetView& view) {
  json::Array replicas;
  std::uint64_t n_serving = 0;
  std::uint64_t n_restarts = 0;
  for (std::size_t i = 0; i < view.status.replicas.size(); ++i) {
    replicas.push_back(replica_document(view, i));
    n_serving += view.health[i].ok() ? 1 : 0;
    n_restarts += restarts_of(view.status.replicas[i]);
  }
  json::Object out;
  out.append_new("replicas", json::Value(std::move(replicas)));
  out.append_new("serving", count(n_serving));
  out.append_new("restarts", count(n_restarts));
  out.append_new("requests", count(view.status.n_requests));
  out.append_new("waiting", count(view.status.n_waiting));
  out.append_new("resuming", count(view.status.n_resuming));
  out.append_new("resumed", count(view.status.n_resumed));
  out.append_new("handovers", handovers_of(view.status));
  out.append_new("divided", divided_of(view.status.divided));
  if (view.scaling) out.append_new("autoscale", scaling_document(*view.scaling, view.now));
  if (view.members) out.append_new("membership", members_document(*view.members));
  return json::Value(std::move(out));
}

std::string replica_metrics(const FleetView& view, telemetry::TextFormat format) {
  telemetry::Registry registry;
  for (std::size_t i = 0; i < view.health.size(); ++i) {
    registry.gauge("tgi_replica_serving", "1 if the replica's shard answers, else 0", label_of(i))
        .set(view.health[i].ok() ? 1 : 0);
  }
  for (const ReplicaMetric& metric : kMetrics) {
    for (std::size_t i = 0; i < view.status.replicas.size(); ++i) {
      const std::uint64_t value = metric.value(view.status.replicas[i]);
      if (metric.counts) {
        registry.counter(metric.name, metric.help, label_of(i)).add(value);
      } else {
        registry.gauge(metric.name, metric.help, label_of(i)).set(static_cast<double>(value));
      }
    }
  }
  return registry.render(format);
}

}  // namespace coxswain::serve
