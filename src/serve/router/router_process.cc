#include "serve/router/router_process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/random.h"
#include "http/server.h"
#include "json/json.h"
#include "membership/open.h"
#include "openapi/document.h"
#include "options/options.h"
#include "router/api.h"
#include "security/tls.h"
#include "serve/model_source.h"
#include "serve/open_files.h"
#include "serve/peer_files.h"
#include "serve/router/chat_model.h"
#include "serve/router/cluster_control.h"
#include "serve/router/router_setup.h"
#include "serve/status_file.h"
#include "serve/text_files.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOrphanGrace{1'000};  // the launcher is gone: everything ends within 2 s
constexpr milliseconds kOrphanExit{1'800};
constexpr milliseconds kLastAnswersPatience{500};  // after the drain, for bytes on their way
constexpr milliseconds kSendingPause{5};
constexpr milliseconds kHealthAsked{2'000};  // so long after a /health an idle shard is probed
// Of the launcher's grace, for the shards and for our own end.
constexpr milliseconds kLauncherReserve{6'000};

int report(telemetry::Logger& log, const StartFailure& failure) {
  log.error(failure.cause);
  std::fputs(to_lines(failure).c_str(), stderr);
  return failure.exit_code;
}

StartFailure bad_option(std::string cause) {
  return {"ArgumentValidation", std::move(cause), kOptionCure, kExitUsage};
}

StartFailure bad_text_files(const Status& status) {
  return make_start_failure(
      "Tokenizer",
      status,
      "Check tokenizer.json and tokenizer_config.json in the folder of the model.",
      kExitModel);
}

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Status scales_itself() {
  return {Code::kFailedPrecondition,
          ErrorKind::kValidation,
          "`autoscale` is set: the planner alone changes this fleet"};
}

StartFailure bind_failure(const Status& status, const char* option) {
  return make_start_failure(
      "Axum",
      status,
      std::string("Stop what listens there, or choose another ") + option + ".",
      kExitFailure);
}

}  // namespace

RouterProcess::RouterProcess(const options::OptionValues& values,
                             const options::Environment& environment)
    : values_(values),
      environment_(environment),
      log_(log_options(values)),
      stop_({.grace = {}, .on_hangup = [this] { files_.ask(); }}),
      parent_([this] { on_parent_gone(); }) {}

RouterProcess::~RouterProcess() = default;

int RouterProcess::run(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) log_.warn(warning);
  const auto failure = start();
  if (!failure) {
    stop_.wait([this] { dump_state(); });
    log_.info("signal received, starting graceful shutdown");
  }
  end();
  return failure ? report(log_, *failure) : 0;
}

std::optional<StartFailure> RouterProcess::start() {
  if (values_.get<"validation-workers">() == 0) {
    return bad_option("`validation_workers` must be > 0");
  }
  if (values_.get<"max-batch-size">() == 0) {
    return bad_option("`max_batch_size` must be > 0");
  }
  for (const auto& [name, path] :
       {std::pair{"AIP_PREDICT_ROUTE", values_.get<"AIP_PREDICT_ROUTE">()},
        std::pair{"AIP_HEALTH_ROUTE", values_.get<"AIP_HEALTH_ROUTE">()}}) {
    if (path && (!path->starts_with('/') || path->find_first_of("*?# ") != std::string::npos))
      return bad_option(std::string(name) + " must be a path, `" + *path + "` is none");
  }
  if (const Status places = check_places(values_); !places.ok())
    return bad_option(places.message());
  if (const Status roles = replica_roles(values_).status(); !roles.ok())
    return bad_option(roles.message());
  if (auto failure = check_security_files(values_)) return failure;
  if (const Status files = check_fleet_files(values_, names_machines(values_)); !files.ok())
    return bad_option(files.message());
  if (auto failure = load_keys()) return failure;
  if (auto failure = load_certificate()) return failure;
  if (auto failure = load_files()) return failure;
  if (auto failure = connect()) return failure;
  if (auto failure = start_engines()) return failure;
  if (auto failure = start_traces()) return failure;
  start_api();
  return start_http();
}

std::optional<StartFailure> RouterProcess::load_keys() {
  const std::string own = values_.get<"api-key">().value_or("");
  const std::string path = values_.get<"api-keys-path">().value_or("");
  if (own.empty() && path.empty()) return std::nullopt;
  keys_ = std::make_shared<router::KeyRing>(own);
  if (path.empty()) return std::nullopt;
  files_.add({path}, [this, path] { read_again("the keys", keys_->read(path)); });
  const Status read = keys_->read(path).with_context("`--api-keys-path`");
  if (read.ok()) return std::nullopt;
  return StartFailure{"ArgumentValidation", read.message(), "Correct that file.", kExitUsage};
}

std::optional<StartFailure> RouterProcess::load_certificate() {
  const security::TlsFiles files{.certificate = values_.get<"tls-cert-path">().value_or(""),
                                 .key = values_.get<"tls-key-path">().value_or(""),
                                 .client_ca = values_.get<"tls-client-ca-path">().value_or("")};
  if (files.certificate.empty()) return std::nullopt;
  files_.add({files.certificate, files.key, files.client_ca},
             [this] { read_again("the certificate", tls_->reload()); });
  auto tls = security::TlsIdentity::load(files);
  if (!tls.ok()) {
    return StartFailure{
        "ArgumentValidation", tls.status().message(), "Correct that file.", kExitUsage};
  }
  tls_ = std::move(tls).value();
  return std::nullopt;
}

// What became of a file that has changed.
void RouterProcess::read_again(const char* what, const Status& read) {
  if (read.ok()) {
    log_.info("read again", {{"what", what}});
  } else {
    log_.error("a file that has changed is not used, the old one holds",
               {{"what", what}, {"error", std::string_view(read.message())}});
  }
}

std::optional<StartFailure> RouterProcess::load_files() {
  const auto name = values_.get<"tokenizer-name">();
  if (!name) {
    return StartFailure{"ArgumentValidation",
                        "`tokenizer_name` must be set to the model's folder",
                        "Add --tokenizer-name FOLDER.",
                        kExitUsage};
  }
  if (auto failure = check_text_files(values_)) return failure;
  const std::string model = find_model(*name, program_folder(), {}).folder;
  const std::string config = values_.get<"tokenizer-config-path">().value_or("");
  auto tokenizer =
      tokenizer::Tokenizer::load(model, {.tokenizer_config_path = tokenizer_config_path(values_)});
  if (!tokenizer.ok()) {
    return bad_text_files(tokenizer.status());
  }
  tokenizer_ = std::move(tokenizer).value();
  if (const std::string pattern = tokenizer_->unknown_split_pattern(); !pattern.empty()) {
    log_.warn(
        "the tokenizer's split pattern has no scanner of its own and runs slower, with limits",
        {{"pattern", std::string_view(pattern)}});
  }
  auto chat = load_chat_model({.model_dir = model,
                               .tokenizer_config_path = config,
                               .tool_call_parser = values_.get<"tool-call-parser">().value_or(""),
                               .reasoning_parser = values_.get<"reasoning-parser">().value_or("")},
                              *tokenizer_);
  if (!chat.ok()) {
    return bad_text_files(chat.status());
  }
  chat_ = std::move(chat).value();
  if (!chat_) log_.warn("the model has no chat template: chat routes answer 422");
  return std::nullopt;
}

std::optional<StartFailure> RouterProcess::connect() {
  const bool below_launcher = environment_.contains(kParentPipeVariable);
  std::unique_ptr<membership::Membership> members;
  if (has_members(values_)) {
    auto opened = membership::open_membership(values_, {});
    if (!opened.ok()) return bad_option(opened.status().message());
    members = std::move(opened).value();
  }
  replicas_ =
      std::make_unique<ReplicaGroup>(values_, below_launcher, tokenizer_, log_, std::move(members));
  if (const Status scaling = prepare_scaling(); !scaling.ok()) return bad_option(scaling.message());
  if (const Status status = replicas_->connect(); !status.ok()) {
    return StartFailure{
        "Backend",
        "Backend failed: Unable to connect to the model shards: " + status.message(),
        "Start text-generation-server, or name its socket with --master-shard-uds-path."};
  }
  if (!replicas_->info().capabilities.takes_ids) {
    log_.warn(
        "the shard is driven by generate.v3: no prefix cache, and answers may depend on what else "
        "runs");
  }
  return std::nullopt;
}

Status RouterProcess::prepare_scaling() {
  if (!values_.get<"autoscale">()) return {};
  const auto channel = environment_.find(kReplicaChannelVariable);
  if (channel == environment_.end()) {
    return invalid_argument(
        "`autoscale` needs text-generation-launcher, which starts and ends the replicas");
  }
  COXSWAIN_ASSIGN_OR_RETURN(auto inherited, ReplicaChannel::inherit(channel->second));
  return replicas_->scale_over(std::move(inherited.first), inherited.second);
}

std::optional<StartFailure> RouterProcess::start_engines() {
  const request::TokenLimitOptions asked = token_limit_options(values_);
  if (const Status roles = replicas_->check_roles(); !roles.ok())
    return bad_option(roles.message());
  auto limits = replicas_->resolve_limits(asked);
  if (!limits.ok()) return bad_option(limits.status().message());
  limits_ = limits.value();
  if (const std::uint32_t n_model = replicas_->info().vocab_size;
      tokenizer_->vocab_size() > n_model) {
    log_.warn("the tokenizer knows more ids than the model; such ids are refused",
              {{"tokenizer", std::uint64_t{tokenizer_->vocab_size()}},
               {"model", std::uint64_t{n_model}}});
  }
  log_.info("Setting max batch total tokens to " + std::to_string(limits_.batch_total_tokens_max));
  if (!asked.input_tokens_max) {
    log_.info("Maximum input tokens defaulted to " + std::to_string(limits_.input_tokens_max));
  }
  if (!asked.total_tokens_max) {
    log_.info("Maximum total tokens defaulted to " + std::to_string(limits_.total_tokens_max));
  }
  metrics_ = std::make_unique<telemetry::Metrics>(telemetry::MetricsOptions{
      .input_tokens_max = limits_.input_tokens_max,
      .total_tokens_max = limits_.total_tokens_max,
      .vllm_model_name = values_.get<"metrics-aliases">() == "vllm"
                             ? api_options(values_, limits_, replicas_->info()).model_id
                             : ""});
  if (const Status status = replicas_->start(*metrics_); !status.ok())
    return StartFailure{"Memory", status.message(), kOptionCure};
  return std::nullopt;
}

std::optional<StartFailure> RouterProcess::start_traces() {
  const auto endpoint = values_.get<"otlp-endpoint">();
  if (!endpoint) return std::nullopt;
  auto traces = otlp::Exporter::create(
      {.endpoint = *endpoint,
       .protocol = values_.get<"otlp-protocol">() == "grpc" ? otlp::Protocol::kGrpc
                                                            : otlp::Protocol::kHttpProtobuf,
       .service_name = values_.get<"otlp-service-name">(),
       .version = COXSWAIN_VERSION},
      log_);
  if (!traces.ok())
    return bad_option("`otlp_endpoint` " + *endpoint + ": " + traces.status().message());
  traces_ = std::move(traces).value();
  return std::nullopt;
}

void RouterProcess::start_api() {
  router::ApiOptions options = api_options(values_, limits_, replicas_->info());
  options.version = COXSWAIN_VERSION;
  if (const auto type = environment_.find("COMPUTE_TYPE");
      type != environment_.end() && !type->second.empty()) {
    options.compute_type = type->second;
  }
  options.unix_time = unix_time;
  options.random = base::random_u64;
  options.auth.keys = keys_;
  api_ = std::make_unique<router::Api>(
      std::move(options),
      router::ApiParts{.door = replicas_->fleet(),
                       .tokenizer = tokenizer_,
                       .chat = chat_,
                       .metrics = metrics_.get(),
                       .log = log_,
                       .spans = traces_.get(),
                       .on_health_asked = [this] { replicas_->ring(); }});
  replicas_->supervise([this](const Status& s) { api_->set_health(s); },
                       [this] { return api_->health_asked(kHealthAsked); });
}

std::optional<StartFailure> RouterProcess::start_http() {
  open_files_ = raise_open_files();
  std::vector<std::string> warnings;
  http::ServerOptions http_options = server_options(values_, open_files_, warnings);
  for (const std::string& warning : warnings) log_.warn(warning);
  if (auto failure = start_metrics(http_options)) return failure;
  if (auto failure = start_admin(http_options)) return failure;
  if (auto failure = listen(kListenVariable, "--port", port_lease_, http_options)) return failure;
  http_options.tls = tls_;
  auto server = http::Server::create(http_options);
  if (!server.ok()) return StartFailure{"Axum", server.status().message(), kOptionCure};
  server_ = std::move(server).value();
  api_->add_routes(*server_);
  if (const Status status = server_->start(); !status.ok()) return bind_failure(status, "--port");
  files_.start();
  if (!keys_) log_.warn("no API key: whoever reaches this port can use it");
  return announce(http_options);
}

// The second port, for whoever collects metrics.
std::optional<StartFailure> RouterProcess::start_metrics(http::ServerOptions options) {
  constexpr const char* kOption = "--prometheus-port";
  options.port = values_.get<"prometheus-port">().value_or(0);
  if (options.port == 0) return std::nullopt;
  options.threads = 1;
  if (auto failure = listen(kMetricsListenVariable, kOption, metrics_port_lease_, options))
    return failure;
  auto server = http::Server::create(options);
  if (!server.ok()) return StartFailure{"Axum", server.status().message(), kOptionCure};
  metrics_server_ = std::move(server).value();
  api_->add_metrics_route(*metrics_server_);
  if (const Status status = metrics_server_->start(); !status.ok())
    return bind_failure(status, kOption);
  return std::nullopt;
}

std::optional<StartFailure> RouterProcess::start_admin(const http::ServerOptions& options) {
  const auto text = values_.get<"admin-listen">();
  if (!text) return std::nullopt;
  const auto address = parse_admin_address(*text);
  if (!address.ok()) return bad_option(address.status().message());
  auto server =
      AdminServer::start(*address,
                         options,
                         {.view = [this] { return replicas_->view(); },
                          .modify = [this](std::string_view body) -> Status {
                            if (replicas_->scales()) return scales_itself();
                            return modify_cluster_state(replicas_->fleet(), body, Clock::now());
                          },
                          .keys = keys_,
                          .metrics = *metrics_,
                          .log = log_,
                          .log_level = values_.get<"LOG_LEVEL">(),
                          .requests = [this] { return api_->open_requests(); },
                          .places = [this] { return replicas_->fleet().places(); },
                          .cancel = [this](const std::string& id) { return api_->cancel(id); },
                          .memory = [this] { return replicas_->memory(); },
                          .drain = [this] { drain_everything(); }});
  if (!server.ok()) return bind_failure(server.status(), "--admin-listen");
  admin_server_ = std::move(server).value();
  log_.info("the replicas are shown", {{"at", std::string_view(admin_server_->where())}});
  return std::nullopt;
}

// The socket of one of the two ports, the launcher's or our own.
std::optional<StartFailure> RouterProcess::listen(const char* variable,
                                                  const char* option,
                                                  std::optional<PortLease>& lease,
                                                  http::ServerOptions& options) {
  auto taken = PortLease::inherit_or_take(variable, options.address, options.port, option);
  if (!taken.ok()) return bind_failure(taken.status(), option);
  options.bound_socket = lease.emplace(std::move(taken).value()).release_socket();
  return std::nullopt;
}

// The last step of the start: from here on requests are served.
std::optional<StartFailure> RouterProcess::announce(const http::ServerOptions& options) {
  const bool any = options.address == "0.0.0.0" || options.address == "::";
  const bool v6 = options.address.find(':') != std::string::npos;
  const std::string host = any ? "127.0.0.1" : (v6 ? "[" + options.address + "]" : options.address);
  const std::string url =
      (tls_ ? "https://" : "http://") + host + ":" + std::to_string(server_->port());
  stop_.serve();
  log_.info("Connected", {{"url", std::string_view(url)}});
  json::Object facts;
  facts.append_new("url", url);
  facts.append_new("port", json::Value::unsigned_integer(server_->port()));
  facts.append_new("max_input_tokens", json::Value::unsigned_integer(limits_.input_tokens_max));
  facts.append_new("max_total_tokens", json::Value::unsigned_integer(limits_.total_tokens_max));
  facts.append_new("max_concurrent_requests",
                   json::Value::unsigned_integer(values_.get<"max-concurrent-requests">()));
  facts.append_new("connections_max", json::Value::unsigned_integer(options.connections_max));
  facts.append_new("open_files_max", json::Value::unsigned_integer(open_files_));
  facts.append_new("api_key", keys_ != nullptr);
  facts.append_new("chat", static_cast<bool>(chat_));
  if (const Status status = write_status_file(facts); !status.ok()) {
    return StartFailure{"Status", status.message(), "Set TMPDIR to a folder you may write to."};
  }
  return std::nullopt;
}

milliseconds RouterProcess::grace() const {
  if (orphaned_.load()) return kOrphanGrace;
  const milliseconds all = values_.get<"graceful-termination-timeout">();
  return std::max(all - kLauncherReserve, all / 2);
}

void RouterProcess::end() {
  if (api_) api_->begin_draining();
  if (server_) server_->stop_accepting();
  drain();
  if (replicas_) replicas_->stop_supervisors();
  if (server_) server_->stop();
  if (metrics_server_) metrics_server_->stop();
  if (admin_server_) admin_server_->stop();
  if (api_) api_->stop();
  replicas_.reset();
}

// Until all is answered or the grace is over; each further signal halves what is left of it.
void RouterProcess::drain() {
  if (!replicas_ || !server_) return;
  TimePoint deadline = Clock::now() + grace();
  int n_seen = stop_.n_requests();
  while (Clock::now() < deadline) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (replicas_->fleet().drain(std::min(left, milliseconds(100)))) {
      if (server_->open_requests() == 0) return;
      std::this_thread::sleep_for(kSendingPause);  // answers on their way to the operating system
    }
    for (; n_seen < stop_.n_requests(); ++n_seen) {
      deadline = std::min(deadline, Clock::now() + (deadline - Clock::now()) / 2);
    }
    if (orphaned_.load()) deadline = std::min(deadline, Clock::now() + kOrphanGrace / 2);
  }
  api_->fail_open_calls(
      Status(Code::kUnavailable, ErrorKind::kUnavailable, "the server is shutting down"));
  const TimePoint last = Clock::now() + kLastAnswersPatience;
  while (server_->open_requests() > 0 && Clock::now() < last) {
    std::this_thread::sleep_for(kSendingPause);
  }
}

