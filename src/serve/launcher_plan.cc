#include "serve/launcher_plan.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "base/shell_words.h"
#include "serve/admin_address.h"
#include "serve/log_level.h"
#include "serve/port_lease.h"
#include "serve/replica_channel.h"
#include "serve/replica_roles.h"
#include "serve/status_file.h"
#include "serve/weights_file.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;

// Of each shard whose blocks other replicas go on with: four pieces of 16 MiB.

// A program beside the launcher, else the name alone, to be found in PATH.
std::string find_program(const std::string& program_folder, const std::string& name) {
  const fs::path beside = fs::path(program_folder) / name;
  if (access(beside.c_str(), X_OK) == 0) return beside.string();
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const fs::path candidate = fs::path(folder) / name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return beside.string();
}

void add_environment(supervise::ChildSpec& child,
                     const options::OptionValues& values,
                     options::Binary binary) {
  for (const std::string& entry : options::forwarded_environment(values, binary)) {
    const std::size_t equals = entry.find('=');
    child.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
}

void hand_down(const char* variable, int fd, supervise::ChildSpec& child) {
  if (fd < 0) return;
  child.environment.emplace_back(variable, std::to_string(fd));
  child.descriptors_kept.push_back(fd);
}

// Variables without effect. The launcher has said so where one is set; its children need not again.
std::vector<std::string> reported_variables() {
  std::vector<std::string> out;
  for (const options::OptionSpec& spec : options::option_table()) {
    const std::string_view variable = spec.env_in(options::Binary::kLauncher);
    if (spec.status == options::OptionStatus::kNoop && !variable.empty())
      out.emplace_back(variable);
  }
  return out;
}

void add_input_length(const options::OptionValues& values, supervise::ChildSpec& child) {
  if (const auto length = values.get<"max-input-length">();
      length && !values.is_set<"max-input-tokens">()) {
    child.argv.push_back("--max-input-tokens=" + std::to_string(*length));
  }
}

// The part of a replica in what several have together. What is given for the memory is for all of them; threads are
// given for each.
void add_shares(const options::OptionValues& values,
                const LauncherSite& site,
                std::size_t n_replicas,
                supervise::ChildSpec& shard) {
  const auto set = [&](std::string_view name, std::uint64_t value) {
    const std::string flag = "--" + std::string(name) + "=";
    std::erase_if(shard.argv, [&](const std::string& a) { return a.starts_with(flag); });
    shard.argv.push_back(flag + std::to_string(value));
  };
  if (values.get<"threads">() == 0)
    set("threads", std::max<std::size_t>(site.cores / n_replicas, 1));
  const std::uint64_t given = values.get<"memory-bytes-max">();
  set("memory-bytes-max", (given != 0 ? given : site.memory_bytes) / n_replicas);
  if (const std::uint64_t kv = values.get<"kv-cache-bytes-max">(); kv != 0)
    set("kv-cache-bytes-max", kv / n_replicas);
  // Through the admin listener a replica may be given a role later.
  if (!values.get<"kv-handover-bytes-max">() &&
      (values.get<"admin-listen">() || values.get<"autoscale">() ||
       any_hands_over(roles_of(values, n_replicas).value())))
    set("kv-handover-bytes-max", kHandoverBytes);
}

ReplicaPlan plan_replica(const options::OptionValues& values,
                         const LauncherSite& site,
                         std::size_t index,
                         std::size_t n_replicas) {
  ReplicaPlan plan;
  // Without an explicit path the sockets lie in the private folder; with one, TGI's scheme (prefix
  // and rank) holds.
  std::string prefix = values.is_set<"shard-uds-path">() ? values.get<"shard-uds-path">()
                                                         : site.run_folder + "/shard";
  const std::string number = std::to_string(index);
  if (index > 0) prefix += "-replica-" + number;
  plan.socket = prefix + "-0";
  plan.status_file = shard_status_file(site.run_folder, index);
  supervise::ChildSpec& shard = plan.shard;
  shard.name = (n_replicas == 1 ? "shard-" : "replica-") + number;
  shard.argv = {find_program(site.program_folder, "text-generation-server"),
                "serve",
                site.model.folder,
                "--uds-path=" + prefix};
  for (std::string& argument : options::forwarded_arguments(values, options::Binary::kServer)) {
    if (argument != "--json-output") shard.argv.push_back(std::move(argument));
  }
  std::erase_if(shard.argv,
                [](const std::string& a) { return a.starts_with("--speculative-model="); });
  if (!site.guesser.empty()) shard.argv.push_back("--speculative-model=" + site.guesser);
  add_input_length(values, shard);
  if (n_replicas > 1) add_shares(values, site, n_replicas, shard);
  shard.argv.push_back("--json-output");
  // Its lines come out through the launcher's log.
  const LogLevel level = log_level_of(values.get<"LOG_LEVEL">(), kLogTarget);
  shard.argv.push_back("--logger-level=" + std::string(name_of(level.level)));
  shard.environment = {
      {"COXSWAIN_STATUS_FILE", plan.status_file}, {"RANK", "0"}, {"WORLD_SIZE", "1"}};
  shard.environment_removed = reported_variables();
  shard.environment_removed.insert(
      shard.environment_removed.end(),
      {"LOG_LEVEL", "API_KEY", "REVISION", "COXSWAIN_CONFIG", kWeightsFileVariable});
  add_environment(shard, values, options::Binary::kServer);
  if (site.weights_fd >= 0) {
    shard.environment.emplace_back(
        kWeightsFileVariable, std::to_string(site.weights_fd) + ":" + std::to_string(n_replicas));
    shard.descriptors_kept.push_back(site.weights_fd);
  }
  return plan;
}

supervise::ChildSpec plan_router(const options::OptionValues& values,
                                 const LauncherSite& site,
                                 const LauncherPlan& plan) {
  supervise::ChildSpec router;
  router.name = "router";
  router.argv = {find_program(site.program_folder, "text-generation-router"),
                 "--tokenizer-name=" + site.model.folder,
                 "--port=" + std::to_string(site.port),
                 "--master-shard-uds-path=" + plan.replicas.front().socket};
  for (std::size_t i = 1; i < plan.replicas.size(); ++i)
    router.argv.push_back("--replica-uds-path=" + plan.replicas[i].socket);
  for (std::string& argument : options::forwarded_arguments(values, options::Binary::kRouter)) {
    if (!argument.starts_with("--port=")) router.argv.push_back(std::move(argument));
  }
  if (site.model.folder != site.model.name && !values.is_set<"served-model-name">()) {
    router.argv.push_back("--served-model-name=" + site.model.name);
  }
  add_input_length(values, router);
  router.environment = {{"COXSWAIN_STATUS_FILE", plan.router_status_file}};
  hand_down(kListenVariable, site.listen_fd, router);
  hand_down(kMetricsListenVariable, site.metrics_fd, router);
  if (site.replica_fd >= 0) {
    router.environment.emplace_back(
        kReplicaChannelVariable,
        std::to_string(site.replica_fd) + ":" + std::to_string(plan.n_started));
    router.descriptors_kept.push_back(site.replica_fd);
  }
  router.environment_removed = reported_variables();
  router.environment_removed.insert(router.environment_removed.end(),
                                    {"REVISION", "COXSWAIN_CONFIG"});
  add_environment(router, values, options::Binary::kRouter);
  return router;
}

std::vector<supervise::ChildSpec*> children_of(LauncherPlan& plan) {
  std::vector<supervise::ChildSpec*> out{&plan.router};
  for (ReplicaPlan& replica : plan.replicas) out.push_back(&replica.shard);
  return out;
}

// How many there may be.
Status validate_range(const options::OptionValues& values) {
  const std::uint64_t n = values.get<"replicas">();
  const std::uint64_t least = values.get<"replicas-min">();
  const std::uint64_t most = n_replicas_max(values);
  if (!values.get<"autoscale">()) {
    if (!values.is_set<"replicas-min">() && !values.is_set<"replicas-max">()) return {};
    return invalid_argument("`replicas_min` and `replicas_max` are for `autoscale`");
  }
  if (most < 2 && least > 0) {
    return invalid_argument(
        "`autoscale` needs a `replicas_max` above 1, or a `replicas_min` of 0. Given: 1");
  }
  if (n < least || n > most) {
    return invalid_argument(
        "`replicas` must be in `replicas_min`..`replicas_max`. Given: " + std::to_string(n) +
        " and " + std::to_string(least) + ".." + std::to_string(most));
  }
  return validate_planner(values, roles_of(values, n).value());
}

// Roles, and what several replicas on one machine cannot have.
Status validate_replicas(const options::OptionValues& values) {
  COXSWAIN_RETURN_IF_ERROR(roles_of(values, values.get<"replicas">()).status());
  COXSWAIN_RETURN_IF_ERROR(validate_range(values));
  const std::size_t n_replicas = n_replicas_max(values);
  if (n_replicas > 1 && values.get<"pin-threads">()) {
    return invalid_argument(
        "`pin_threads` must not be set with `replicas` above 1: all of them would be bound to the "
        "same cores. Given: " +
        std::to_string(n_replicas));
  }
  return {};
}

}  // namespace

