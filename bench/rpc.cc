// coxswain-bench-rpc: what it costs to hand a step to another process; kHelp says more.

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <coxswain/step_runner.h>
#include <sys/socket.h>

#include "base/mutex.h"
#include "base/testing/temp_folder.h"
#include "measures.h"
#include "require.h"
#include "rpc/fleet_transport.h"
#include "rpc/ucx_carrier.h"
#include "served_runner.h"

namespace coxswain {
namespace {

constexpr std::uint32_t kBlocks = 4096;
// What a decode step of 64 rows takes at least with 1B parameters in bfloat16 on two cores (coxswain-bench-runner).
constexpr std::int64_t kRowsOfStep = 64;
constexpr double kStepMicroseconds = 150'000;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-rpc [options of the benchmark library, see below]

What it costs to hand a step to another process: one plan there and its result back, over the
Engine stream, with 0 to 256 rows, beside a few bytes sent there and back over a bare Unix socket.
Lockstep: with look-ahead this time lies behind the step before.

Prints the library's table: wall and CPU time of one step in microseconds, and at 64 rows the share of
a decode step of 150 ms, which a model of 1B parameters in bfloat16 takes at least on two cores. The
goal is 2 %.

Then what it costs to pass KV blocks from one shard to another over the loopback as between machines: ticket
and bytes, of 1 and 16 MiB, over TLS and by UCX, with the processor time of all ends for each GiB. That
takes the program openssl, and the latter a build with COXSWAIN_UCX.

)";

// Answers every row with one token at once.
class InstantRunner final : public StepRunner {
 public:
  RunnerInfo info() const override {
    RunnerInfo info;
    info.engine_version = "bench";
    info.epoch = 1;
    info.vocab_size = 32'000;
    info.n_layers = 1;
    info.kv_groups = {{.layers = {0},
                       .kind = KvGroup::Kind::kFull,
                       .window = 0,
                       .bytes_per_block = 1,
                       .n_blocks = kBlocks}};
    info.capabilities = {.plans_chunks = true,
                         .selects_rows = true,
                         .grows_blocks = true,
                         .takes_ids = true,
                         .look_ahead = true,
                         .attachments = true,
                         .attachment_bytes_max = std::uint64_t{64} << 20};
    return info;
  }
  Result<StepTicket> submit(StepPlan plan) override {
    const StepTicket ticket{plan.step};
    const base::MutexLock lock(mu_);
    plans_.push_back(std::move(plan));
    return ticket;
  }
  Result<StepResult> wait(StepTicket, TimePoint) override {
    const base::MutexLock lock(mu_);
    StepResult result;
    result.step = plans_.front().step;
    result.epoch = 1;
    for (const Row& row : plans_.front().rows) {
      SequenceResult& sequence = result.sequences.emplace_back();
      sequence.sequence = row.sequence;
      sequence.tokens.push_back(
          {.id = 17, .logprob = -1.0F, .special = false, .text = " token", .alternatives = {}});
    }
    plans_.pop_front();
    return result;
  }
  Status healthy() override { return {}; }
  // One at a time.
  Status attach(Attachment attachment) override {
    attached_ = std::move(attachment);
    return {};
  }
  Result<Attachment> take(std::uint64_t) override { return std::move(attached_); }
  Status detach(std::uint64_t) override { return {}; }

 private:
  base::Mutex mu_;
  std::deque<StepPlan> plans_ GUARDED_BY(mu_);
  Attachment attached_;
};

void engine_stream(benchmark::State& state) {
  InstantRunner runner;
  const bench::ServedRunner served(runner);
  StepPlan plan;
  plan.epoch = 1;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    Row& row = plan.rows.emplace_back();
    row.sequence = SequenceId{static_cast<std::uint64_t>(i + 1)};
    row.first_position = 1000;
    row.n_tokens = 1;
    row.continues = true;
    row.emit = Emit::kSample;
  }
  const TimePoint begin = Clock::now();
  for (auto _ : state) {
    ++plan.step;
    auto result = served.client()->run(plan);
    if (!result.ok()) {
      state.SkipWithError(result.status().message().c_str());
      return;
    }
    benchmark::DoNotOptimize(result);
  }
  std::string label = "rows per step: " + std::to_string(state.range(0));
  if (state.range(0) == kRowsOfStep) {
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    const double share = elapsed.count() / static_cast<double>(state.iterations());
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), ", %.2f %% of 150 ms", 100 * share / kStepMicroseconds);
    label += text.data();
  }
  state.SetLabel(label);
}
BENCHMARK(engine_stream)
    ->Arg(0)
    ->Arg(1)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// The limit: two threads that wake each other through a socket.
