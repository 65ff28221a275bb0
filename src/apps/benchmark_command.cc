#include "apps/benchmark_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "apps/environment.h"
#include "measure/batch_run.h"
#include "measure/settings.h"
#include "measure/shard.h"
#include "measure/tables.h"
#include "options/options.h"
#include "serve/model_source.h"
#include "serve/start_failure.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::apps {
namespace {

// A line for each batch size; on a terminal one that changes with each run.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (is_open_) std::fputc('\n', stderr);
  }

  void show(std::uint32_t batch_size, std::uint32_t n_done, std::uint32_t n_all) {
    const bool is_done = n_done == n_all;
    if (!lives_ && !is_done) return;
    std::fprintf(stderr,
                 "%sbatch size %u: %u of %u runs%s",
                 lives_ ? "\r\x1b[K" : "",
                 batch_size,
                 n_done,
                 n_all,
                 is_done ? "\n" : "");
    is_open_ = !is_done;
  }

 private:
  const bool lives_ = isatty(STDERR_FILENO) != 0;
  bool is_open_ = false;  // the line has no end yet
};

std::string model_path(const measure::Settings& settings) {
  const serve::HubCache hub{.folder = hub_cache_folder(), .revision = settings.revision};
  return serve::find_model(settings.tokenizer_name, serve::program_folder(), hub).folder;
}

// The runner is lost, and why that may be.
Status with_hint(const Status& status) {
  if (status.code() != Code::kUnavailable) return status;
  return {status.code(),
          status.kind(),
          status.message() +
              "; a router that uses the shard takes it back, so start one without: "
              "text-generation-server serve MODEL"};
}

Result<measure::BatchSamples> measure_batch(measure::BatchRuns& runs,
                                            const measure::Settings& settings,
                                            const measure::BatchSpec& spec) {
  Progress progress;
  measure::BatchSamples out{.batch_size = spec.n_sequences};
  for (std::uint32_t i = 0; i < settings.warmups; ++i)
    COXSWAIN_RETURN_IF_ERROR(runs.run(spec).status());
  for (std::uint32_t i = 0; i < settings.runs; ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(const measure::BatchTimes times, runs.run(spec));
    measure::add_run(times, settings, out);
    progress.show(spec.n_sequences, i + 1, settings.runs);
  }
  return out;
}

Status measure_all(const measure::Settings& settings,
                   std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  measure::BatchSpec spec{.decode_length = settings.decode_length, .sampling = settings.sampling()};
  COXSWAIN_ASSIGN_OR_RETURN(spec.prompt,
                            measure::make_prompt(*tokenizer, settings.sequence_length));
  COXSWAIN_ASSIGN_OR_RETURN(const auto runner,
                            measure::connect_shard(settings, std::move(tokenizer)));
  measure::BatchRuns runs(*runner);
  for (const std::uint32_t size : settings.batch_sizes)
    COXSWAIN_RETURN_IF_ERROR(
        runs.check_room(size, settings.sequence_length, settings.decode_length));
  std::vector<measure::BatchSamples> samples;
  for (const std::uint32_t size : settings.batch_sizes) {
    spec.n_sequences = size;
    auto batch = measure_batch(runs, settings, spec);
    if (!batch.ok()) return with_hint(batch.status());
    samples.push_back(std::move(batch).value());
  }
  std::printf("%s\n%s\n%s",
              measure::parameters_table(settings).c_str(),
              measure::latencies_table(samples).c_str(),
              measure::throughputs_table(samples).c_str());
  return {};
}

int failure(const Status& status, int exit_code) {
  std::fprintf(stderr, "text-generation-benchmark: %s\n", status.message().c_str());
  return exit_code;
}

}  // namespace

int run_benchmark(int argc, char** argv) {
  const auto parsed =
      options::parse(options::Binary::kBenchmark, argc, argv, options::environment_of(environ));
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  const auto settings = measure::settings_of(parsed.values);
  if (!settings.ok()) return failure(settings.status(), serve::kExitUsage);
  for (const std::string& warning : parsed.warnings)
    std::fprintf(stderr, "text-generation-benchmark: %s\n", warning.c_str());
  auto tokenizer = tokenizer::Tokenizer::load(model_path(*settings));
  if (!tokenizer.ok())
    return failure(tokenizer.status().with_context("--tokenizer-name"), serve::kExitModel);
  const Status status = measure_all(*settings, std::move(tokenizer).value());
  if (status.ok() && std::fflush(stdout) != 0)
    return failure(internal_error("the tables cannot be written"), serve::kExitFailure);
  if (status.ok()) return 0;
  const bool is_usage = status.code() == Code::kInvalidArgument;
  return failure(status, is_usage ? serve::kExitUsage : serve::kExitFailure);
}

}  // namespace coxswain::apps
