#include "serve/shard/shard_process.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "options/options.h"
#include "rpc/shard_service.h"
#include "rpc/socket_listener.h"
#include "runner/local_runner.h"
#include "serve/model_source.h"
#include "serve/parent_watch.h"
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

Status add_script(const std::string& path, runner::RunnerOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(
      options.tokenizer,
      tokenizer::Tokenizer::load(options.model_dir,
                                 {.tokenizer_config_path = options.tokenizer_config_path}));
  COXSWAIN_ASSIGN_OR_RETURN(
      options.logits_processors[""],
      load_script(path, std::make_shared<tokenizer::TokenizerCodec>(options.tokenizer)));
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

int serve(const options::OptionValues& values, telemetry::Logger& log) {
  StopSignals signals({.grace = kStopGrace, .on_stop = [&](std::string_view reason) {
                         log.info("Exiting gracefully: " + std::string(reason));
                       }});
  const ParentWatch parent([&] { signals.request_stop("the launcher is gone", kStopGrace); });
  // Before the weights are read: a second server would find out too late.
  const std::string path = values.get<"uds-path">() + "-0";
  const SocketFolder folder(path);
  if (const Status free = rpc::SocketListener::check_free(path); !free.ok()) {
    return report(log, free, path_failure(free));
  }
  runner::RunnerOptions options = runner_options(values);
  if (const auto failure = find_folders(values, options))
    return report(log, Status(Code::kNotFound, failure->cause), *failure);
  if (const auto script = values.get<"script">()) {
    log.warn("--script is for tests: answers come from " + *script);
    if (const Status status = add_script(*script, options); !status.ok()) {
      return report(log,
                    status,
                    {.variant = "ArgumentValidation",
                     .cause = status.message(),
                     .cure = "Correct that file, or leave out --script.",
                     .exit_code = kExitUsage});
    }
  }
  share_weights(options, log);
  if (const auto outlook = runner::LocalRunner::outlook(options); outlook.ok())
    log.info("Memory before the weights are read: " + *outlook);
  options.progress = LoadProgress(log, kProgressInterval);
  options.on_profile = [&log](const runner::StepReport& report) { log.info(report.text()); };
  auto runner = runner::LocalRunner::create(options);
  if (options.shared_weights_fd >= 0) close(options.shared_weights_fd);
  if (!runner.ok()) return report(log, runner.status(), model_failure(runner.status()));
  for (const std::string& warning : runner.value()->warnings()) log.warn(warning);
  if (const std::string text = packed_text(runner.value()->weight_cache()); !text.empty())
    log.info("Packed weights: " + text);
  if (const std::string text = shared_text(runner.value()->shared_weights(), options.sharers);
      !text.empty())
    log.info("Shared weights: " + text);
  if (const std::string text = runner.value()->speculation(); !text.empty()) log.info(text);
  for (const std::string& line : runner.value()->memory_plan().to_lines()) log.info(line);

  signals.serve();
  const std::shared_ptr<const TextCodec> codec = runner.value()->codec();
  rpc::ShardServiceOptions service_options;
  service_options.socket_path = path;
  service_options.step_time_max = values.get<"step-timeout-ms">();
  auto service = rpc::ShardService::start(*runner.value(), *codec, service_options, log);
  if (!service.ok()) return report(log, service.status(), socket_failure(service.status()));
  log.info("Server started at unix://" + path);
  if (const Status status = write_status_file(facts_of(*runner.value())); !status.ok()) {
    return report(log, status, socket_failure(status));
  }
  signals.wait([&] { dump_state(*runner.value(), log); });
  service.value()->stop();
  return 0;
}

}  // namespace

int run_shard(int argc, const char* const* argv) {
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
  return parsed.values.get<"plan">() ? print_plan(parsed.values, log) : serve(parsed.values, log);
}

}  // namespace coxswain::serve
