#include "serve/launcher_process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "options/options.h"
#include "serve/launcher_plan.h"
#include "serve/launcher_report.h"
#include "serve/log_level.h"
#include "serve/model_download.h"
#include "serve/model_source.h"
#include "serve/port_lease.h"
#include "serve/replica_channel.h"
#include "serve/runtime_environment.h"
#include "serve/socket_folder.h"
#include "serve/start_failure.h"
#include "serve/status_file.h"
#include "serve/text_files.h"
#include "serve/weights_file.h"
#include "supervise/run_folder.h"
#include "supervise/supervisor.h"
#include "telemetry/log.h"

namespace coxswain::serve {
namespace {

constexpr const char* kRouter = "router";  // its service

int report(const StartFailure& failure) {
  std::fputs(to_lines(failure).c_str(), stderr);
  return failure.exit_code;
}

// Where models of the hub lie, as its tools look for them.
HubCache hub_cache(const options::OptionValues& values) {
  return {.folder = hub_cache_folder(values.get<"huggingface-hub-cache">().value_or(""),
                                     values.get<"HF_HUB_CACHE">().value_or(""),
                                     values.get<"HF_HOME">().value_or("")),
          .revision = values.get<"revision">()};
}

StartFailure no_model(const std::vector<std::string>& bundled) {
  std::string cure = "Add --model-id with the folder of a model";
  for (const std::string& name : bundled) {
    cure += name == bundled.front() ? ", or try one that comes along: --model-id " : ", ";
    cure += name;
  }
  return {"ArgumentValidation", "`model_id` must be set", cure + ".", kExitUsage};
}

supervise::ServiceSpec service_of(const supervise::ChildSpec& child,
                                  const std::string& status_file) {
  supervise::ServiceSpec spec;
  spec.child = child;
  spec.ready = [status_file] { return access(status_file.c_str(), F_OK) == 0; };
  spec.before_start = [status_file] { unlink(status_file.c_str()); };
  return spec;
}

void show_startup(const LauncherPlan& plan, bool json, telemetry::Logger& log) {
  const auto shard = json::parse_file(plan.replicas.front().status_file, kStatusBytesMax);
  const auto router = json::parse_file(plan.router_status_file, kStatusBytesMax);
  if (!shard.ok() || !router.ok()) return;
  if (json) {
    const std::string shard_text = json::write(*shard);
    const std::string router_text = json::write(*router);
    log.info(
        "ready",
        {{"shard", telemetry::JsonText{shard_text}}, {"router", telemetry::JsonText{router_text}}});
    return;
  }
  std::fputs(startup_block(plan.model_id, plan.n_started, *shard, *router).c_str(), stdout);
  std::fflush(stdout);
}

supervise::SupervisorEvents events_for(const LauncherPlan& plan,
                                       bool json,
                                       LogForwarder& forwarder,
                                       telemetry::Logger& log) {
  supervise::SupervisorEvents events;
  events.on_line = [&](const std::string& service,
                       supervise::Stream stream,
                       std::string_view line) { forwarder.on_line(service, stream, line); };
  // The lines that TGI writes while it starts; harnesses wait for them.
  const auto of_shard = [&plan, &log](const std::string& service, std::string_view line) {
    if (plan.replicas.size() == 1) {
      log.info(line, {{"rank", std::int64_t{0}}});
    } else {
      log.info(line, {{"rank", std::int64_t{0}}, {"of", std::string_view(service)}});
    }
  };
  events.on_start = [&log, of_shard](const std::string& service) {
    if (service == kRouter) {
      log.info("Starting Webserver");
    } else {
      of_shard(service, "Starting shard");
    }
  };
  events.on_waiting = [&log, of_shard](const std::string& service) {
    if (service == kRouter) {
      log.info("Waiting for webserver to be ready...");
    } else {
      of_shard(service, "Waiting for shard to be ready...");
    }
  };
  events.on_ready = [&plan, &log, of_shard, json, shown = false](
                        const std::string& service, std::chrono::milliseconds took) mutable {
    if (service != kRouter) {
      of_shard(service, "Shard ready in " + seconds_text(took));
    } else if (!shown) {
      shown = true;
      show_startup(plan, json, log);
    }
  };
  events.on_hangup = [&log] {
    log.info("SIGHUP: files of keys and certificates are read again, options are not");
  };
  events.on_exit = [&](const std::string& service, const supervise::Exit& exit, auto next_start) {
    const std::string how = exit.describe();
    if (next_start) {
      log.error("process ended, it is started again",
                {{"service", std::string_view(service)},
                 {"how", std::string_view(how)},
                 {"in_ms", std::int64_t{next_start->count()}}});
    } else {
      log.error("process ended",
                {{"service", std::string_view(service)}, {"how", std::string_view(how)}});
    }
  };
  events.on_start_error = [&](const std::string& service, const Status& status) {
    log.error(status.message(), {{"service", std::string_view(service)}});
  };
  events.on_held = [&](const std::string& service, pid_t pid) {
    log.error("process stands still and is ended",
              {{"service", std::string_view(service)}, {"pid", std::int64_t{pid}}});
  };
  events.on_state = [&](const std::string& service, std::string_view state, pid_t pid) {
    log.info("state",
             {{"service", std::string_view(service)}, {"is", state}, {"pid", std::int64_t{pid}}});
  };
  events.on_stop = [&](std::string_view signal) { log.info("stopping", {{"signal", signal}}); };
  return events;
}

// Who closes the terminal that the launcher was started from wants it to end, unless nohup started it.
bool hangup_stops() {
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  return isatty(STDIN_FILENO) == 1 && hangup.sa_handler != SIG_IGN;
}

StartFailure bind_failure(const Status& status) {
  return make_start_failure("WebserverCannotStart", status, {}, kExitFailure);
}

// What replicas are to share. A single one looks for itself.
std::optional<StartFailure> look_at_machine(const options::OptionValues& values,
                                            LauncherSite& site) {
  if (n_replicas_max(values) == 1) return std::nullopt;
  site.cores = base::usable_cores();
  if (values.get<"memory-bytes-max">() != 0) return std::nullopt;
  const auto memory = base::available_memory_bytes();
  if (!memory.ok())
    return StartFailure{
        "ShardCannotStart", memory.status().message(), "Set --memory-bytes-max.", kExitFailure};
  // The router keeps KV blocks of its own beside them.
  site.memory_bytes = *memory - std::min<std::uint64_t>(*memory, values.get<"kv-host-bytes-max">());
  return std::nullopt;
}

// Replicas whose processes the router asks for.
class ScaledReplicas {
 public:
  ScaledReplicas(const LauncherPlan& plan,
                 supervise::Supervisor& supervisor,
                 const ReplicaChannel& ours,
                 const ReplicaChannel& routers,
                 telemetry::Logger& log)
      : plan_(plan), supervisor_(supervisor), ours_(ours), routers_(routers), log_(log) {}

