#include "serve/launcher_plan.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "serve/log_level.h"
#include "serve/port_lease.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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
  return {};
}

LauncherPlan make_launcher_plan(const options::OptionValues& values, const LauncherSite& site) {
  LauncherPlan plan;
  plan.model_id = site.model.name;
  // Without an explicit path the sockets lie in the private folder; with one, TGI's scheme (prefix
  // and rank) holds.
  const std::string prefix = values.is_set<"shard-uds-path">() ? values.get<"shard-uds-path">()
                                                               : site.run_folder + "/shard";
  plan.socket = prefix + "-0";
  plan.shard_status_file = site.run_folder + "/shard-0.json";
  plan.router_status_file = site.run_folder + "/router.json";
  plan.grace = values.get<"graceful-termination-timeout">();

  plan.shard.name = "shard-0";
  plan.shard.argv = {find_program(site.program_folder, "text-generation-server"),
                     "serve",
                     site.model.folder,
                     "--uds-path=" + prefix};
  for (std::string& argument : options::forwarded_arguments(values, options::Binary::kServer)) {
    if (argument != "--json-output") plan.shard.argv.push_back(std::move(argument));
  }
  if (const auto length = values.get<"max-input-length">();
      length && !values.is_set<"max-input-tokens">()) {
    plan.shard.argv.push_back("--max-input-tokens=" + std::to_string(*length));
  }
  plan.shard.argv.push_back("--json-output");
  // Its lines come out through the launcher's log.
  const LogLevel level = log_level_of(values.get<"LOG_LEVEL">(), kLogTarget);
  plan.shard.argv.push_back("--logger-level=" + std::string(name_of(level.level)));
  plan.shard.environment = {
      {"COXSWAIN_STATUS_FILE", plan.shard_status_file}, {"RANK", "0"}, {"WORLD_SIZE", "1"}};
  plan.shard.environment_removed = reported_variables();
  plan.shard.environment_removed.insert(plan.shard.environment_removed.end(),
                                        {"LOG_LEVEL", "API_KEY", "REVISION"});
  add_environment(plan.shard, values, options::Binary::kServer);

  plan.router.name = "router";
  plan.router.argv = {find_program(site.program_folder, "text-generation-router"),
                      "--tokenizer-name=" + site.model.folder,
                      "--port=" + std::to_string(site.port),
                      "--master-shard-uds-path=" + plan.socket};
  for (std::string& argument : options::forwarded_arguments(values, options::Binary::kRouter)) {
    if (!argument.starts_with("--port=")) plan.router.argv.push_back(std::move(argument));
  }
  if (site.model.folder != site.model.name && !values.is_set<"served-model-name">()) {
    plan.router.argv.push_back("--served-model-name=" + site.model.name);
  }
  if (const auto length = values.get<"max-input-length">();
      length && !values.is_set<"max-input-tokens">()) {
    plan.router.argv.push_back("--max-input-tokens=" + std::to_string(*length));
  }
  for (supervise::ChildSpec* child : {&plan.shard, &plan.router}) {
    child->signals_held = {SIGTERM, SIGINT, SIGUSR1};  // as hold_signals() does in both programs
  }
  plan.router.environment = {{"COXSWAIN_STATUS_FILE", plan.router_status_file}};
  hand_down(kListenVariable, site.listen_fd, plan.router);
  hand_down(kMetricsListenVariable, site.metrics_fd, plan.router);
  plan.router.environment_removed = reported_variables();
  plan.router.environment_removed.emplace_back("REVISION");
  add_environment(plan.router, values, options::Binary::kRouter);
  return plan;
}

}  // namespace coxswain::serve
