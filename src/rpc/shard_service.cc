#include "rpc/shard_service.h"

#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include "rpc/attachment_owners.h"
#include "rpc/engine_service.h"
#include "rpc/kept_attachments.h"
#include "rpc/peer_channel.h"
#include "rpc/runner_gate.h"
#include "rpc/socket_listener.h"
#include "rpc/step_socket.h"
#include "rpc/step_sockets.h"
#include "rpc/step_stream.h"
#include "rpc/stock/service.h"
#include "rpc/ucx_carrier.h"
#include "rpc/watched_runner.h"

namespace coxswain::rpc {

struct ShardService::Impl {
  Impl(StepRunner& runner,
       const TextCodec& codec,
       const ShardServiceOptions& options_in,
       telemetry::Logger& log)
      : options(options_in),
        watched(runner, options.step_time_max, Clock::now, options.is_loading),
        steps{.runner = watched,
              .gate = gate,
              .kept = kept,
              .owners = owners,
              .message_bytes_max = options.message_bytes_max,
              .log = log} {
    std::vector<std::string> peers = options.peer_paths;
    if (peers.empty()) peers.push_back(options.socket_path);
    stock = make_stock_services({.runner = watched,
                                 .codec = codec,
                                 .gate = gate,
                                 .peer_paths = std::move(peers),
                                 .rank = options.rank,
                                 .log = log});
  }

  Status open(telemetry::Logger& log) {
    if (!options.ucx_networks.empty()) {
      COXSWAIN_ASSIGN_OR_RETURN(
          ucx,
          start_ucx({.networks = options.ucx_networks,
                     .redeem = [this](std::uint64_t id, std::string_view ticket) {
                       return kept.redeem(id, ticket);
                     }}));
      log.info("Blocks may go by UCX, unencrypted", {{"address", ucx->address()}});
    }
    engine = make_engine_service(
        {.steps = steps, .ucx = ucx.get(), .weights = options.weights.get()}, options.peer_files);
    grpc::ServerBuilder builder;
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
    builder.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
    builder.SetResourceQuota(
        grpc::ResourceQuota("shard").SetMaxThreads(static_cast<int>(options.threads_max)));
    builder.RegisterService(engine.get());
    for (const auto& service : stock) builder.RegisterService(service.get());
    if (!options.fleet_address.empty())
      add_peer_port(builder, options.fleet_address, options.peer_files, &fleet_port);
    server = builder.BuildAndStart();
    if (!server && !options.fleet_address.empty()) {
      return {Code::kFailedPrecondition,
              ErrorKind::kUnavailable,
              "cannot listen at " + options.fleet_address};
    }
    if (!server) return internal_error("the gRPC server does not start");
    // Connections are accepted here and not by gRPC, so that each peer's user is known before a
    // byte is read.
    COXSWAIN_ASSIGN_OR_RETURN(
        listener,
        SocketListener::start(
            {.path = options.socket_path, .check_interval = options.path_check_interval},
            [this](Descriptor fd, char first) { take_connection(std::move(fd), first); },
            log));
    return {};
  }

  void take_connection(Descriptor fd, char first) {
    if (first == kStepsFirst) {
      sockets.serve(std::move(fd));
    } else {
      grpc::AddInsecureChannelFromFd(server.get(), fd.release());
    }
  }

  void stop() {
    listener.reset();
    const TimePoint deadline = Clock::now() + options.stop_grace;
    sockets.stop(deadline);
    if (!server) return;
    // A call that waits for bytes is not ended by the server, which waits for the call. By the other way they may still
    // come until the deadline.
    if (ucx != nullptr) ucx->stop_takes();
    server->Shutdown(std::chrono::system_clock::now() + (deadline - Clock::now()));
    server->Wait();
    server.reset();
  }

  const ShardServiceOptions options;
  WatchedRunner watched;
  RunnerGate gate;
  KeptAttachments kept;
  AttachmentOwners owners;
  const StepStreamParts steps;
  StepSockets sockets{steps};
  std::unique_ptr<UcxCarrier> ucx;
  std::shared_ptr<grpc::Service> engine;
  std::vector<std::shared_ptr<grpc::Service>> stock;
  int fleet_port = 0;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<SocketListener> listener;
};

ShardService::ShardService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardService::~ShardService() {
  stop();
}

Result<std::unique_ptr<ShardService>> ShardService::start(StepRunner& runner,
                                                          const TextCodec& codec,
                                                          const ShardServiceOptions& options,
                                                          telemetry::Logger& log) {
  auto impl = std::make_unique<Impl>(runner, codec, options, log);
  COXSWAIN_RETURN_IF_ERROR(impl->open(log));
  return std::unique_ptr<ShardService>(new ShardService(std::move(impl)));
}

const std::string& ShardService::socket_path() const {
  return impl_->options.socket_path;
}

int ShardService::fleet_port() const {
  return impl_->fleet_port;
}

void ShardService::stop() {
  impl_->stop();
}

}  // namespace coxswain::rpc
