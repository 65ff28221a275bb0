#include "rpc/peer_channel.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <proto/engine_v1.grpc.pb.h>

#include "base/thread_name.h"
#include "rpc/convert.h"

namespace coxswain::rpc {

namespace {

// Of silence, then of waiting for the answer to a ping.
constexpr int kPingAfterMs = 2'000;
constexpr int kPongWithinMs = 5'000;
static_assert(std::chrono::milliseconds(kPingAfterMs + kPongWithinMs) == kSilenceMax);
constexpr unsigned kFilesReadEverySeconds = 60;

Result<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string out(std::istreambuf_iterator<char>(file), {});
  if (file.good() && !out.empty()) return out;
  return Status(Code::kFailedPrecondition, ErrorKind::kUnavailable, path + " cannot be read");
}

}  // namespace

std::string address_of_place(std::string_view place) {
  if (!place.starts_with(kAddressScheme)) return {};
  return std::string(place.substr(kAddressScheme.size()));
}

Result<std::shared_ptr<grpc::Channel>> open_peer_channel(const std::string& address,
                                                         const security::PeerFiles& files,
                                                         std::size_t message_bytes_max) {
  grpc::SslCredentialsOptions credentials;
  COXSWAIN_ASSIGN_OR_RETURN(credentials.pem_root_certs, contents(files.ca));
  COXSWAIN_ASSIGN_OR_RETURN(credentials.pem_private_key, contents(files.key));
  COXSWAIN_ASSIGN_OR_RETURN(credentials.pem_cert_chain, contents(files.certificate));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_max));
  arguments.SetMaxSendMessageSize(static_cast<int>(message_bytes_max));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongWithinMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);     // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!files.server_name.empty()) arguments.SetSslTargetNameOverride(files.server_name);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(credentials), arguments);
}

void add_peer_port(grpc::ServerBuilder& builder,
                   const std::string& address,
                   const security::PeerFiles& files,
                   int* port) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.ca, kFilesReadEverySeconds));
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  builder.AddListeningPort(address, grpc::experimental::TlsServerCredentials(options), port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server there is refused
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongWithinMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

struct PeerWatch::State {
  std::unique_ptr<pb::Engine::Stub> stub;
  grpc::ClientContext context;
  std::atomic<bool> stopped{false};
};

PeerWatch::PeerWatch(std::shared_ptr<grpc::Channel> channel, std::function<void()> on_hangup)
    : state_(std::make_shared<State>()) {
  state_->stub = pb::Engine::NewStub(std::move(channel));
  thread_ = std::thread([state = state_, call = std::move(on_hangup)] {
    base::name_thread("hangup");
    pb::WatchResponse response;
    const auto writer = state->stub->Watch(&state->context, &response);
    static_cast<void>(writer->Finish());  // the shard never ends it by itself
    if (!state->stopped) call();
  });
}

PeerWatch::~PeerWatch() {
  state_->stopped = true;
  state_->context.TryCancel();
  thread_.join();
}

}  // namespace coxswain::rpc
