#pragma once
// WeightsSender: what answers the call Engine.Weights. An interface, because routers speak the protocol, too, and they
// have no weights to send.
//
// Thread rule: any thread.

#include <coxswain/status.h>

namespace grpc {
class ServerContext;
template <class W>
class ServerWriter;
}  // namespace grpc

namespace coxswain::engine::v1 {
class WeightsPart;
class WeightsRequest;
}  // namespace coxswain::engine::v1

namespace coxswain::rpc {

class WeightsSender {
 public:
  virtual ~WeightsSender() = default;

  // Until all is sent or the receiver has gone. Errors are for the receiver.
  virtual Status send(grpc::ServerContext& context,
                      const engine::v1::WeightsRequest& request,
                      grpc::ServerWriter<engine::v1::WeightsPart>& writer) = 0;
};

}  // namespace coxswain::rpc
