#pragma once
// ShardService: a gRPC server on a Unix socket that serves a StepRunner: coxswain.engine.v1 for our own routers,
// generate.v3 and v2 for stock ones. It may listen for other machines of its fleet, too (peer_channel.h).
// docs/wire-protocol.md is the reference.
//
// Thread rule: start(), stop() and the destructor from one thread. The server has its own threads.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "rpc/ip_network.h"
#include "rpc/weights_sender.h"
#include "security/peer_files.h"
#include "telemetry/log.h"

namespace coxswain::rpc {

struct ShardServiceOptions {
  std::string socket_path = {};
  // Sockets of all ranks, in their order; empty: this one alone.
  std::vector<std::string> peer_paths = {};
  std::uint32_t rank = 0;          // of this shard among them
  std::string fleet_address = {};  // for other machines, "host:port"; empty: none. Needs the files
  security::PeerFiles peer_files = {};
  // Where blocks may go by UCX, unencrypted; empty: nowhere.
  std::vector<IpNetwork> ucx_networks = {};
  std::size_t message_bytes_max = std::size_t{64} << 20;
  std::size_t threads_max = 32;  // of the server; more calls at once are refused
  std::chrono::milliseconds path_check_interval{
      1000};                                         // how often a removed socket file is noticed
  std::chrono::milliseconds step_time_max{600'000};  // beyond it Health says no; 0 = no limit
  std::chrono::milliseconds stop_grace{200};         // how long stop() lets calls end by themselves
  // A step may take longer while this says so: it waits for weights that arrive. Empty: it never does.
  std::function<bool()> is_loading = {};
  // Sends packed weights to shards that load the same; null: none are sent.
  std::shared_ptr<WeightsSender> weights = nullptr;
};

class ShardService {
 public:
  // Listens when it returns. `runner`, `codec` and `log` must outlive the service; nobody else may
  // drive the runner. Errors: kFailedPrecondition if another server holds the socket or the address;
  // kInvalidArgument for an impossible path; with `ucx_networks` those of start_ucx().
  static Result<std::unique_ptr<ShardService>> start(StepRunner& runner,
                                                     const TextCodec& codec,
                                                     const ShardServiceOptions& options,
                                                     telemetry::Logger& log);
  // Stops.
  ~ShardService();
  ShardService(const ShardService&) = delete;
  ShardService& operator=(const ShardService&) = delete;

  const std::string& socket_path() const;
  // Of the address for other machines; 0 without one.
  int fleet_port() const;

  // Ends every connection; waits for a step that still runs. Removes the socket. Idempotent.
  void stop();

 private:
  struct Impl;
  explicit ShardService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::rpc
