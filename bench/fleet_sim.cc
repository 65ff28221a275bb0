// coxswain-bench-fleet-sim: requests of a trace through a simulated fleet (fleet/plan/simulator.h) under several arms.
// No model runs; docs/fleet-control.md says what is real and what is a model. coxswain-bench-fleet makes its scenarios.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "fleet/plan/simulator.h"
#include "json/json.h"

namespace coxswain {
namespace {

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-fleet-sim SCENARIO.json [--seed N]

Prints a JSON object with the figures of each arm, times in s. The same scenario and seed give the same figures, but for
wall_s and cpu_s. Members of the scenario, numbers unless said otherwise:

  trace              CSV, a text: arrival_s,input_tokens,output_tokens
  from_s, seconds    a cut of it (all); lead_s: nothing comes so long before its first second
  length_factor      of inputs and outputs (1); input_max, output_max bound them then
  exact              1: its requests as they are
  prompt_tokens_per_s  else: each becomes so many, with lengths drawn from the cut, that this is the mean
  rates              or CSV, a text: minute,samples,rate_sum. Arrivals of that shape, with lengths drawn from the cut;
  peak_per_s         the requests in a second of its highest minute
  arms               array of objects: name, a text; executor, one of blitz, serverless, allcache, static; and any of
                     the members below, which else are those of the scenario, or have defaults

