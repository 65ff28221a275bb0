#pragma once
// RouterProcess: the process text-generation-router: HTTP in front, and behind it an engine loop over
// each replica of the model.
//
// Order of the start: options, tokenizer and templates, the shards, limits, engines, HTTP. The port
// opens last, so that whoever can connect can also be served. Order of the end: no new connections,
// running requests finish within the grace, what is left gets one clear error, then threads are
// joined from the outside in.
//
//   SIGTERM, SIGINT       an orderly end; each further signal halves what is left of the grace
//   the launcher is gone  an end within two seconds, however much is running
//   SIGUSR1               counts of the engine in the log
//   SIGHUP                files of keys and certificates are read again, as if they had changed
//
// Thread rule: made in main() after hold_signals() and before any other thread, one in a process;
// run() once. request_stop() from any thread.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "options/options.h"
#include "otlp/exporter.h"
#include "request/token_limits.h"
#include "router/api.h"
#include "serve/file_watch.h"
#include "serve/parent_watch.h"
#include "serve/port_lease.h"
#include "serve/router/admin_server.h"
#include "serve/router/replica_group.h"
#include "serve/start_failure.h"
#include "serve/stop_signals.h"
#include "telemetry/log.h"

namespace coxswain::http {
class Server;
struct ServerOptions;
}  // namespace coxswain::http
namespace coxswain::security {
class TlsIdentity;
}
namespace coxswain::telemetry {
class Metrics;
}

namespace coxswain::serve {

class RouterProcess {
 public:
  // Both must outlive this.
  RouterProcess(const options::OptionValues& values, const options::Environment& environment);
  ~RouterProcess();
  RouterProcess(const RouterProcess&) = delete;
  RouterProcess& operator=(const RouterProcess&) = delete;

  // Logs `warnings`, starts, serves until it is to stop, and ends. Returns the exit code
  // (start_failure.h); the two lines of a failed start go to standard error.
  int run(const std::vector<std::string>& warnings);
  // The same as SIGTERM.
  void request_stop();

 private:
  // The steps of the start, in this order; each gives what kept it from succeeding.
  std::optional<StartFailure> start();
  std::optional<StartFailure> load_keys();
  std::optional<StartFailure> load_certificate();
  void read_again(const char* what, const Status& read);
  std::optional<StartFailure> load_files();
  std::optional<StartFailure> connect();
  Status prepare_scaling();
  std::optional<StartFailure> start_engines();
  std::optional<StartFailure> start_traces();
  void start_api();
  std::optional<StartFailure> start_http();
  std::optional<StartFailure> start_metrics(http::ServerOptions options);
  std::optional<StartFailure> start_admin(const http::ServerOptions& options);
  std::optional<StartFailure> listen(const char* variable,
                                     const char* option,
                                     std::optional<PortLease>& lease,
                                     http::ServerOptions& options);
  std::optional<StartFailure> announce(const http::ServerOptions& options);

  void end();
  void drain();
  std::chrono::milliseconds grace() const;
  void drain_everything();
  void on_parent_gone();
  void dump_state();

  const options::OptionValues& values_;
  const options::Environment& environment_;
  const pid_t parent_pid_ = ::getppid();
  telemetry::Logger log_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  router::ChatModel chat_;
  request::TokenLimits limits_;
  std::shared_ptr<router::KeyRing> keys_;       // null: everything is open
  std::shared_ptr<security::TlsIdentity> tls_;  // null: plain HTTP
  std::unique_ptr<telemetry::Metrics> metrics_;
  std::unique_ptr<ReplicaGroup> replicas_;
  std::unique_ptr<otlp::Exporter> traces_;
  std::unique_ptr<router::Api> api_;
  std::uint64_t open_files_ = 0;         // the limit of this process
  std::optional<PortLease> port_lease_;  // the servers have the sockets
  std::optional<PortLease> metrics_port_lease_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<http::Server> metrics_server_;  // of --prometheus-port
  std::unique_ptr<AdminServer> admin_server_;
  std::atomic<bool> orphaned_{false};
  FileWatch files_;  // the first to go behind the signals that ask it
  StopSignals stop_;
  ParentWatch parent_;
};

// main() of text-generation-router behind its first steps: reads the options, then runs the
// process. Returns the exit code.
int run_router(int argc, char** argv);

}  // namespace coxswain::serve