  // A router that starts has the first of them, and what was said before is of another one's time.
  void begin_anew() {
    const auto nothing = [](const Status&) {};
    for (const ReplicaChannel* end : {&ours_, &routers_})
      while (!end->receive(plan_.replicas.size(), nothing).empty()) {
      }
    for (std::size_t i = 0; i < plan_.replicas.size(); ++i)
      supervisor_.want(plan_.replicas[i].shard.name, i < plan_.n_started, false);
  }
  void read() {
    const auto bad = [this](const Status& status) { log_.warn(status.message()); };
    for (const ReplicaMessage& message : ours_.receive(plan_.replicas.size(), bad)) {
      const bool starts = message.verb == ReplicaVerb::kStart;
      if (starts || message.verb == ReplicaVerb::kStop)
        supervisor_.want(plan_.replicas[message.replica].shard.name, starts);
    }
  }
  void tell(const std::string& service, ReplicaVerb verb) {
    for (std::size_t i = 0; i < plan_.replicas.size(); ++i) {
      if (plan_.replicas[i].shard.name != service) continue;
      if (const Status sent = ours_.send({.verb = verb, .replica = i}); !sent.ok())
        log_.warn(sent.message());
    }
  }

 private:
  const LauncherPlan& plan_;
  supervise::Supervisor& supervisor_;
  const ReplicaChannel& ours_;
  const ReplicaChannel& routers_;
  telemetry::Logger& log_;
};

void add_scaling(supervise::SupervisorEvents& events,
                 std::optional<ScaledReplicas>& scaled,
                 telemetry::Logger& log) {
  events.on_ready = [&scaled, ready = events.on_ready](const std::string& service,
                                                       std::chrono::milliseconds took) {
    ready(service, took);
    scaled->tell(service, ReplicaVerb::kReady);
  };
  events.on_unwanted = [&](const std::string& service, bool failed) {
    if (!failed)
      log.info("process ended, nobody needs it", {{"service", std::string_view(service)}});
    scaled->tell(service, failed ? ReplicaVerb::kFailed : ReplicaVerb::kEnded);
  };
}

// Weights that replicas share take memory while none of them has a process: it is given back.
void add_renewal(supervise::SupervisorEvents& events,
                 WeightsFile& weights,
                 telemetry::Logger& log) {
  const auto there = std::make_shared<std::set<std::string>>();
  events.on_start = [there, started = events.on_start](const std::string& service) {
    if (service != kRouter) there->insert(service);
    started(service);
  };
  events.on_unwanted = [there, &weights, &log, unwanted = events.on_unwanted](
                           const std::string& service, bool failed) {
    if (there->erase(service) > 0 && there->empty()) {
      if (const Status renewed = weights.renew(); !renewed.ok()) log.warn(renewed.message());
    }
    unwanted(service, failed);
  };
}

using ChannelEnds = std::pair<ReplicaChannel, ReplicaChannel>;  // ours, the router's

// Until all of it has ended. Returns the exit code.
int run_plan(const LauncherPlan& plan,
             const std::optional<ChannelEnds>& channel,
             std::optional<WeightsFile>& weights,
             bool json,
             const std::function<void()>& close_ports,
             telemetry::Logger& log) {
  const SocketFolder socket_folder(plan.replicas.front().socket);
  LogForwarder forwarder(log);
  std::optional<ScaledReplicas> scaled;
  supervise::SupervisorEvents events = events_for(plan, json, forwarder, log);
  if (channel) add_scaling(events, scaled, log);
  if (channel && weights) add_renewal(events, *weights, log);
  supervise::Supervisor supervisor({.grace = plan.grace, .hangup_stops = hangup_stops()},
                                   std::move(events));
  for (std::size_t i = 0; i < plan.replicas.size(); ++i) {
    supervise::ServiceSpec shard = service_of(plan.replicas[i].shard, plan.replicas[i].status_file);
    shard.waits_to_be_wanted = i >= plan.n_started;
    supervisor.add(std::move(shard), 0);
  }
  supervise::ServiceSpec router = service_of(plan.router, plan.router_status_file);
  router.before_stop = close_ports;
  router.takes_hangup = true;
  if (channel) {
    scaled.emplace(plan, supervisor, channel->first, channel->second, log);
    supervisor.watch(channel->first.fd(), [&] { scaled->read(); });
    router.before_start = [&, unlink_status = router.before_start] {
      unlink_status();
      scaled->begin_anew();
    };
  }
  supervisor.add(std::move(router), 1);
  const supervise::RunResult result = supervisor.run();
  if (result.outcome == supervise::Outcome::kStopped) return 0;
  return report(failure_of(result, forwarder.last_failure()));
}

// Several replicas have one copy of the weights.
std::optional<WeightsFile> share_weights(const options::OptionValues& values,
                                         LauncherSite& site,
                                         telemetry::Logger& log) {
  if (n_replicas_max(values) == 1) return std::nullopt;
  auto made = WeightsFile::make();
  if (!made.ok()) {
    log.warn(made.status().message());
    return std::nullopt;
  }
  site.weights_fd = made->fd();
  return std::move(made).value();
}

// The draft model or heads.
std::optional<StartFailure> take_guesser(const options::OptionValues& values, LauncherSite& site) {
  std::string cure;
  auto guesser = find_guesser(values.get<"speculative-model">().value_or(""),
                              site.program_folder,
                              hub_cache(values),
                              site.model,
                              cure);
  if (!guesser.ok())
    return StartFailure{"ArgumentValidation", guesser.status().message(), cure, kExitModel};
  // Heads that --model-id names are switched off like any speculation.
  if (!values.is_set<"speculate">() || values.get<"speculate">() > 0)
    site.guesser = std::move(guesser).value();
  return {};
}

// --plan: says what would be started, and becomes the first shard, which says where its memory would go.
int show_plan(const options::OptionValues& values, LauncherSite& site, telemetry::Logger& log) {
  site.port = values.get<"port">();
  site.run_folder = "RUN_FOLDER";
  if (const auto failure = look_at_machine(values, site)) return report(*failure);
  const std::optional<WeightsFile> weights = share_weights(values, site, log);
  const LauncherPlan plan = make_launcher_plan(values, site);
  std::fputs(plan_text(plan, site.model.folder).c_str(), stdout);
  std::fflush(stdout);
  std::vector<std::string> words = plan.replicas.front().shard.argv;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (const std::string& name : plan.replicas.front().shard.environment_removed)
    unsetenv(name.c_str());
  for (const auto& [name, value] : plan.replicas.front().shard.environment)
    setenv(name.c_str(), value.c_str(), 1);
  if (weights) fcntl(weights->fd(), F_SETFD, 0);
  execv(argv.front(), argv.data());
  return report({"ShardCannotStart",
                 words.front() + " cannot be started",
                 "Install all binaries into one folder.",
                 kExitFailure});
}

int launch(const options::OptionValues& values, telemetry::Logger& log) {
  if (const Status status = validate_launcher_options(values); !status.ok()) {
    return report({"ArgumentValidation", status.message(), kOptionCure, kExitUsage});
  }
  const auto model_id = values.get<"model-id">();
  LauncherSite site;
  site.program_folder = program_folder();
  const std::vector<std::string> bundled = bundled_models(site.program_folder);
  if (!model_id) return report(no_model(bundled));
  site.model = find_model(*model_id, site.program_folder, hub_cache(values));
  std::string cure;
  Status status = check_model_folder(site.model, bundled, cure);
  if (!status.ok() && may_download(*model_id) && !values.get<"plan">()) {
    const DownloadEnd end = download_model(*model_id, site.program_folder, hub_cache(values), log);
    if (end.stopped) return 0;
    if (end.failure) return report(*end.failure);
    site.model = find_model(*model_id, site.program_folder, hub_cache(values));
    status = check_model_folder(site.model, bundled, cure);
  }
  if (!status.ok()) return report({"DownloadError", status.message(), cure, kExitModel});
  if (const auto failure = take_guesser(values, site)) return report(*failure);
  if (const auto failure = check_text_files(values)) return report(*failure);
  if (const auto failure = check_security_files(values)) return report(*failure);
  if (values.get<"plan">()) return show_plan(values, site, log);
  if (values.is_set<"revision">() && !site.model.has_revision()) {
    log.warn("`--revision` has no effect: a folder has one revision only",
             {{"folder", std::string_view(site.model.folder)}});
  }
  // Before the other port, which the system may choose: it then chooses another.
  std::optional<PortLease> metrics_port;
  if (const auto wanted = values.get<"prometheus-port">().value_or(0); wanted != 0) {
    auto lease = PortLease::take(values.get<"hostname">(), wanted, "--prometheus-port");
    if (!lease.ok()) return report(bind_failure(lease.status()));
    site.metrics_fd = metrics_port.emplace(std::move(lease).value()).socket();
  }
  auto lease = PortLease::take(values.get<"hostname">(), values.get<"port">(), "--port");
  if (!lease.ok()) return report(bind_failure(lease.status()));
  std::optional<PortLease> port(std::move(lease).value());
  site.port = port->port();
  site.listen_fd = port->socket();
  const char* temporary = std::getenv("TMPDIR");
  auto folder =
      supervise::RunFolder::create(temporary == nullptr || *temporary == '\0' ? "/tmp" : temporary);
  if (!folder.ok())
    return report({"ShardCannotStart",
                   folder.status().message(),
                   "Set TMPDIR to a folder you may write to.",
                   1});

  site.run_folder = folder->path();
  if (const auto failure = look_at_machine(values, site)) return report(*failure);
  std::optional<ChannelEnds> channel;
  if (values.get<"autoscale">()) {
    auto made = ReplicaChannel::make();
    if (!made.ok()) return report({"ShardCannotStart", made.status().message(), "", kExitFailure});
    site.replica_fd = channel.emplace(std::move(made).value()).second.fd();
  }
  std::optional<WeightsFile> weights = share_weights(values, site, log);
  const LauncherPlan plan = make_launcher_plan(values, site);
  // The router alone holds the ports then, and closes them as it stops accepting.
  const auto close_ports = [&] {
    port.reset();
    metrics_port.reset();
  };
  return run_plan(plan, channel, weights, values.get<"json-output">(), close_ports, log);
}

}  // namespace

int run_launcher(int argc, char** argv) {
  const auto parsed =
      options::parse(options::Binary::kLauncher, argc, argv, options::environment_of(environ));
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  const LogLevel level = log_level_of(parsed.values.get<"LOG_LEVEL">(), kLogTarget);
  telemetry::Logger log({.level = level.level,
                         .json = parsed.values.get<"json-output">(),
                         .colour = parsed.values.get<"LOG_COLORIZE">(),
                         .target = kLogTarget,
                         .file_descriptor = 1});
  const std::string given = given_options(parsed.values);
  if (!parsed.values.get<"plan">()) {
    log.info("Starting text-generation-launcher " COXSWAIN_VERSION,
             {{"with", std::string_view(given)}});
  }
  for (const std::string& warning : parsed.warnings) log.warn(warning);
  if (!level.warning.empty()) log.warn(level.warning);
  if (parsed.values.get<"env">()) {
    for (const auto& [name, value] : runtime_environment()) {
      log.info("Runtime environment",
               {{"fact", std::string_view(name)}, {"is", std::string_view(value)}});
    }
  }
  return launch(parsed.values, log);
}

}  // namespace coxswain::serve
