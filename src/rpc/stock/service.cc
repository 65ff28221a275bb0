#include "rpc/stock/service.h"

#include <utility>

#include <grpcpp/grpcpp.h>
#include <proto/generate_v2.grpc.pb.h>
#include <proto/generate_v3.grpc.pb.h>

#include "rpc/runner_gate.h"
#include "rpc/stock/batches.h"
#include "telemetry/log.h"

namespace coxswain::rpc {

namespace {

namespace v2 = ::generate::v2;
namespace v3 = ::generate::v3;

// What both versions stand on.
class StockShard {
 public:
  explicit StockShard(StockServiceParts parts)
      : parts_(std::move(parts)),
        batches_(parts_.runner,
                 parts_.codec,
                 {.rank = parts_.rank,
                  .n_ranks = static_cast<std::uint32_t>(parts_.peer_paths.size())}) {
    parts_.gate.on_stream_open([this] { batches_.drop_all(); });
  }

  // Runs `call` on the batches unless an Engine stream has the runner. Stock routers know one code
  // for every failure.
  template <typename Call>
  grpc::Status with_batches(const char* name, Call&& call) {
    auto turn = parts_.gate.begin_stock_call();
    const Status status = turn.ok() ? call(batches_) : turn.status();
    if (status.ok()) return grpc::Status::OK;
    parts_.log.error("a call of a router failed", {{"method", name}, {"error", status.message()}});
    return {grpc::StatusCode::INTERNAL, status.message()};
  }

  grpc::Status health() const {
    const Status status = parts_.runner.healthy();
    return status.ok() ? grpc::Status::OK
                       : grpc::Status(grpc::StatusCode::INTERNAL, status.message());
  }

  RunnerInfo info() const { return parts_.runner.info(); }
  const std::vector<std::string>& peer_paths() const { return parts_.peer_paths; }

 private:
  StockServiceParts parts_;
  StockBatches batches_;
};

void describe(const RunnerInfo& info, v3::InfoResponse& to) {
  to.set_requires_padding(false);
  to.set_dtype("torch." + info.dtype);
  to.set_device_type(info.device_type);
  to.set_speculate(info.capabilities.draft_tokens_max);
  to.set_support_chunking(info.capabilities.plans_chunks);
  // A router that caches prefixes may send a prompt that is cached whole, which leaves nothing to
  // compute the next token from.
  to.set_use_prefix_caching(false);
  to.set_attention_impl("paged");
  to.set_block_size(info.block_tokens);
  to.set_engine_version(info.engine_version);
}

class V3Service final : public v3::TextGenerationService::Service {
 public:
  explicit V3Service(std::shared_ptr<StockShard> shard) : shard_(std::move(shard)) {}

  grpc::Status ServiceDiscovery(grpc::ServerContext*,
                                const v3::ServiceDiscoveryRequest*,
                                v3::ServiceDiscoveryResponse* response) override {
    for (const std::string& path : shard_->peer_paths()) response->add_urls("unix://" + path);
    return grpc::Status::OK;
  }
  grpc::Status Info(grpc::ServerContext*,
                    const v3::InfoRequest*,
                    v3::InfoResponse* response) override {
    describe(shard_->info(), *response);
    return grpc::Status::OK;
  }
  grpc::Status Health(grpc::ServerContext*,
                      const v3::HealthRequest*,
                      v3::HealthResponse*) override {
    return shard_->health();
  }
  grpc::Status Warmup(grpc::ServerContext*,
                      const v3::WarmupRequest* request,
                      v3::WarmupResponse* response) override {
    return shard_->with_batches(
        "Warmup", [&](StockBatches& batches) { return batches.warmup(*request, *response); });
  }
  grpc::Status Prefill(grpc::ServerContext*,
                       const v3::PrefillRequest* request,
                       v3::PrefillResponse* response) override {
    return shard_->with_batches(
        "Prefill", [&](StockBatches& batches) { return batches.prefill(*request, *response); });
  }
  grpc::Status Decode(grpc::ServerContext*,
                      const v3::DecodeRequest* request,
                      v3::DecodeResponse* response) override {
    return shard_->with_batches(
        "Decode", [&](StockBatches& batches) { return batches.decode(*request, *response); });
  }
  grpc::Status FilterBatch(grpc::ServerContext*,
                           const v3::FilterBatchRequest* request,
                           v3::FilterBatchResponse* response) override {
    return shard_->with_batches(
        "FilterBatch", [&](StockBatches& batches) { return batches.filter(*request, *response); });
  }
  grpc::Status ClearCache(grpc::ServerContext*,
                          const v3::ClearCacheRequest* request,
                          v3::ClearCacheResponse*) override {
    return shard_->with_batches("ClearCache",
                                [&](StockBatches& batches) { return batches.clear(*request); });
  }

