#pragma once
// The gRPC service coxswain.engine.v1.Engine over any StepRunner.
//
// Each Steps stream has two threads: that of the call reads plans and checks them, a second one
// submits them to the runner, waits, and writes the answers in order. A plan that is wrong is
// answered with a failure and never reaches the runner. When a stream ends for any reason, its
// sequences are dropped before the runner is given to anybody else.
//
// Thread rule: gRPC calls it from any thread; RunnerGate keeps the runner to one of them.

#include <cstddef>
#include <memory>

#include <coxswain/step_runner.h>

#include "security/peer_files.h"
#include "telemetry/log.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace coxswain::rpc {

class KeptAttachments;
class RunnerGate;
class UcxCarrier;
class WeightsSender;

// All outlive the service.
struct EngineServiceParts {
  StepRunner& runner;
  RunnerGate& gate;
  KeptAttachments& kept;
  UcxCarrier* ucx = nullptr;         // null: blocks go over gRPC alone
  WeightsSender* weights = nullptr;  // null: none are sent
  telemetry::Logger& log;
};

// `peer_files`: what it shows to shards from which it takes what they offer; without them it cannot.
std::shared_ptr<grpc::Service> make_engine_service(const EngineServiceParts& parts,
                                                   const security::PeerFiles& peer_files,
                                                   std::size_t message_bytes_max);

}  // namespace coxswain::rpc
