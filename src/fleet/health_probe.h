#pragma once
// HealthProbe: one token through queue, scheduler and shard, when nothing else proves that they work.
//
// A shard may answer its health call and yet compute nothing. Real steps show that it does; while
// there are none, and somebody asks for the health, a request of one token is made once per
// interval. Nobody asks: nothing runs. Whether a probe that does not come back is too late is the
// engine's watchdog to say.
//
// Thread rule: one thread; the engine may outlive the probe.

#include <chrono>
#include <memory>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "batch/engine.h"

namespace coxswain::fleet {

class HealthProbe {
 public:
  HealthProbe(batch::Engine& engine, std::chrono::milliseconds interval)
      : engine_(engine), interval_(interval) {}

  // Looks once and starts a probe if one is due. `asked`: somebody wants to know.
  // What the last probe said, until a step or another probe goes well: ok, or kInternal.
  Status look(TimePoint now, bool asked);
  // The runner is another one, or there is none.
  void forget();

 private:
  class Sink;
  void take_result(TimePoint now);

  batch::Engine& engine_;
  const std::chrono::milliseconds interval_;
  std::shared_ptr<Sink> running_;
  RequestId running_id_{};
  Status last_;
  TimePoint last_good_{};
  TimePoint failed_at_{};
  std::uint64_t n_probes_ = 0;
};

}  // namespace coxswain::fleet