 private:
  const std::shared_ptr<StockShard> shard_;
};

// A v2 message has the numbers and types of v3: its bytes are read as one, and the answer goes back
// in the same way.
template <typename To, typename From>
bool reread(const From& from, To& to) {
  if (!to.ParseFromString(from.SerializeAsString())) return false;
  to.DiscardUnknownFields();
  return true;
}

// Prompts of v2 always get the special tokens; blocks are ours to choose.
void complete(v3::Batch& batch) {
  for (v3::Request& request : *batch.mutable_requests()) request.set_add_special_tokens(true);
}

class V2Service final : public v2::TextGenerationService::Service {
 public:
  explicit V2Service(std::shared_ptr<StockShard> shard) : shard_(std::move(shard)) {}

  grpc::Status ServiceDiscovery(grpc::ServerContext*,
                                const v2::ServiceDiscoveryRequest*,
                                v2::ServiceDiscoveryResponse* response) override {
    for (const std::string& path : shard_->peer_paths()) response->add_urls("unix://" + path);
    return grpc::Status::OK;
  }
  grpc::Status Info(grpc::ServerContext*,
                    const v2::InfoRequest*,
                    v2::InfoResponse* response) override {
    v3::InfoResponse info;
    describe(shard_->info(), info);
    return reread(info, *response) ? grpc::Status::OK : unreadable();
  }
  grpc::Status Health(grpc::ServerContext*,
                      const v2::HealthRequest*,
                      v2::HealthResponse*) override {
    return shard_->health();
  }
  grpc::Status Warmup(grpc::ServerContext*,
                      const v2::WarmupRequest* request,
                      v2::WarmupResponse* response) override {
    return translate<v3::WarmupRequest, v3::WarmupResponse>(
        "Warmup",
        *request,
        *response,
        [](StockBatches& batches, auto& v3_request, auto& v3_response) {
          complete(*v3_request.mutable_batch());
          return batches.warmup(v3_request, v3_response);
        });
  }
  grpc::Status Prefill(grpc::ServerContext*,
                       const v2::PrefillRequest* request,
                       v2::PrefillResponse* response) override {
    return translate<v3::PrefillRequest, v3::PrefillResponse>(
        "Prefill",
        *request,
        *response,
        [](StockBatches& batches, auto& v3_request, auto& v3_response) {
          complete(*v3_request.mutable_batch());
          return batches.prefill(v3_request, v3_response);
        });
  }
  grpc::Status Decode(grpc::ServerContext*,
                      const v2::DecodeRequest* request,
                      v2::DecodeResponse* response) override {
    return translate<v3::DecodeRequest, v3::DecodeResponse>(
        "Decode",
        *request,
        *response,
        [](StockBatches& batches, auto& v3_request, auto& v3_response) {
          return batches.decode(v3_request, v3_response);
        });
  }
  grpc::Status FilterBatch(grpc::ServerContext*,
                           const v2::FilterBatchRequest* request,
                           v2::FilterBatchResponse* response) override {
    return translate<v3::FilterBatchRequest, v3::FilterBatchResponse>(
        "FilterBatch",
        *request,
        *response,
        [](StockBatches& batches, auto& v3_request, auto& v3_response) {
          return batches.filter(v3_request, v3_response);
        });
  }
  grpc::Status ClearCache(grpc::ServerContext*,
                          const v2::ClearCacheRequest* request,
                          v2::ClearCacheResponse* response) override {
    return translate<v3::ClearCacheRequest, v3::ClearCacheResponse>(
        "ClearCache", *request, *response, [](StockBatches& batches, auto& v3_request, auto&) {
          return batches.clear(v3_request);
        });
  }

 private:
  static grpc::Status unreadable() {
    return {grpc::StatusCode::INTERNAL, "the message cannot be translated"};
  }

  template <typename V3Request,
            typename V3Response,
            typename Request,
            typename Response,
            typename Call>
  grpc::Status translate(const char* name,
                         const Request& request,
                         Response& response,
                         Call&& call) {
    V3Request v3_request;
    if (!reread(request, v3_request)) return unreadable();
    V3Response v3_response;
    grpc::Status status = shard_->with_batches(
        name, [&](StockBatches& batches) { return call(batches, v3_request, v3_response); });
    if (!status.ok()) return status;
    return reread(v3_response, response) ? grpc::Status::OK : unreadable();
  }

  const std::shared_ptr<StockShard> shard_;
};

}  // namespace

std::vector<std::shared_ptr<grpc::Service>> make_stock_services(StockServiceParts parts) {
  auto shard = std::make_shared<StockShard>(std::move(parts));
  return {std::make_shared<V3Service>(shard), std::make_shared<V2Service>(shard)};
}

}  // namespace coxswain::rpc