  replicas, prefill, decode, mixed, per_machine, layers, multicast
  auto_apart         1: prompts go apart where less is lost (--disaggregation auto); 0: all do
  step_s, decode_s, prompt_token_s, decode_context_s, prompt_context_s, step_prompt_tokens, batch_max, request_s
  blocks, block_tokens, prefill_rate, transfer_rate, parameter_bytes, peer_rate, host_rate, disk_rate, host_ttl_s
  backlog_low_s, backlog_high_s, use_max, occupancy_low, occupancy_high, migration_low_s, migration_high_s
  decode_prescale
  min, max, decode_min, decode_max, loads_max, changes_max, chains_max, live, avoid_interference
  up_cooldown_s, down_cooldown_s, drain_s, warm_s, tick_s, window_s, sample_s
  ttft_limit_s, gap_limit_s: what counts as attained
)";

using fleet::Disaggregation;
using fleet::Executor;
using fleet::SimOptions;
using fleet::SimRequest;
using fleet::SimResult;
using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

milliseconds of_seconds(double s) {
  return duration_cast<milliseconds>(duration<double>(s));
}
std::uint32_t whole(double v) {
  return static_cast<std::uint32_t>(std::max(0.0, v));
}

struct Member {
  std::string_view name;
  void (*set)(SimOptions&, double);
};

// clang-format off
constexpr std::array kMembers{
    Member{"replicas", [](SimOptions& o, double v) { o.n_replicas = whole(v); }},
    Member{"prefill", [](SimOptions& o, double v) { o.n_prefill = whole(v); }},
    Member{"decode", [](SimOptions& o, double v) { o.n_decode = whole(v); }},
    Member{"mixed", [](SimOptions& o, double v) { o.planner.mixed = v != 0; }},
    Member{"per_machine", [](SimOptions& o, double v) { o.replicas_per_machine = std::max(1U, whole(v)); }},
    Member{"layers", [](SimOptions& o, double v) { o.layers = whole(v); }},
    Member{"multicast", [](SimOptions& o, double v) { o.multicast = v != 0; }},
    Member{"step_s", [](SimOptions& o, double v) { o.times.step = v; }},
    Member{"decode_s", [](SimOptions& o, double v) { o.times.decode = v; }},
    Member{"prompt_token_s", [](SimOptions& o, double v) { o.times.prompt_token = v; }},
    Member{"decode_context_s", [](SimOptions& o, double v) { o.times.decode_context = v; }},
    Member{"prompt_context_s", [](SimOptions& o, double v) { o.times.prompt_context = v; }},
    Member{"step_prompt_tokens", [](SimOptions& o, double v) { o.rules.step_prompt_tokens = whole(v); }},
    Member{"batch_max", [](SimOptions& o, double v) { o.rules.batch_max = whole(v); }},
    Member{"auto_apart", [](SimOptions& o, double v) { o.disaggregation = v != 0 ? Disaggregation::kAuto : Disaggregation::kStatic; }},
    Member{"request_s", [](SimOptions& o, double v) { o.request_s = v; }},
    Member{"blocks", [](SimOptions& o, double v) { o.planner.blocks_per_replica = whole(v); }},
    Member{"block_tokens", [](SimOptions& o, double v) { o.planner.block_tokens = std::max(1U, whole(v)); }},
    Member{"prefill_rate", [](SimOptions& o, double v) { o.planner.tokens_prefilled_per_s = v; }},
    Member{"transfer_rate", [](SimOptions& o, double v) { o.planner.tokens_transferred_per_s = v; }},
    Member{"parameter_bytes", [](SimOptions& o, double v) { o.planner.parameter_bytes = v; }},
    Member{"peer_rate", [](SimOptions& o, double v) { o.planner.peer_bytes_per_s = v; }},
    Member{"host_rate", [](SimOptions& o, double v) { o.planner.host_bytes_per_s = v; }},
    Member{"disk_rate", [](SimOptions& o, double v) { o.planner.disk_bytes_per_s = v; }},
    Member{"host_ttl_s", [](SimOptions& o, double v) { o.host_cache_ttl = of_seconds(v); }},
    Member{"backlog_low_s", [](SimOptions& o, double v) { o.planner.prefill_backlog_s.lower = v; }},
    Member{"backlog_high_s", [](SimOptions& o, double v) { o.planner.prefill_backlog_s.upper = v; }},
    Member{"use_max", [](SimOptions& o, double v) { o.planner.prefill_use_max = v; }},
    Member{"occupancy_low", [](SimOptions& o, double v) { o.planner.decode_occupancy.lower = v; }},
    Member{"occupancy_high", [](SimOptions& o, double v) { o.planner.decode_occupancy.upper = v; }},
    Member{"migration_low_s", [](SimOptions& o, double v) { o.planner.migration_s.lower = v; }},
    Member{"migration_high_s", [](SimOptions& o, double v) { o.planner.migration_s.upper = v; }},
    Member{"decode_prescale", [](SimOptions& o, double v) { o.planner.decode_prescale = v; }},
    Member{"min", [](SimOptions& o, double v) { o.planner.prefill_min = whole(v); }},
    Member{"max", [](SimOptions& o, double v) { o.planner.prefill_max = whole(v); }},
    Member{"decode_min", [](SimOptions& o, double v) { o.planner.decode_min = whole(v); }},
    Member{"decode_max", [](SimOptions& o, double v) { o.planner.decode_max = whole(v); }},
    Member{"loads_max", [](SimOptions& o, double v) { o.planner.loads_max = whole(v); }},
    Member{"changes_max", [](SimOptions& o, double v) { o.planner.changes_max = whole(v); }},
    Member{"chains_max", [](SimOptions& o, double v) { o.planner.chains_max = whole(v); }},
    Member{"live", [](SimOptions& o, double v) { o.planner.live = v != 0; }},
    Member{"avoid_interference", [](SimOptions& o, double v) { o.planner.avoid_interference = v != 0; }},
    Member{"up_cooldown_s", [](SimOptions& o, double v) { o.planner.up_cooldown = of_seconds(v); }},
    Member{"down_cooldown_s", [](SimOptions& o, double v) { o.planner.down_cooldown = of_seconds(v); }},
    Member{"drain_s", [](SimOptions& o, double v) { o.planner.drain_deadline = of_seconds(v); }},
    Member{"warm_s", [](SimOptions& o, double v) { o.warm_ttl = of_seconds(v); }},
    Member{"tick_s", [](SimOptions& o, double v) { o.plan_interval = std::max(milliseconds(1), of_seconds(v)); }},
    Member{"window_s", [](SimOptions& o, double v) { o.window = of_seconds(v); }},
    Member{"ttft_limit_s", [](SimOptions& o, double v) { o.ttft_limit_s = v; }},
    Member{"gap_limit_s", [](SimOptions& o, double v) { o.gap_limit_s = v; }},
    Member{"sample_s", [](SimOptions& o, double v) { o.sample_s = v; }},
};
// clang-format on

struct Workload {
  std::string trace;
  std::string rates;
  double from_s = 0.0;
  double seconds = 1e18;
  double lead_s = 0.0;
  double length_factor = 1.0;
  double input_max = 1e9;
  double output_max = 1e9;
  double exact = 0.0;
  double prompt_tokens_per_s = 0.0;
  double peak_per_s = 0.0;
};

struct Arm {
  std::string name;
  SimOptions options;
};

double number_of(std::string_view name, const json::Value& value) {
  const auto number = value.to_double();
  if (!number) die("`" + std::string(name) + "` must be a number");
  return *number;
}

// False if there is no such member.
bool set_option(SimOptions& options, const std::string& name, const json::Value& value) {
  const auto* member = std::ranges::find(kMembers, name, &Member::name);
  if (member == kMembers.end()) return false;
  member->set(options, number_of(name, value));
  return true;
}

bool set_workload(Workload& out, const std::string& name, const json::Value& value) {
  for (const auto& [text, known] :
       {std::pair{&out.trace, "trace"}, std::pair{&out.rates, "rates"}}) {
    if (name != known) continue;
    if (!value.is_string()) die("`" + name + "` must be a text");
    *text = value.as_string();
    return true;
  }
  for (const auto& [number, known] : {std::pair{&out.from_s, "from_s"},
                                      std::pair{&out.seconds, "seconds"},
                                      std::pair{&out.lead_s, "lead_s"},
                                      std::pair{&out.length_factor, "length_factor"},
                                      std::pair{&out.input_max, "input_max"},
                                      std::pair{&out.output_max, "output_max"},
                                      std::pair{&out.exact, "exact"},
                                      std::pair{&out.prompt_tokens_per_s, "prompt_tokens_per_s"},
                                      std::pair{&out.peak_per_s, "peak_per_s"}}) {
    if (name != known) continue;
    *number = number_of(name, value);
    return true;
  }
  return false;
}

Executor executor_of(const json::Value& value) {
  for (const auto executor :
       {Executor::kBlitz, Executor::kServerless, Executor::kAllCache, Executor::kStatic}) {
    if (value.is_string() && value.as_string() == name_of(executor)) return executor;
  }
  die("`executor` must be blitz, serverless, allcache or static");
}

Arm arm_of(const SimOptions& defaults, const json::Value& value) {
  if (!value.is_object()) die("an arm must be an object");
  Arm out{.name = {}, .options = defaults};
  for (const auto& [name, member] : value.as_object()) {
    if (name == "executor") {
      out.options.planner.executor = executor_of(member);
    } else if (name == "name" && member.is_string()) {
      out.name = member.as_string();
    } else if (!set_option(out.options, name, member)) {
      die("an arm has no member `" + name + "`");
    }
  }
  const SimOptions& o = out.options;
  if (o.n_prefill + o.n_decode > o.n_replicas)
    die("arm `" + out.name + "` has more `prefill` and `decode` than `replicas`");
  return out;
}

void read_scenario(const json::Value& value, Workload& workload, std::vector<Arm>& arms) {
  if (!value.is_object()) die("a scenario must be an object");
  SimOptions defaults;
  for (const auto& [name, member] : value.as_object()) {
    if (name != "arms" && !set_workload(workload, name, member) &&
        !set_option(defaults, name, member))
      die("a scenario has no member `" + name + "`");
  }
  const json::Value* list = value.find("arms");
  if (list == nullptr || !list->is_array()) die("`arms` must be an array");
  for (const json::Value& arm : list->as_array()) arms.push_back(arm_of(defaults, arm));
}

// Numbers of a line, as many as fit.
template <std::size_t kN>
std::array<double, kN> numbers_of(const std::string& line) {
  std::array<double, kN> out{};
  const char* at = line.data();
  const char* end = line.data() + line.size();
  for (double& number : out) {
    at = std::from_chars(at, end, number).ptr;
    if (at < end) ++at;
  }
  return out;
}

template <typename Use>
void each_line(const std::string& path, const Use& use) {
  std::ifstream in(path);
  if (!in) die(path + ": cannot be read");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) use(line);
}

