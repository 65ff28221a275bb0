#include "serve/router/admin_server.h"

#include <chrono>
#include <string>
#include <unistd.h>
#include <utility>

#include "api/errors.h"
#include "json/json.h"
#include "router/api.h"
#include "rpc/unix_socket.h"

namespace coxswain::serve {
namespace {

http::Response refusal(int status, const Status& why) {
  http::Response out;
  out.status = status;
  out.body = api::error_body(api::ApiStyle::kNative, why);
  return out;
}

Result<int> listen_at(const std::string& path) {
  if (rpc::connect_unix(path, std::chrono::seconds(1)).ok()) {
    return Status(
        Code::kUnavailable,
        "another server listens at " + path + "; stop it, or choose another --admin-listen");
  }
  COXSWAIN_ASSIGN_OR_RETURN(rpc::Descriptor socket, rpc::listen_unix(path));
  return socket.release();
}

}  // namespace

AdminServer::AdminServer(AdminAddress address,
                         std::optional<PortLease> lease,
                         Sources sources,
                         std::unique_ptr<http::Server> server)
    : address_(std::move(address)),
      lease_(std::move(lease)),
      sources_(std::move(sources)),
      server_(std::move(server)) {
  server_->add_route(
      "GET", "/fleet", [this](auto, auto responder) { responder->send(fleet_response()); });
  server_->add_route("GET", "/admin/keys", [this](auto, auto responder) {
    http::Response response;
    const router::KeyRing none;
    response.body = json::write(router::key_document(sources_.keys ? *sources_.keys : none));
    responder->send(std::move(response));
  });
  server_->add_route("POST", "/modify_cluster_state", [this](auto request, auto responder) {
    responder->send(modify(*request));
  });
  server_->add_route("GET", "/metrics", [this](auto, auto responder) {
    http::Response response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = sources_.metrics.render() + replica_metrics(sources_.view());
    responder->send(std::move(response));
  });
}

AdminServer::~AdminServer() {
  server_->stop();
  if (address_.is_path()) ::unlink(address_.host.c_str());
}

std::string AdminServer::where() const {
  if (address_.is_path()) return "unix:" + address_.host;
  const bool v6 = address_.host.find(':') != std::string::npos;
  return (v6 ? "[" + address_.host + "]" : address_.host) + ":" + std::to_string(server_->port());
}

http::Response AdminServer::fleet_response() const {
  http::Response out;
  out.body = json::write(fleet_document(sources_.view()));
  return out;
}

http::Response AdminServer::modify(const http::Request& request) const {
  constexpr int kUnsupportedMediaType = 415;
  if (!router::is_json_content_type(request.header("content-type"))) {
    return refusal(kUnsupportedMediaType,
                   invalid_argument("`content-type` must be application/json", "content-type"));
  }
  const Status done = sources_.modify(request.body);
  if (!done.ok()) return refusal(api::http_status(api::ApiStyle::kNative, done), done);
  return fleet_response();
}

Result<std::unique_ptr<AdminServer>> AdminServer::start(const AdminAddress& address,
                                                        http::ServerOptions limits,
                                                        Sources sources) {
  std::optional<PortLease> lease;
  if (address.is_path()) {
    COXSWAIN_ASSIGN_OR_RETURN(limits.bound_socket, listen_at(address.host));
  } else {
    COXSWAIN_ASSIGN_OR_RETURN(PortLease taken,
                              PortLease::take(address.host, address.port, "--admin-listen"));
    limits.bound_socket = lease.emplace(std::move(taken)).release_socket();
  }
  limits.threads = 1;
  limits.cors_allow_origins.clear();
  COXSWAIN_ASSIGN_OR_RETURN(auto server, http::Server::create(limits));
  std::unique_ptr<AdminServer> out(
      new AdminServer(address, std::move(lease), std::move(sources), std::move(server)));
  COXSWAIN_RETURN_IF_ERROR(out->server_->start());
  return out;
}

}  // namespace coxswain::serve