void RouterProcess::request_stop() {
  stop_.request_stop("asked for");
}

// The launcher, if there is one, ends the shards, too.
void RouterProcess::drain_everything() {
  const bool below_launcher = environment_.contains(kParentPipeVariable);
  if (below_launcher && ::getppid() == parent_pid_) {
    ::kill(parent_pid_, SIGTERM);
  } else {
    request_stop();
  }
}

// The launcher ended without telling us. Nothing may outlive it for long.
void RouterProcess::on_parent_gone() {
  orphaned_.store(true);
  stop_.request_stop("the launcher is gone", kOrphanExit);
}

void RouterProcess::dump_state() {
  const fleet::FleetStatus all = replicas_->view().status;
  for (std::size_t i = 0; i < all.replicas.size(); ++i) {
    const batch::EngineStats& stats = all.replicas[i].stats;
    const std::string line =
        all.replicas.size() == 1 ? "state" : "state of replica " + std::to_string(i);
    log_.info(line,
              {{"queued", std::uint64_t{stats.queued}},
               {"running", std::uint64_t{stats.running}},
               {"accepted", stats.accepted},
               {"finished", stats.finished},
               {"failed", stats.failed},
               {"cancelled", stats.cancelled},
               {"blocks_free", std::uint64_t{stats.blocks_free}},
               {"blocks_cached", std::uint64_t{stats.blocks_cached}},
               {"blocks_leased", std::uint64_t{stats.blocks_leased}}});
  }
}

namespace {

int print_schema(const options::OptionValues& values) {
  const std::string text =
      openapi::pretty(openapi::make_document(document_options(values, COXSWAIN_VERSION)));
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return written && std::fflush(stdout) == 0 ? 0 : kExitFailure;
}

}  // namespace

int run_router(int argc, char** argv) {
  const options::Environment environment = options::environment_of(environ);
  const options::ParseResult parsed =
      options::parse(options::Binary::kRouter, argc, argv, environment);
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  if (parsed.prints_schema) return print_schema(parsed.values);
  RouterProcess process(parsed.values, environment);
  return process.run(parsed.warnings);
}

}  // namespace coxswain::serve