std::vector<SimRequest> read_trace(const Workload& w) {
  std::vector<SimRequest> out;
  each_line(w.trace, [&](const std::string& line) {
    const auto [at, input, output] = numbers_of<3>(line);
    if (at < w.from_s || at >= w.from_s + w.seconds || input < 1 || output < 1) return;
    const auto scaled = [&](double n, double most) {
      return std::max(1U, whole(std::min(std::round(n * w.length_factor), most)));
    };
    out.push_back({.arrival_s = at - w.from_s + w.lead_s,
                   .input_tokens = scaled(input, w.input_max),
                   .output_tokens = scaled(output, w.output_max)});
  });
  if (out.empty()) die(w.trace + ": no requests in this cut");
  return out;
}

double mean_input(const std::vector<SimRequest>& requests) {
  double sum = 0.0;
  for (const SimRequest& request : requests) sum += request.input_tokens;
  return sum / static_cast<double>(requests.size());
}

// In [0, 1); the same everywhere, which std::uniform_real_distribution does not promise.
double part(std::mt19937_64& draw) {
  return static_cast<double>(draw() >> 11) * 0x1.0p-53;
}

// As many requests as give `tokens_per_s`, with the same shape over time: copies between a request and its next one.
std::vector<SimRequest> scaled(const std::vector<SimRequest>& trace,
                               double tokens_per_s,
                               std::mt19937_64& draw) {
  const double seconds = std::max(1.0, trace.back().arrival_s);
  const double wanted = tokens_per_s * seconds / mean_input(trace);
  const double copies = wanted / static_cast<double>(trace.size());
  std::vector<SimRequest> out;
  double owed = 0.0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const double next = i + 1 < trace.size() ? trace[i + 1].arrival_s : trace[i].arrival_s;
    for (owed += copies; owed >= 1.0; owed -= 1.0) {
      SimRequest request = trace[draw() % trace.size()];
      request.arrival_s = trace[i].arrival_s + part(draw) * (next - trace[i].arrival_s);
      out.push_back(request);
    }
  }
  return out;
}

