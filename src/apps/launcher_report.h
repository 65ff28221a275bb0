#pragma once
// What the launcher shows: the children's log lines in its own log, the start-up block, and the two
// lines of a failed start.

#include <string>
#include <string_view>

#include "apps/launcher_plan.h"
#include "json/json.h"
#include "supervise/supervisor.h"
#include "telemetry/log.h"

namespace coxswain::apps {

// Shard lines are JSON records and come out under their own level; lines that are no record are
// kept as they are, at info level. Router lines were formatted by the router and are copied. A line
// of standard error that starts with "Error: " is remembered.
class LogForwarder {
 public:
  explicit LogForwarder(telemetry::Logger& log) : log_(log) {}

  void on_line(const std::string& service, supervise::Stream stream, std::string_view line);
  // The text of the last "Error: ..." line that a child printed; empty if none did.
  const std::string& last_error() const { return last_error_; }

 private:
  telemetry::Logger& log_;
  std::string last_error_;
};

// The block shown once everything serves: model, type, instruction set, memory plan, limits, URL
// and a curl to paste. `shard` and `router` are the status files' objects.
std::string startup_block(const std::string& model_id,
                          const json::Value& shard,
                          const json::Value& router);

}  // namespace coxswain::apps
