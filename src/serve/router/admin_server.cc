#include "serve/router/admin_server.h"

#include <chrono>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include "api/errors.h"
#include "json/json.h"
#include "router/api.h"
#include "router/metrics_page.h"
#include "rpc/unix_socket.h"
#include "serve/log_level.h"
#include "serve/router/router_setup.h"

namespace coxswain::serve {
namespace {

constexpr std::string_view kRequestsFolder = "/admin/requests/";
constexpr int kAccepted = 202;
constexpr std::chrono::milliseconds kLastAnswersPatience{200};

http::Response document(const json::Value& value) {
  http::Response out;
  out.body = json::write(value);
  return out;
}

http::Response refusal(const Status& why) {
  http::Response out;
  out.status = api::http_status(api::ApiStyle::kNative, why);
  out.body = api::error_body(api::ApiStyle::kNative, why);
  return out;
}

// Why the body is not looked at, if so.
std::optional<http::Response> not_json(const http::Request& request) {
  if (router::is_json_content_type(request.header("content-type"))) return std::nullopt;
  return refusal(Status(Code::kInvalidArgument,
                        ErrorKind::kUnsupportedMediaType,
                        "`content-type` must be application/json",
                        "content-type"));
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
      log_level_(sources_.log_level),
      server_(std::move(server)) {
  server_->add_route(
      "GET", "/fleet", [this](auto, auto responder) { responder->send(fleet_response()); });
  server_->add_route("GET", "/admin/keys", [this](auto, auto responder) {
    const router::KeyRing none;
    responder->send(document(router::key_document(sources_.keys ? *sources_.keys : none)));
  });
  server_->add_route("POST", "/modify_cluster_state", [this](auto request, auto responder) {
    responder->send(modify(*request));
  });
  server_->add_route("GET", "/metrics", [this](auto request, auto responder) {
    const telemetry::TextFormat format = router::metrics_format(*request);
    responder->send(router::metrics_page(
        *request, sources_.metrics.render(format) + replica_metrics(sources_.view(), format)));
  });
  add_admin_routes();
}

void AdminServer::add_admin_routes() {
  server_->add_route("GET", "/admin/log-level", [this](auto, auto responder) {
    responder->send(document(log_level_document(log_level_)));
  });
  server_->add_route("PUT", "/admin/log-level", [this](auto request, auto responder) {
    responder->send(set_log_level(*request));
  });
  server_->add_route("GET", "/admin/requests", [this](auto, auto responder) {
    const auto requests = sources_.requests();
    responder->send(document(requests_document(requests, sources_.places(), Clock::now())));
  });
  server_->add_route(
      "DELETE", std::string(kRequestsFolder) + "*", [this](auto request, auto responder) {
        responder->send(cancel(request->path.substr(kRequestsFolder.size())));
      });
  server_->add_route("GET", "/admin/memory", [this](auto, auto responder) {
    responder->send(document(memory_document(sources_.memory())));
  });
  server_->add_route("POST", "/admin/drain", [this](auto request, auto responder) {
    if (auto refused = not_json(*request)) return responder->send(*std::move(refused));
    json::Object out;
    out.append_new("draining", true);
    out.append_new("requests", json::Value::unsigned_integer(sources_.requests().size()));
    http::Response response = document(json::Value(std::move(out)));
    response.status = kAccepted;
    responder->send(std::move(response));
    sources_.drain();
  });
}

AdminServer::~AdminServer() {
  stop();
  if (address_.is_path()) ::unlink(address_.host.c_str());
}

void AdminServer::stop() {
  const TimePoint last = Clock::now() + kLastAnswersPatience;
  while (server_->open_requests() > 0 && Clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_->stop();
}

std::string AdminServer::where() const {
  if (address_.is_path()) return "unix:" + address_.host;
  const bool v6 = address_.host.find(':') != std::string::npos;
  return (v6 ? "[" + address_.host + "]" : address_.host) + ":" + std::to_string(server_->port());
}

http::Response AdminServer::fleet_response() const {
  return document(fleet_document(sources_.view()));
}

http::Response AdminServer::modify(const http::Request& request) const {
  if (auto refused = not_json(request)) return *std::move(refused);
  const Status done = sources_.modify(request.body);
  return done.ok() ? fleet_response() : refusal(done);
}

http::Response AdminServer::set_log_level(const http::Request& request) {
  if (auto refused = not_json(request)) return *std::move(refused);
  auto directives = read_log_level(request.body);
  if (!directives.ok()) return refusal(directives.status());
  log_level_ = std::move(directives).value();
  sources_.log.set_level(log_level_of(log_level_, kRouterLogTarget).level);
  return document(log_level_document(log_level_));
}

http::Response AdminServer::cancel(const std::string& id) const {
  if (!sources_.cancel(id)) {
    return refusal(Status(Code::kNotFound,
                          ErrorKind::kNotFound,
                          "no running request `" + api::echo(id) + "`",
                          "request_id"));
  }
  json::Object out;
  out.append_new("id", id);
  out.append_new("cancelled", true);
  return document(json::Value(std::move(out)));
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
