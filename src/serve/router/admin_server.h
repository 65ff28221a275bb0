#pragma once
// AdminServer: the listener of --admin-listen, for whoever operates this machine.
//
//   GET /fleet                   each replica and the whole, JSON (fleet_document.h)
//   GET /admin/keys              names, limits and counts of the keys (key_ring.h); none where none is asked for
//   GET, PUT /admin/log-level    the directives of LOG_LEVEL, as they hold for this process (admin_documents.h)
//   GET /admin/requests          those that are queued or run; DELETE /admin/requests/ID cancels
//   GET /admin/memory            where memory goes, by replica
//   POST /admin/drain            what SIGTERM does
//   GET /metrics                 what the other listener has, and the same by replica
//   POST /modify_cluster_state   changes roles and drains (cluster_control.h); answers what GET /fleet does
//
// POST and PUT are taken only as application/json, which no browser sends here for a foreign page.
//
// Thread rule: one thread; the functions that it is given are called by its own.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "http/server.h"
#include "router/key_ring.h"
#include "serve/admin_address.h"
#include "serve/port_lease.h"
#include "serve/router/admin_documents.h"
#include "serve/router/fleet_document.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace coxswain::serve {

class AdminServer {
 public:
  struct Sources {
    std::function<FleetView()> view;
    std::function<Status(std::string_view body)> modify;
    std::shared_ptr<const router::KeyRing> keys;
    const telemetry::Metrics& metrics;
    telemetry::Logger& log;
    std::string log_level;  // directives that hold at the start
    std::function<std::vector<router::OpenRequest>()> requests;
    std::function<std::vector<fleet::RequestPlace>()> places;
    std::function<bool(const std::string& id)> cancel;
    std::function<std::vector<ReplicaMemory>()> memory;
    // Must not wait for this server.
    std::function<void()> drain;
  };

  // Listens at `address`; `limits` has everything else. A Unix socket is our own user's (mode 0600); one that nobody
  // listens at is replaced. Errors: kUnavailable, "cause; cure" (start_failure.h).
  static Result<std::unique_ptr<AdminServer>> start(const AdminAddress& address,
                                                    http::ServerOptions limits,
                                                    Sources sources);
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;
  // Where it listens, as --admin-listen has it; any free port is a number.
  std::string where() const;
  // Behind the answers that are on their way, within a moment.
  void stop();

 private:
  http::Response fleet_response() const;
  http::Response modify(const http::Request& request) const;
  http::Response set_log_level(const http::Request& request);
  http::Response cancel(const std::string& id) const;
  void add_admin_routes();
  AdminServer(AdminAddress address,
              std::optional<PortLease> lease,
              Sources sources,
              std::unique_ptr<http::Server> server);

  const AdminAddress address_;
  const std::optional<PortLease> lease_;  // of a port; the server has the socket
  const Sources sources_;
  std::string log_level_;  // of the server's thread
  const std::unique_ptr<http::Server> server_;
};

}  // namespace coxswain::serve
