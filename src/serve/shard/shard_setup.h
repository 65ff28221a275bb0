#pragma once
// From options to the settings of the shard, and from what kept it from starting to a cause, a cure and an exit code.
//
// Thread rule: pure functions.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "json/json.h"
#include "options/options.h"
#include "runner/local_runner.h"
#include "serve/start_failure.h"
#include "telemetry/log.h"

namespace coxswain::serve {

// Tells the log how far the weights are, how fast and until when, every `interval`. RunnerOptions::progress.
class LoadProgress {
 public:
  LoadProgress(telemetry::Logger& log, std::chrono::milliseconds interval)
      : log_(&log), interval_(interval), began_(Clock::now()), next_(began_ + interval) {}

  void operator()(std::uint64_t done, std::uint64_t total);

 private:
  telemetry::Logger* log_;
  std::chrono::milliseconds interval_;
  TimePoint began_;
  TimePoint next_;
};

// "1.20 GiB read from /w/12ab.weights in 0.31 s": which packed weights were found and which were left. Empty without
// --weights-cache-dir.
std::string packed_text(const model::WeightCacheUse& use);

// "1.20 GiB of 4 replicas, filled in 2.31 s, 1.20 GiB in pages of 2 MiB". Empty where nothing is shared.
std::string shared_text(const model::SharedWeights& use, std::uint32_t sharers);

// The words of --weights-from.
std::vector<std::string> weights_sources(const options::OptionValues& values);

runner::RunnerOptions runner_options(const options::OptionValues& values);

// The model could not be loaded: its files are at fault (kExitModel), or the memory.
StartFailure model_failure(const Status& status);
// The path of the socket is too long, in use by another server, or of a folder that cannot be written to.
StartFailure path_failure(const Status& status);
// The socket could not be served, or the status file not written.
StartFailure socket_failure(const Status& status);

// What the status file tells about the runner; the launcher shows it.
json::Object facts_of(const runner::LocalRunner& runner);

}  // namespace coxswain::serve
