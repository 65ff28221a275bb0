// text-generation-router: HTTP in front, one engine loop over one replica behind.
//
// Order of the start: options, tokenizer and templates, the shard, limits, engine, HTTP. The port
// opens last, so that whoever can connect can also be served. Order of the end: no new connections,
// running requests finish within the grace, what is left gets one clear error, then threads are
// joined from the outside in.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/random.h>

#include "apps/chat_renderer.h"
#include "apps/crash_report.h"
#include "apps/early_signals.h"
#include "apps/parent_watch.h"
#include "apps/router_setup.h"
#include "apps/router_signals.h"
#include "apps/sibling.h"
#include "apps/standard_streams.h"
#include "apps/start_failure.h"
#include "apps/status_file.h"
#include "apps/text_files.h"
#include "batch/engine.h"
#include "http/server.h"
#include "json/json.h"
#include "options/options.h"
#include "router/api.h"
#include "router/replica_supervisor.h"
#include "rpc/sharded_client.h"
#include "rpc/stock_shard_client.h"
#include "runner/tokenizer_codec.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::apps {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectPatience{30'000};
constexpr milliseconds kConnectPause{200};
constexpr milliseconds kOrphanGrace{1'000};  // the launcher is gone: everything ends within 2 s
constexpr milliseconds kOrphanExit{1'800};
constexpr milliseconds kLastAnswersPatience{500};  // after the drain, for bytes on their way
constexpr milliseconds kSendingPause{5};
constexpr milliseconds kHealthAsked{2'000};  // so long after a /health an idle shard is probed
constexpr milliseconds kLauncherReserve{
    6'000};  // of the launcher's grace, for the shards and for our own end

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

std::uint64_t random_number() {
  std::uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Router {
 public:
  Router(const options::OptionValues& values, const options::Environment& environment)
      : values_(values),
        environment_(environment),
        log_(log_options(values)),
        stop_([this] { dump_state(); }),
        parent_([this] { on_parent_gone(); }) {}

  int run(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) log_.warn(warning);
    const auto failure = start();
    if (!failure) {
      stop_.wait();
      log_.info("signal received, starting graceful shutdown");
    }
    end();
    {
      std::lock_guard lock(ended_mu_);
      ended_ = true;
    }
    ended_changed_.notify_all();
    return failure ? report(log_, *failure) : 0;
  }

 private:
  std::optional<StartFailure> start() {
    if (values_.get_u64("validation-workers") == 0) {
      return bad_option("`validation_workers` must be > 0");
    }
    if (values_.find_u64("max-batch-size") == 0) {
      return bad_option("`max_batch_size` must be > 0");
    }
    if (auto failure = load_files()) return failure;
    if (auto failure = connect()) return failure;
    if (auto failure = start_engine()) return failure;
    return start_http();
  }

  std::optional<StartFailure> load_files() {
    const auto model = values_.find_string("tokenizer-name");
    if (!model) {
      return bad_option("`tokenizer_name` must be set to the model's folder");
    }
    const std::string config = values_.find_string("tokenizer-config-path").value_or("");
    auto tokenizer = tokenizer::Tokenizer::load(
        *model, {.tokenizer_config_path = tokenizer_config_path(values_)});
    if (!tokenizer.ok()) {
      return bad_text_files(tokenizer.status());
    }
    tokenizer_ = std::move(tokenizer).value();
    if (const std::string pattern = tokenizer_->unknown_split_pattern(); !pattern.empty()) {
      log_.warn(
          "the tokenizer's split pattern has no scanner of its own and runs slower, with limits",
          {{"pattern", std::string_view(pattern)}});
    }
    auto renderer = load_chat_renderer(*model, config);
    if (!renderer.ok()) {
      return bad_text_files(renderer.status());
    }
    renderer_ = std::move(renderer).value();
    if (!renderer_) log_.warn("the model has no chat template: chat routes answer 422");
    return std::nullopt;
  }

  Result<std::shared_ptr<StepRunner>> connect_once() {
    auto runner = connect_shard();
    if (runner.ok()) note_shard_process();
    return runner;
  }

  bool is_below_launcher() const { return environment_.contains("COXSWAIN_PARENT_PIPE"); }

  // Below a launcher a shard that stands still can be ended, for another one follows.
  void note_shard_process() {
    if (is_below_launcher())
      shard_process_ = find_sibling(values_.get_string("master-shard-uds-path"));
  }

  void end_stuck_shard() {
    if (!shard_process_ || !kill_sibling(*shard_process_)) return;
    log_.error("the shard stands still and is ended", {{"pid", std::int64_t{shard_process_->pid}}});
    shard_process_.reset();
  }

  Result<std::shared_ptr<StepRunner>> connect_shard() const {
    const std::string& path = values_.get_string("master-shard-uds-path");
    const std::string& protocol = values_.get_string("shard-protocol");
    if (protocol != "generate.v3") {
      auto client = rpc::ShardedClient::connect(path, {});
      if (client.ok()) return std::shared_ptr<StepRunner>(std::move(client).value());
      const bool is_stock = client.status().code() == Code::kUnimplemented;
      if (!is_stock || protocol == "engine") return client.status();
    }
    COXSWAIN_ASSIGN_OR_RETURN(
        auto client,
        rpc::StockShardClient::connect(path,
                                       stock_client_options(values_, tokenizer_->vocab_size()),
                                       std::make_shared<const runner::TokenizerCodec>(tokenizer_)));
    return std::shared_ptr<StepRunner>(std::move(client));
  }

  // The shard may be about to come back from a restart, so a first failure is not the end; below a
  // launcher, which ends everything if no shard comes back, no failure is.
  std::optional<StartFailure> connect() {
    TimePoint deadline = Clock::now() + kConnectPatience;
    for (;;) {
      auto runner = connect_once();
      if (runner.ok()) {
        runner_ = std::move(runner).value();
        info_ = runner_->info();
        if (!info_.capabilities.takes_ids) {
          log_.warn(
              "the shard is driven by generate.v3: no prefix cache, and answers may depend on what "
              "else runs");
        }
        return std::nullopt;
      }
      const bool late = Clock::now() >= deadline;
      if (runner.status().code() != Code::kUnavailable || (late && !is_below_launcher())) {
        return StartFailure{
            "Backend",
            "Backend failed: Unable to connect to the model shards: " + runner.status().message(),
            "Start text-generation-server, or name its socket with --master-shard-uds-path."};
      }
      if (late) {
        // One that is being loaded does not listen yet, so it is not found.
        note_shard_process();
        end_stuck_shard();
        deadline = Clock::now() + kConnectPatience;
      }
      log_.warn_limited("connect",
                        milliseconds(5'000),
                        "waiting for the shard",
                        {{"reason", runner.status().message()}});
      std::this_thread::sleep_for(kConnectPause);
    }
  }

  std::optional<StartFailure> start_engine() {
    const router::TokenLimitOptions asked = token_limit_options(values_);
    auto limits = router::resolve_limits(asked, info_);
    if (!limits.ok()) return bad_option(limits.status().message());
    limits_ = limits.value();
    if (tokenizer_->vocab_size() > info_.vocab_size) {
      log_.warn("the tokenizer knows more ids than the model; such ids are refused",
                {{"tokenizer", std::uint64_t{tokenizer_->vocab_size()}},
                 {"model", std::uint64_t{info_.vocab_size}}});
    }
    log_.info("Setting max batch total tokens to " +
              std::to_string(limits_.batch_total_tokens_max));
    if (!asked.input_tokens_max) {
      log_.info("Maximum input tokens defaulted to " + std::to_string(limits_.input_tokens_max));
    }
    if (!asked.total_tokens_max) {
      log_.info("Maximum total tokens defaulted to " + std::to_string(limits_.total_tokens_max));
    }
    metrics_.emplace(telemetry::MetricsOptions{.input_tokens_max = limits_.input_tokens_max,
                                               .total_tokens_max = limits_.total_tokens_max});
    metrics_->batch_max_total_tokens().set(static_cast<double>(limits_.batch_total_tokens_max));
    engine_ = batch::Engine::create(
        std::move(runner_), engine_options(values_, limits_, info_), log_, &*metrics_);
    return std::nullopt;
  }

  std::optional<StartFailure> start_http() {
    router::ApiOptions options = api_options(values_, limits_, info_);
    options.version = COXSWAIN_VERSION;
    if (const auto type = environment_.find("COMPUTE_TYPE");
        type != environment_.end() && !type->second.empty()) {
      options.compute_type = type->second;
    }
    options.unix_time = unix_time;
    options.random = random_number;
    const bool has_key = !options.auth.api_key.empty();
    api_ = std::make_unique<router::Api>(
        std::move(options), router::ApiParts{*engine_, tokenizer_, renderer_, &*metrics_, log_});
    supervisor_ = std::make_unique<router::ReplicaSupervisor>(
        router::ReplicaSupervisor::Parts{*engine_,
                                         [this] { return connect_once(); },
                                         [this](const Status& s) { api_->set_health(s); },
                                         &*metrics_,
                                         log_,
                                         [this] { return api_->health_asked(kHealthAsked); },
                                         [this] { end_stuck_shard(); }},
        info_,
        router::ReplicaSupervisor::Options{});
    std::vector<std::string> warnings;
    const http::ServerOptions http_options = server_options(values_, warnings);
    for (const std::string& warning : warnings) log_.warn(warning);
    if (auto failure = start_metrics(http_options)) return failure;
    auto server = http::Server::create(http_options);
    if (!server.ok()) return StartFailure{"Axum", server.status().message(), kOptionCure};
    server_ = std::move(server).value();
    api_->add_routes(*server_);
    if (const Status status = server_->start(); !status.ok()) {
      return bind_failure(http_options, status, "--port");
    }
    if (!has_key) log_.warn("no API key: whoever reaches this port can use it");
    return announce(http_options, has_key);
  }

  // The second port, for whoever collects metrics.
  std::optional<StartFailure> start_metrics(http::ServerOptions options) {
    const auto port = values_.find_u64("prometheus-port").value_or(0);
    if (port == 0) return std::nullopt;
    options.port = static_cast<std::uint16_t>(port);
    options.threads = 1;
    auto server = http::Server::create(options);
    if (!server.ok()) return StartFailure{"Axum", server.status().message(), kOptionCure};
    metrics_server_ = std::move(server).value();
    api_->add_metrics_route(*metrics_server_);
    if (const Status status = metrics_server_->start(); !status.ok()) {
      return bind_failure(options, status, "--prometheus-port");
    }
    return std::nullopt;
  }

  static StartFailure bind_failure(const http::ServerOptions& options,
                                   const Status& status,
                                   const std::string& option) {
    const std::string& message = status.message();
    const std::size_t reason = message.rfind(": ");
    const std::string address = options.address + ":" + std::to_string(options.port);
    return StartFailure{"Axum",
                        "Failed to bind to " + address + ": " +
                            (reason == std::string::npos ? message : message.substr(reason + 2)),
                        "Stop what listens there, or choose another " + option + "."};
  }

  // The last step of the start: from here on requests are served.
  std::optional<StartFailure> announce(const http::ServerOptions& options, bool has_key) {
    const bool any = options.address == "0.0.0.0" || options.address == "::";
    const bool v6 = options.address.find(':') != std::string::npos;
    const std::string host =
        any ? "127.0.0.1" : (v6 ? "[" + options.address + "]" : options.address);
    const std::string url = "http://" + host + ":" + std::to_string(server_->port());
    stop_.serve();
    log_.info("Connected", {{"url", std::string_view(url)}});
    json::Object facts;
    facts.append_new("url", url);
    facts.append_new("port", json::Value::unsigned_integer(server_->port()));
    facts.append_new("max_input_tokens", json::Value::unsigned_integer(limits_.input_tokens_max));
    facts.append_new("max_total_tokens", json::Value::unsigned_integer(limits_.total_tokens_max));
    facts.append_new("max_concurrent_requests",
                     json::Value::unsigned_integer(values_.get_u64("max-concurrent-requests")));
    facts.append_new("api_key", has_key);
    facts.append_new("chat", static_cast<bool>(renderer_));
    if (const Status status = write_status_file(facts); !status.ok()) {
      return StartFailure{"Status", status.message(), "Set TMPDIR to a folder you may write to."};
    }
    return std::nullopt;
  }

  milliseconds grace() const {
    if (orphaned_.load()) return kOrphanGrace;
    const milliseconds all = values_.get_ms("graceful-termination-timeout");
    return std::max(all - kLauncherReserve, all / 2);
  }

  void end() {
    if (api_) api_->begin_draining();
    if (server_) server_->stop_accepting();
    drain();
    if (supervisor_) supervisor_->stop();
    if (server_) server_->stop();
    if (metrics_server_) metrics_server_->stop();
    if (api_) api_->stop();
    engine_.reset();
  }

  // Until all is answered or the grace is over; each further signal halves what is left of it.
  void drain() {
    if (!engine_ || !server_) return;
    TimePoint deadline = Clock::now() + grace();
    int n_seen = stop_.n_requests();
    while (Clock::now() < deadline) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      if (engine_->drain(std::min(left, milliseconds(100)))) {
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

  // The launcher ended without telling us. Nothing may outlive it for long.
  void on_parent_gone() {
    orphaned_.store(true);
    stop_.request_stop();
    std::unique_lock lock(ended_mu_);
    if (!ended_changed_.wait_for(lock, kOrphanExit, [&] { return ended_; })) std::_Exit(1);
  }

  void dump_state() {
    if (!engine_) return;
    const batch::EngineStats stats = engine_->stats();
    log_.info("state",
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

  const options::OptionValues& values_;
  const options::Environment& environment_;
  telemetry::Logger log_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  router::ChatRenderer renderer_;
  std::shared_ptr<StepRunner> runner_;  // until the engine has it
  RunnerInfo info_;
  std::optional<Sibling> shard_process_;  // of the supervisor's thread once it runs
  router::TokenLimits limits_;
  std::optional<telemetry::Metrics> metrics_;
  std::unique_ptr<batch::Engine> engine_;
  std::unique_ptr<router::Api> api_;
  std::unique_ptr<router::ReplicaSupervisor> supervisor_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<http::Server> metrics_server_;  // of --prometheus-port
  std::atomic<bool> orphaned_{false};
  std::mutex ended_mu_;
  std::condition_variable ended_changed_;
  bool ended_ = false;  // guarded by ended_mu_
  RouterSignals stop_;
  ParentWatch parent_;
};

int run(int argc, char** argv) {
  const options::Environment environment = options::environment_of(environ);
  const options::ParseResult parsed =
      options::parse(options::Binary::kRouter, argc, argv, environment);
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  Router router(parsed.values, environment);
  return router.run(parsed.warnings);
}

}  // namespace
}  // namespace coxswain::apps

int main(int argc, char** argv) {
  coxswain::apps::hold_standard_streams();
  coxswain::apps::report_crashes();
  coxswain::apps::hold_signals();
  return coxswain::apps::run(argc, argv);
}
