#include "rpc/stock_service.h"

#include <utility>

#include <grpcpp/grpcpp.h>
#include <proto/generate_v3.grpc.pb.h>

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;

// Stock routers know one code for every failure.
grpc::Status to_grpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {grpc::StatusCode::INTERNAL, status.message()};
}

class V3Service final : public v3::TextGenerationService::Service {
 public:
  explicit V3Service(StockServiceParts parts) : parts_(std::move(parts)) {}

  grpc::Status ServiceDiscovery(grpc::ServerContext*,
                                const v3::ServiceDiscoveryRequest*,
                                v3::ServiceDiscoveryResponse* response) override {
    for (const std::string& path : parts_.peer_paths) response->add_urls("unix://" + path);
    return grpc::Status::OK;
  }

  grpc::Status Info(grpc::ServerContext*,
                    const v3::InfoRequest*,
                    v3::InfoResponse* response) override {
    const RunnerInfo info = parts_.runner.info();
    response->set_dtype("torch." + info.dtype);
    response->set_device_type(info.device_type);
    response->set_support_chunking(info.capabilities.plans_chunks);
    response->set_attention_impl("paged");
    response->set_block_size(info.block_tokens);
    response->set_engine_version(info.engine_version);
    return grpc::Status::OK;
  }

  grpc::Status Health(grpc::ServerContext*,
                      const v3::HealthRequest*,
                      v3::HealthResponse*) override {
    return to_grpc(parts_.runner.healthy());
  }

 private:
  const StockServiceParts parts_;
};

}  // namespace

std::vector<std::shared_ptr<grpc::Service>> make_stock_services(StockServiceParts parts) {
  return {std::make_shared<V3Service>(std::move(parts))};
}

}  // namespace coxswain::rpc
