#include <grpcpp/grpcpp.h>

#include "otlp/collector.h"
#include "proto/otlp_trace.grpc.pb.h"

namespace coxswain::otlp {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

// By the protocol's table of codes that may be tried again.
bool may_pass(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

class GrpcCollector final : public Collector {
 public:
  explicit GrpcCollector(const std::string& target,
                         const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : stub_(wire::TraceService::NewStub(grpc::CreateChannel(target, credentials))) {}

  Status send(const TraceRequest& request, std::chrono::milliseconds patience) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    wire::ExportTraceServiceResponse response;
    const grpc::Status status = stub_->Export(&context, request, &response);
    if (status.ok()) return {};
    return {may_pass(status.error_code()) ? Code::kUnavailable : Code::kInvalidArgument,
            status.error_message()};
  }

 private:
  std::unique_ptr<wire::TraceService::Stub> stub_;
};

}  // namespace

std::unique_ptr<Collector> make_grpc_collector(const std::string& endpoint) {
  constexpr std::string_view kSecure = "https://";
  const bool secure = endpoint.starts_with(kSecure);
  std::string target = endpoint.substr(secure ? kSecure.size() : kSecure.size() - 1);
  target.resize(target.find('/') == std::string::npos ? target.size() : target.find('/'));
  return std::make_unique<GrpcCollector>(target,
                                         secure
                                             ? grpc::SslCredentials(grpc::SslCredentialsOptions{})
                                             : grpc::InsecureChannelCredentials());
}

}  // namespace coxswain::otlp