std::size_t n_replicas_max(const options::OptionValues& values) {
  const std::size_t n = values.get<"replicas">();
  return values.get<"autoscale">() ? values.get<"replicas-max">().value_or(n) : n;
}

Status validate_launcher_options(const options::OptionValues& values) {
  const auto input = values.get<"max-input-tokens">();
  const auto input_length = values.get<"max-input-length">();
  const auto total = values.get<"max-total-tokens">();
  const auto batch_total = values.get<"max-batch-total-tokens">();
  if (values.get<"num-shard">() == 0U) return invalid_argument("`num_shard` cannot be < 1");
  if (input && input_length) {
    return invalid_argument(
        "Both `max_input_tokens` (" + std::to_string(*input) + ") and `max_input_length` (" +
        std::to_string(*input_length) +
        ") are set. Please define only `max_input_tokens` as `max_input_length is deprecated for "
        "naming consistency.");
  }
  const auto effective_input = input ? input : input_length;
  if (effective_input && total && *effective_input >= *total) {
    return invalid_argument("`max_input_tokens`(" + std::to_string(*effective_input) +
                            ") must be < `max_total_tokens`(" + std::to_string(*total) + ")");
  }
  if (values.get<"validation-workers">() == 0)
    return invalid_argument("`validation_workers` must be > 0");
  if (total && batch_total && *total > *batch_total) {
    return invalid_argument("`max_total_tokens` must be <= `max_batch_total_tokens`. Given: " +
                            std::to_string(*total) + " and " + std::to_string(*batch_total));
  }
  // The router's rules, looked at before a model is loaded for it.
  if (values.get<"max-batch-size">() == 0U) return invalid_argument("`max_batch_size` must be > 0");
  if (const auto metrics = values.get<"prometheus-port">();
      metrics && *metrics != 0 && *metrics == values.get<"port">()) {
    return invalid_argument("`prometheus_port` must not be `port`. Given: " +
                            std::to_string(*metrics));
  }
  if (const auto admin = values.get<"admin-listen">())
    COXSWAIN_RETURN_IF_ERROR(parse_admin_address(*admin).status());
  return validate_replicas(values);
}

