#pragma once
// The shard's side of a stream of plans, whatever carries it: gRPC, or a socket of its own (step_sockets.h).
//
// A stream has two threads: the caller's reads plans, checks them and submits them to the runner as they come, which so
// has the next one when a step ends; a second one waits and writes the answers in order. A plan that is wrong is
// answered with a failure and never reaches the runner. When a stream ends for any reason, its sequences are dropped
// before the runner is given to anybody else.
//
// Thread rule: each stream has a thread; RunnerGate keeps the runner to one of them. A runner that is served takes
// submit() while another thread is within wait().

#include <cstddef>

#include <coxswain/step_runner.h>

#include "telemetry/log.h"

namespace coxswain::engine::v1 {
class StepsRequest;
class StepsResponse;
}  // namespace coxswain::engine::v1

namespace coxswain::rpc {

class AttachmentOwners;
class KeptAttachments;
class RunnerGate;

class StepCarrier {
 public:
  virtual ~StepCarrier() = default;
  // The next plan. False: none comes any more. By one thread.
  virtual bool read(engine::v1::StepsRequest& to) = 0;
  // Waits until the message is on its way. False: the peer is gone. By one other thread.
  virtual bool write(const engine::v1::StepsResponse& from) = 0;
  // Ends both, from any thread.
  virtual void cut() = 0;
};

// All outlive the streams.
struct StepStreamParts {
  StepRunner& runner;
  RunnerGate& gate;
  KeptAttachments& kept;
  AttachmentOwners& owners;
  std::size_t message_bytes_max;
  telemetry::Logger& log;
};

// Waits for the runner, and then serves until the stream has ended. False: a newer stream came while it waited.
bool serve_steps(const StepStreamParts& parts, StepCarrier& carrier);

}  // namespace coxswain::rpc
