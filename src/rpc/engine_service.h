#pragma once
// The gRPC service coxswain.engine.v1.Engine over any StepRunner.
//
// Thread rule: gRPC calls it from any thread.

#include <memory>

#include "rpc/step_stream.h"
#include "security/peer_files.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace coxswain::rpc {

class UcxCarrier;
class WeightsSender;

// All outlive the service.
struct EngineServiceParts {
  StepStreamParts steps;
  UcxCarrier* ucx = nullptr;         // null: blocks go over gRPC alone
  WeightsSender* weights = nullptr;  // null: none are sent
};

// `peer_files`: what it shows to shards from which it takes what they offer; without them it cannot.
std::shared_ptr<grpc::Service> make_engine_service(const EngineServiceParts& parts,
                                                   const security::PeerFiles& peer_files);

}  // namespace coxswain::rpc