// Arrivals at random with the rate of each minute.
std::vector<SimRequest> day(const Workload& w,
                            const std::vector<SimRequest>& lengths,
                            std::mt19937_64& draw) {
  std::vector<double> rates;
  each_line(w.rates, [&](const std::string& line) { rates.push_back(numbers_of<3>(line)[2]); });
  if (rates.empty()) die(w.rates + ": no minutes");
  const double most = *std::ranges::max_element(rates);
  if (most <= 0.0) die(w.rates + ": no rate above 0");
  std::vector<SimRequest> out;
  for (std::size_t minute = 0; minute < rates.size(); ++minute) {
    const double per_s = rates[minute] / most * w.peak_per_s;
    const double end = 60.0 * (static_cast<double>(minute) + 1.0);
    double at = 60.0 * static_cast<double>(minute);
    while (per_s > 0.0 && (at -= std::log(1.0 - part(draw)) / per_s) < end) {
      SimRequest request = lengths[draw() % lengths.size()];
      request.arrival_s = at;
      out.push_back(request);
    }
  }
  return out;
}

std::vector<SimRequest> requests_of(const Workload& w, std::uint32_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<SimRequest> trace = read_trace(w);
  if (w.exact != 0.0) return trace;
  std::vector<SimRequest> out =
      w.rates.empty() ? scaled(trace, w.prompt_tokens_per_s, draw) : day(w, trace, draw);
  std::ranges::stable_sort(out, {}, &SimRequest::arrival_s);
  if (out.empty()) die("no requests: `prompt_tokens_per_s` or `peak_per_s` is too small");
  return out;
}

json::Value to_json(const std::string& name, const SimResult& r, double wall_s, double cpu_s) {
  json::Object out;
  out.set("name", name);
  for (const auto& [key, value] : {std::pair{"attained", r.attained},
                                   std::pair{"ttft_mean_s", r.ttft_mean_s},
                                   std::pair{"ttft_p50_s", r.ttft_p50_s},
                                   std::pair{"ttft_p95_s", r.ttft_p95_s},
                                   std::pair{"gap_p50_s", r.gap_p50_s},
                                   std::pair{"gap_p95_s", r.gap_p95_s},
                                   std::pair{"handover_p95_s", r.handover_p95_s},
                                   std::pair{"duration_s", r.duration_s},
                                   std::pair{"replica_hours", r.replica_hours},
                                   std::pair{"load_mean_s", r.load_mean_s},
                                   std::pair{"wall_s", wall_s},
                                   std::pair{"cpu_s", cpu_s}}) {
    out.set(key, json::Value::real(value));
  }
  for (const auto& [key, value] : {std::pair{"finished", r.n_finished},
                                   std::pair{"loads", r.n_loads},
                                   std::pair{"role_changes", r.n_role_changes},
                                   std::pair{"refused", r.n_refused},
                                   std::pair{"left", std::size_t{r.n_left}}}) {
    out.set(key, json::Value::unsigned_integer(value));
  }
  json::Array samples;
  for (const fleet::SimSample& s : r.samples) {
    samples.emplace_back(json::Array{json::Value::real(s.replicas),
                                     json::Value::unsigned_integer(s.n_arrived),
                                     json::Value::unsigned_integer(s.n_attained),
                                     json::Value::real(s.ttft_mean_s)});
  }
  out.set("samples", std::move(samples));
  return out;
}

int run(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const std::uint32_t seed = arguments.count("seed", 1);
  const std::string path = arguments.required_word("SCENARIO.json");
  arguments.finish();
  const auto document = json::parse_file(path, std::size_t{1} << 20);
  if (!document.ok()) die(document.status().message());
  Workload workload;
  std::vector<Arm> arms;
  read_scenario(document.value(), workload, arms);
  const std::vector<SimRequest> requests = requests_of(workload, seed);
  std::uint64_t output = 0;
  for (const SimRequest& request : requests) output += request.output_tokens;
  json::Array results;
  for (const Arm& arm : arms) {
    const auto began = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    const SimResult result = fleet::simulate(arm.options, requests);
    results.push_back(to_json(arm.name,
                              result,
                              duration<double>(std::chrono::steady_clock::now() - began).count(),
                              static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC));
  }
  json::Object out;
  out.set("requests", json::Value::unsigned_integer(requests.size()));
  out.set("mean_input", json::Value::real(mean_input(requests)));
  out.set("output_tokens", json::Value::unsigned_integer(output));
  out.set("arms", std::move(results));
  std::puts(json::write(out).c_str());
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  return coxswain::run(argc, argv);
}
