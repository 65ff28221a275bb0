#pragma once
// What the launcher shows: the children's log lines in its own log, the start-up block, and the two
// lines of a failed start.
//
// Thread rule: one thread.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "json/json.h"
#include "options/options.h"
#include "serve/start_failure.h"
#include "supervise/supervisor.h"
#include "telemetry/log.h"

namespace coxswain::serve {

// Shard lines are JSON records and come out under their own level; lines that are no record are
// kept as they are, at info level. Router lines were formatted by the router and are copied. The
// two lines of a failed start are remembered.
class LogForwarder {
 public:
  explicit LogForwarder(telemetry::Logger& log) : log_(log) {}

  void on_line(const std::string& service, supervise::Stream stream, std::string_view line);
  // What the last child that could not start said about it.
  const std::optional<StartFailure>& last_failure() const { return last_failure_; }

 private:
  telemetry::Logger& log_;
  std::optional<StartFailure> last_failure_;
  std::string awaits_cure_from_;  // service whose next line belongs to last_failure_
};

// What was set, as on a command line, keys left out: "--model-id=demo --port=3000".
std::string given_options(const options::OptionValues& values);

// "1.234s"
std::string seconds_text(std::chrono::milliseconds time);

// Why the launcher itself ends without having been asked to. `said`: what the child at fault said about its own start.
StartFailure failure_of(const supervise::RunResult& result,
                        const std::optional<StartFailure>& said);

// The block shown once everything serves: model, type, instruction set, memory plan, limits, URL
// and a curl to paste. `shard` and `router` are the status files' objects; of several replicas, that of the first.
std::string startup_block(const std::string& model_id,
                          std::size_t n_replicas,
                          const json::Value& shard,
                          const json::Value& router);

}  // namespace coxswain::serve