void bare_socket(benchmark::State& state) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) {
    state.SkipWithError("no socket pair");
    return;
  }
  std::thread echo([fd = pair[1]] {
    std::array<char, 64> buffer{};
    for (;;) {
      const ssize_t n = ::read(fd, buffer.data(), buffer.size());
      if (n <= 0 || ::write(fd, buffer.data(), static_cast<std::size_t>(n)) != n) return;
    }
  });
  std::array<char, 64> buffer{};
  for (auto _ : state) {
    if (::write(pair[0], buffer.data(), buffer.size()) < 0 ||
        ::read(pair[0], buffer.data(), buffer.size()) <= 0) {
      state.SkipWithError("the socket failed");
      break;
    }
  }
  ::close(pair[0]);
  echo.join();
  ::close(pair[1]);
}
BENCHMARK(bare_socket)->Unit(benchmark::kMicrosecond)->UseRealTime();

// A shard as on a machine of its own, and the client of a router there.
class Machine {
 public:
  Machine(const security::PeerFiles& files, const std::string& socket, const char* ucx_networks)
      : service_(bench::require(
            rpc::ShardService::start(runner_, codec_, options(files, socket, ucx_networks), log_))),
        client_(bench::require(rpc::ShardedClient::connect(
            "tcp://127.0.0.1:" + std::to_string(service_->fleet_port()), {.peer_files = files}))) {}

  InstantRunner& runner() { return runner_; }
  rpc::ShardedClient* client() { return client_.get(); }

 private:
  static rpc::ShardServiceOptions options(const security::PeerFiles& files,
                                          const std::string& socket,
                                          const char* ucx_networks) {
    rpc::ShardServiceOptions out;
    out.socket_path = socket;
    out.fleet_address = "127.0.0.1:0";
    out.peer_files = files;
    if (ucx_networks != nullptr)
      out.ucx_networks = bench::require(rpc::parse_networks(ucx_networks));
    return out;
  }

  InstantRunner runner_;
  bench::NoText codec_;
  telemetry::Logger log_{{.level = telemetry::Level::kError, .target = "bench"}};
  std::unique_ptr<rpc::ShardService> service_;
  std::unique_ptr<rpc::ShardedClient> client_;
};

// A certificate of 127.0.0.1 that is its own authority.
security::PeerFiles certificate(const base::TempFolder& folder) {
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
      "-subj /CN=bench -addext subjectAltName=IP:127.0.0.1 -keyout " +
      folder.file("key") + " -out " + folder.file("pem") + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) return {};
  return {.certificate = folder.file("pem"), .key = folder.file("key"), .ca = folder.file("pem")};
}

void blocks_between_machines(benchmark::State& state, const char* ucx_networks) {
  const base::TempFolder folder;
  const security::PeerFiles files = certificate(folder);
  if (files.empty()) return state.SkipWithError("openssl makes no certificate");
  if (ucx_networks != nullptr && !rpc::has_ucx())
    return state.SkipWithError("built without COXSWAIN_UCX");
  Machine from(files, folder.file("from"), ucx_networks);
  Machine to(files, folder.file("to"), ucx_networks);
  telemetry::Logger log({.level = telemetry::Level::kError, .target = "bench"});
  rpc::FleetTransport transport(true, log);
  Attachment blocks{.kind = AttachmentKind::kBlocks};
  blocks.bytes.assign(static_cast<std::size_t>(state.range(0)) << 20, 'b');
  double cpu = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ++blocks.id;
    static_cast<void>(from.client()->attach(blocks));
    const double begin = bench::process_cpu_seconds();
    state.ResumeTiming();
    const auto passed = transport.pass(
        {.from = from.client(), .made = blocks.id, .to = to.client(), .as = blocks.id});
    cpu += bench::process_cpu_seconds() - begin;
    const auto arrived = to.runner().take(blocks.id);
    // Not SkipWithError(): the library reads what is not there if the first of several repetitions has failed.
    if (!passed.ok()) bench::die(passed.status());
    if (arrived.value() != blocks) bench::die(internal_error("other bytes arrived"));
  }
  const std::int64_t n_bytes = state.iterations() * state.range(0) << 20;
  state.SetBytesProcessed(n_bytes);
  state.counters["CPU s/GiB"] = cpu / static_cast<double>(n_bytes) * (1 << 30);
  state.SetLabel(std::string(transport.name()) + ", " + std::to_string(state.range(0)) + " MiB");
}
BENCHMARK_CAPTURE(blocks_between_machines, over_tls, nullptr)
    ->Arg(1)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(blocks_between_machines, by_ucx, "127.0.0.0/8")
    ->Arg(1)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  static char help[] = "--help";
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "-h") argv[i] = help;  // the library knows the long form only
  }
  benchmark::Initialize(&argc, argv, [] {
    std::fwrite(coxswain::kHelp.data(), 1, coxswain::kHelp.size(), stdout);
    benchmark::PrintDefaultHelp();
  });
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
