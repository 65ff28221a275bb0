#include "apps/quantize_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/cpu_topology.h"
#include "quantize/command_line.h"
#include "serve/model_source.h"
#include "serve/start_failure.h"
#include "telemetry/log.h"

namespace coxswain::apps {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

int failure(const Status& status, int exit_code) {
  std::fprintf(stderr, "quantize: %s\n", status.message().c_str());
  return exit_code;
}

std::string folder_of(const quantize::Command& command) {
  serve::HubCache hub;
  hub.folder = serve::hub_cache_folder(
      variable("HUGGINGFACE_HUB_CACHE"), variable("HF_HUB_CACHE"), variable("HF_HOME"));
  if (!command.revision.empty()) hub.revision = command.revision;
  return serve::find_model(command.options.model_dir, serve::program_folder(), hub).folder;
}

}  // namespace

int quantize_model(std::span<const std::string_view> words) {
  auto command = quantize::parse_command(words);
  if (!command.ok()) return failure(command.status(), serve::kExitUsage);
  if (command->asks_for_help) {
    std::fwrite(quantize::usage().data(), 1, quantize::usage().size(), stdout);
    return 0;
  }
  quantize::QuantizeOptions& options = command->options;
  options.model_dir = folder_of(*command);
  if (options.n_threads == 0)
    options.n_threads = std::max<std::size_t>(base::order_by_core(base::allowed_cpus()).n_cores, 1);
  telemetry::Logger log({.level = telemetry::parse_level(command->log_level),
                         .json = command->log_json,
                         .target = "text_generation_server"});
  const Status status =
      quantize::quantize(options, [&](const std::string& line) { log.info(line); });
  if (status.ok()) return 0;
  const bool is_model = status.code() == Code::kNotFound ||
                        status.code() == Code::kInvalidArgument ||
                        status.code() == Code::kDataLoss || status.code() == Code::kUnimplemented;
  return failure(status, is_model ? serve::kExitModel : serve::kExitFailure);
}

}  // namespace coxswain::apps