LauncherPlan make_launcher_plan(const options::OptionValues& values, const LauncherSite& site) {
  LauncherPlan plan;
  plan.model_id = site.model.name;
  plan.router_status_file = site.run_folder + "/router.json";
  plan.grace = values.get<"graceful-termination-timeout">();
  plan.n_started = values.get<"replicas">();
  const std::size_t n_replicas = n_replicas_max(values);
  for (std::size_t i = 0; i < n_replicas; ++i)
    plan.replicas.push_back(plan_replica(values, site, i, n_replicas));
  plan.router = plan_router(values, site, plan);
  for (supervise::ChildSpec* child : children_of(plan)) {
    child->signals_held = {
        SIGTERM, SIGINT, SIGHUP, SIGUSR1};  // as hold_signals() does in both programs
  }
  return plan;
}

std::string plan_text(const LauncherPlan& plan, const std::string& model_folder) {
  const auto command = [](const supervise::ChildSpec& child) {
    std::string out;
    for (const std::string& word : child.argv)
      if (word != "--plan") out += (out.empty() ? "" : " ") + base::shell_quoted(word);
    return out + "\n";
  };
  std::string out = "model    " + model_folder + "\n";
  if (plan.replicas.size() > 1) {
    out += "replicas " + std::to_string(plan.replicas.size()) + ", of which " +
           std::to_string(plan.n_started) + " start; each has its part, as the first here\n";
  }
  return out + "shard    " + command(plan.replicas.front().shard) + "router   " +
         command(plan.router);
}

}  // namespace coxswain::serve
