#include "serve/shard/shard_process.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "membership/open.h"
#include "options/options.h"
#include "peers/peer_weights.h"
#include "peers/weights_service.h"
#include "rpc/shard_service.h"
#include "rpc/socket_listener.h"
#include "rpc/unix_socket.h"
#include "runner/local_runner.h"
#include "serve/model_source.h"
#include "serve/parent_watch.h"
#include "serve/peer_files.h"
#include "serve/shard/fleet_place.h"
#include "serve/shard/script.h"
#include "serve/shard/shard_setup.h"
#include "serve/socket_folder.h"
#include "serve/start_failure.h"
#include "serve/status_file.h"
#include "serve/stop_signals.h"
#include "serve/text_files.h"
#include "serve/weights_file.h"
#include "telemetry/log.h"
#include "tokenizer/text_codec.h"

namespace coxswain::serve {
namespace {

constexpr std::chrono::milliseconds kStopGrace{400};
// So long a shard that has left etcd goes on with what routers have not moved away yet.
constexpr std::chrono::milliseconds kLeaveGrace{10'000};
constexpr std::chrono::milliseconds kLeavePause{20};
constexpr std::chrono::milliseconds kProgressInterval{2'000};

// `status` is what went wrong; the two lines of `failure` go to standard error.
int report(telemetry::Logger& log, const Status& status, const StartFailure& failure) {
  log.error("the shard cannot start", {{"error", status.message()}});
  std::fputs(to_lines(failure).c_str(), stderr);
  return failure.exit_code;
}

void dump_state(const runner::LocalRunner& runner, telemetry::Logger& log) {
  const runner::RunnerState state = runner.state();
  log.info("state",
           {{"steps", state.steps},
            {"sequences", std::uint64_t{state.sequences}},
            {"plans_in_flight", std::uint64_t{state.plans_in_flight}},
            {"drafts_computed", state.drafts.computed},
            {"drafts_accepted", state.drafts.accepted},
            {"kv_tokens", runner.memory_plan().kv_tokens}});
}

// The folder that the word after `serve` means, or what keeps it from being served.
// Beside it the folder of what guesses its tokens.
std::optional<StartFailure> find_folders(const options::OptionValues& values,
                                         runner::RunnerOptions& options) {
  const std::string programs = program_folder();
  ModelSource model = find_model(values.get<"model-id">().value_or(""), programs, {});
  options.model_dir = model.folder;
  std::string cure;
  Status status = check_model_folder(model, bundled_models(programs), cure);
  if (status.ok()) {
    auto guesser = find_guesser(options.speculative_model_dir, programs, {}, model, cure);
    status = guesser.status();
    options.model_dir = model.folder;
    const bool is_off = values.is_set<"speculate">() && values.get<"speculate">() == 0;
    if (guesser.ok()) options.speculative_model_dir = is_off ? "" : std::move(guesser).value();
  }
  if (status.ok()) return check_text_files(values);
  return StartFailure{"ShardCannotStart", status.message(), cure, kExitModel};
}

Status add_script(const options::OptionValues& values,
                  runner::RunnerOptions& options,
                  telemetry::Logger& log) {
  const auto path = values.get<"script">();
  if (!path) return {};
  log.warn("--script is for tests: answers come from " + *path);
  COXSWAIN_ASSIGN_OR_RETURN(
      options.tokenizer,
      tokenizer::Tokenizer::load(options.model_dir,
                                 {.tokenizer_config_path = options.tokenizer_config_path}));
  COXSWAIN_ASSIGN_OR_RETURN(
      options.logits_processors[""],
      load_script(*path, std::make_shared<tokenizer::TokenizerCodec>(options.tokenizer)));
  return {};
}

// Whether the weights are to lie in the file that the launcher hands down.
void share_weights(runner::RunnerOptions& options, telemetry::Logger& log) {
  const auto file = inherited_weights(std::getenv(kWeightsFileVariable));
  if (!file.ok()) log.warn(file.status().message());
  if (!file.ok() || !*file) return;
  if (runner::LocalRunner::prefers_own_weights(options)) {
    log.info(
        "Weights are not shared with other replicas: shared memory gets no pages of 2 MiB here, "
        "and there is room for copies");
    return;
  }
  options.shared_weights_fd = (*file)->fd;
  options.sharers = (*file)->sharers;
}

// From other shards, where --weights-from names some; and to them.
void exchange_weights(const options::OptionValues& values,
                      runner::RunnerOptions& options,
                      telemetry::Logger& log) {
  options.weights_store = std::make_shared<weights::ImageStore>();
  peers::PeerWeightsOptions from;
  // One list may serve a whole fleet: a shard does not wait for itself.
  from.addresses = weights_sources(values);
  std::erase_if(from.addresses, [&](const std::string& address) {
    return rpc::path_of_url(address) == values.get<"uds-path">() + "-0";
  });
  from.peer_files = peer_files(values);
  from.piece_time_max = values.get<"weights-from-timeout-ms">();
  from.rate_max_bytes = values.get<"weights-rate-max-bytes">();
  from.on_event = [&log](const std::string& line) { log.info("Weights of other shards: " + line); };
  if (!from.addresses.empty())
    options.weights_source = std::make_shared<peers::PeerWeights>(std::move(from));
}

// What a load tells that has ended.
void report_load(const model::WeightCacheUse& cache,
                 const model::SharedWeights& shared,
                 const std::vector<std::string>& warnings,
                 std::uint32_t sharers,
                 telemetry::Logger& log) {
  for (const std::string& warning : warnings) log.warn(warning);
  if (const std::string text = packed_text(cache); !text.empty())
    log.info("Packed weights: " + text);
  if (const std::string text = shared_text(shared, sharers); !text.empty())
    log.info("Shared weights: " + text);
}

void report_start(const runner::LocalRunner& runner,
                  std::uint32_t sharers,
                  telemetry::Logger& log) {
  if (runner.arrives()) {
    for (const std::string& warning : runner.warnings()) log.warn(warning);
    log.info("Weights arrive while requests are served, layer by layer");
  } else {
    report_load(runner.weight_cache(), runner.shared_weights(), runner.warnings(), sharers, log);
  }
  if (const std::string text = runner.speculation(); !text.empty()) log.info(text);
  for (const std::string& line : runner.memory_plan().to_lines()) log.info(line);
}

// --plan: what the weights and the cache would get.
int print_plan(const options::OptionValues& values, telemetry::Logger& log) {
  runner::RunnerOptions options = runner_options(values);
  if (const auto failure = find_folders(values, options))
    return report(log, Status(Code::kNotFound, failure->cause), *failure);
  share_weights(options, log);
  const auto outlook = runner::LocalRunner::outlook(options);
  if (!outlook.ok()) return report(log, outlook.status(), model_failure(outlook.status()));
  std::printf("memory   %s\n", outlook->c_str());
  const Status fits = runner::LocalRunner::check_fits(options);
  return fits.ok() ? 0 : report(log, fits, model_failure(fits));
}

StartFailure bad_membership(const Status& status) {
  return {.variant = "ArgumentValidation",
          .cause = status.message(),
          .cure = "Correct this option, or leave out --etcd-endpoints.",
          .exit_code = kExitUsage};
}

// Null where no option names etcd.
Result<std::unique_ptr<membership::Registration>> enter_etcd(const options::OptionValues& values,
                                                             const runner::LocalRunner& runner,
                                                             int port,
                                                             telemetry::Logger& log) {
  if (!values.is_set<"etcd-endpoints">()) return std::unique_ptr<membership::Registration>();
  const membership::Member self = fleet_member(values, port, machine_name(), runner.info().epoch);
  return membership::open_registration(values, self, [&log, name = self.name](const Status& state) {
    if (state.ok()) {
      log.info("This shard stands in etcd as " + name);
    } else {
      log.warn("This shard cannot enter etcd, and tries again", {{"reason", state.message()}});
    }
  });
}

// Routers give it nothing more, and have the time to move what it has.
void leave_etcd(std::unique_ptr<membership::Registration> place,
                const runner::LocalRunner& runner) {
  place.reset();
  const TimePoint last = Clock::now() + kLeaveGrace;
  while (runner.state().sequences > 0 && Clock::now() < last)
    std::this_thread::sleep_for(kLeavePause);
}

// What can be refused before the weights are read, and the runner's options. Empty: nothing was; else the exit code.
std::optional<int> refuse(const options::OptionValues& values,
                          const std::string& path,
                          runner::RunnerOptions& options,
                          telemetry::Logger& log) {
  // A second server would find out too late.
  if (const Status free = rpc::SocketListener::check_free(path); !free.ok()) {
    return report(log, free, path_failure(free));
  }
  Status fleet = check_fleet_place(values);
  if (fleet.ok()) fleet = check_fleet_files(values, values.is_set<"fleet-listen">());
  if (!fleet.ok()) {
    return report(log,
                  fleet,
                  {.variant = "ArgumentValidation",
                   .cause = fleet.message(),
                   .cure = "Correct these options, or leave out --fleet-listen.",
                   .exit_code = kExitUsage});
  }
  options = runner_options(values);
  if (const auto failure = find_folders(values, options))
    return report(log, Status(Code::kNotFound, failure->cause), *failure);
  if (const Status status = add_script(values, options, log); !status.ok()) {
    return report(log,
                  status,
                  {.variant = "ArgumentValidation",
                   .cause = status.message(),
                   .cure = "Correct that file, or leave out --script.",
                   .exit_code = kExitUsage});
  }
  return std::nullopt;
}

rpc::ShardServiceOptions service_options_of(const options::OptionValues& values,
                                            const std::string& path) {
  rpc::ShardServiceOptions out;
  out.socket_path = path;
  out.fleet_address = values.get<"fleet-listen">().value_or("");
  out.peer_files = peer_files(values);
  out.ucx_networks = ucx_networks(values);
  out.step_time_max = values.get<"step-timeout-ms">();
  return out;
}

int serve(const options::OptionValues& values, const ServedAs& served_as, telemetry::Logger& log) {
  const bool is_member = values.is_set<"etcd-endpoints">();
  StopSignals signals({.grace = is_member ? kStopGrace + kLeaveGrace : kStopGrace,
                       .on_stop = [&](std::string_view reason) {
                         log.info("Exiting gracefully: " + std::string(reason));
                       }});
  const ParentWatch parent([&] { signals.request_stop("the launcher is gone", kStopGrace); });
  const std::string path = values.get<"uds-path">() + "-0";
  const SocketFolder folder(path);
  runner::RunnerOptions options;
  if (const auto code = refuse(values, path, options, log)) return *code;
  share_weights(options, log);
  if (const auto outlook = runner::LocalRunner::outlook(options); outlook.ok())
    log.info("Memory before the weights are read: " + *outlook);
  options.progress = LoadProgress(log, kProgressInterval);
  options.on_profile = [&log](const runner::StepReport& report) { log.info(report.text()); };
  exchange_weights(values, options, log);
  std::promise<Status> lost;  // kept where weights do not arrive
  options.on_weights = [&](const Result<model::LoadReport>& loaded) {
    if (loaded.ok()) {
      report_load(loaded->weight_cache, loaded->shared, loaded->warnings, options.sharers, log);
      log.info("All weights are there");
      return;
    }
    lost.set_value(loaded.status());
    signals.request_stop("the weights did not arrive");
  };
  // A load that goes on behind the start may fail at any time, and is not to end like a stop.
  if (options.weights_source != nullptr) signals.serve();
  auto runner = runner::LocalRunner::create(options);
  if (options.shared_weights_fd >= 0) close(options.shared_weights_fd);
  if (!runner.ok()) return report(log, runner.status(), model_failure(runner.status()));
  report_start(*runner.value(), options.sharers, log);
  signals.serve();
  const std::shared_ptr<const TextCodec> codec = runner.value()->codec();
  rpc::ShardServiceOptions service_options = service_options_of(values, path);
  service_options.weights = std::make_shared<peers::WeightsService>(
      options.weights_store, values.get<"weights-rate-max-bytes">());
  service_options.is_loading = [&] { return runner.value()->is_loading(); };
  const std::unique_ptr<StepRunner> instead = served_as ? served_as(*runner.value()) : nullptr;
  StepRunner& served = instead ? *instead : *runner.value();
  auto service = rpc::ShardService::start(served, *codec, service_options, log);
  if (!service.ok()) return report(log, service.status(), socket_failure(service.status()));
  log.info("Server started at unix://" + path);
  if (const int port = service.value()->fleet_port(); port != 0)
    log.info("Other machines reach it at port " + std::to_string(port));
  if (const Status status = write_status_file(facts_of(*runner.value())); !status.ok()) {
    return report(log, status, socket_failure(status));
  }
  auto place = enter_etcd(values, *runner.value(), service.value()->fleet_port(), log);
  if (!place.ok()) return report(log, place.status(), bad_membership(place.status()));
  signals.wait([&] { dump_state(*runner.value(), log); });
  if (*place != nullptr) leave_etcd(std::move(place).value(), *runner.value());
  service.value()->stop();
  auto failure = lost.get_future();
  if (failure.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return 0;
  // At once: a stop ends with code 0 when its time is over.
  const Status why = failure.get();
  std::_Exit(report(log, why, model_failure(why)));
}

}  // namespace

int run_shard(int argc, const char* const* argv, const ServedAs& served_as) {
  const options::ParseResult parsed =
      options::parse(options::Binary::kServer, argc, argv, options::environment_of(environ));
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  telemetry::Logger log({.level = telemetry::parse_level(parsed.values.get<"logger-level">()),
                         .json = parsed.values.get<"json-output">(),
                         .target = "text_generation_server"});
  for (const std::string& warning : parsed.warnings) log.warn(warning);
  return parsed.values.get<"plan">() ? print_plan(parsed.values, log)
                                     : serve(parsed.values, served_as, log);
}

}  // namespace coxswain::serve
