#pragma once
// The gRPC services generate.v3 and generate.v2 of text-generation-inference over any StepRunner:
// transport only. What the calls mean stands in batches.h.
//
// Thread rule: gRPC calls them from any thread; RunnerGate lets one call at a time reach the runner.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

namespace grpc {
class Service;
}  // namespace grpc

namespace coxswain::telemetry {
class Logger;
}  // namespace coxswain::telemetry

namespace coxswain::rpc {

class RunnerGate;

// Everything must outlive the services.
struct StockServiceParts {
  StepRunner& runner;
  const TextCodec& codec;
  RunnerGate& gate;
  std::vector<std::string> peer_paths;  // of all ranks, in their order
  std::uint32_t rank = 0;
  telemetry::Logger& log;
};

// Both versions share one set of batches.
std::vector<std::shared_ptr<grpc::Service>> make_stock_services(StockServiceParts parts);

}  // namespace coxswain::rpc
