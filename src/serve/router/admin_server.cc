#include "serve/router/admin_server.h"

#include <utility>

#include "json/json.h"

namespace coxswain::serve {

AdminServer::AdminServer(PortLease lease, Sources sources, std::unique_ptr<http::Server> server)
    : lease_(std::move(lease)), sources_(std::move(sources)), server_(std::move(server)) {
  server_->add_route("GET", "/fleet", [this](auto, auto responder) {
    http::Response response;
    response.body = json::write(fleet_document(sources_.view()));
    responder->send(std::move(response));
  });
  server_->add_route("GET", "/metrics", [this](auto, auto responder) {
    http::Response response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = sources_.metrics.render() + replica_metrics(sources_.view());
    responder->send(std::move(response));
  });
}

Result<std::unique_ptr<AdminServer>> AdminServer::start(const AdminAddress& address,
                                                        http::ServerOptions limits,
                                                        Sources sources) {
  COXSWAIN_ASSIGN_OR_RETURN(PortLease lease,
                            PortLease::take(address.host, address.port, "--admin-listen"));
  limits.address = address.host;
  limits.port = lease.port();
  limits.threads = 1;
  limits.cors_allow_origins.clear();
  limits.bound_socket = lease.release_socket();
  COXSWAIN_ASSIGN_OR_RETURN(auto server, http::Server::create(limits));
  std::unique_ptr<AdminServer> out(
      new AdminServer(std::move(lease), std::move(sources), std::move(server)));
  COXSWAIN_RETURN_IF_ERROR(out->server_->start());
  return out;
}

}  // namespace coxswain::serve
