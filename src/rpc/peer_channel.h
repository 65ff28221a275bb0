#pragma once
// Connections between the machines of a fleet: gRPC over TCP, with TLS in which both ends show a certificate of the
// fleet's authority. The end that connects also looks for the name or address that it connects to in the certificate.
//
// An end that vanishes without a word (a machine without power, a cable) is noticed by pings within kSilenceMax.
//
// Thread rule: any thread.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <coxswain/status.h>

#include "security/peer_files.h"

namespace grpc {
class Channel;
class ClientContext;
class ServerBuilder;
}  // namespace grpc

namespace coxswain::rpc {

inline constexpr std::string_view kAddressScheme = "tcp://";
inline constexpr std::chrono::milliseconds kSilenceMax{7'000};

// "host:port" of "tcp://host:port"; empty: `place` is the path of a Unix socket.
std::string address_of_place(std::string_view place);

// Reads the files anew. Nothing is sent before the first call, which says whether anybody answers. Errors:
// kFailedPrecondition if a file cannot be read.
Result<std::shared_ptr<grpc::Channel>> open_peer_channel(const std::string& address,
                                                         const security::PeerFiles& files,
                                                         std::size_t message_bytes_max);

// Listens at `address`, "host:port" or "[address]:port", where port 0 is any free one; `port` is set by
// ServerBuilder::BuildAndStart(), and stays 0 if it cannot listen there. Files that have changed hold for connections
// from then on, a minute later at most.
void add_peer_port(grpc::ServerBuilder& builder,
                   const std::string& address,
                   const security::PeerFiles& files,
                   int* port);

// Tells when a connection that open_peer_channel() made has ended, as HangupWatch does for a socket.
//
// Thread rule: that of HangupWatch.
class PeerWatch {
 public:
  PeerWatch(std::shared_ptr<grpc::Channel> channel, std::function<void()> on_hangup);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace coxswain::rpc
