// coxswain-bench-handover: what it costs to hand a prompt's KV blocks from one engine to another; kHelp says more.

#include "batch/handover.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "base/mutex.h"
#include "forked_runner.h"
#include "handover_split.h"
#include "measures.h"
#include "require.h"
#include "rpc/memory_transport.h"
#include "runner/local_runner.h"
#include "served_runner.h"
#include "timed_sink.h"

namespace coxswain {
namespace {

using bench::die;
using bench::median;
using bench::require;
using Seconds = std::chrono::duration<double>;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-handover MODEL [--tokens N] [--rounds N] [--threads N] [--layers K]
           [--chunk N] [--shards no|memory|router|processes]

One engine computes a prompt of N tokens (2000) and its first token; a second one goes on, in turn behind the blocks that
are handed over and behind the prompt computed again. Prints medians over the rounds (7) of: the prompt at the first
engine; from then to the second token, both ways; of the hand-over its time, bytes and bytes a second.

  MODEL    folder of a model, for example models/demo
  --chunk N  the first engine computes the prompt in chunks of N tokens (4096); in turn with the other two ways, blocks
           of a chunk pass while later ones are computed, and the hand-over has the rest
  --shards memory|router: both runners behind sockets as shards are, though in one process; the bytes pass through shared
           memory, or through the middle. processes: each runner in a process of its own, the bytes through shared
           memory. no (the default): the engines call the runners
  --layers K  the first engine computes the first K layers of the prompt alone, the second one the others: medians of how
           long each takes; and prompts a second of a backlog of six, divided so and by the second engine alone

Tokens of both ways must be equal; ends with 1 otherwise.
)";

// An engine over a runner of its own, behind a socket or not.
class Side {
 public:
  Side(const runner::RunnerOptions& options,
       bool behind_socket,
       std::string_view name,
       std::uint32_t chunk)
      : local_(require(runner::LocalRunner::create(options))) {
    std::shared_ptr<StepRunner> runner = local_;
    if (behind_socket) {
      served_ = std::make_unique<bench::ServedRunner>(*local_, name);
      runner = served_->client();
    }
    engine_ = batch::Engine::create(std::move(runner), {.prefill_tokens_max = chunk});
  }
  Side(bench::ForkedRunner& forked, std::uint32_t chunk)
      : engine_(batch::Engine::create(forked.connect(), {.prefill_tokens_max = chunk})) {}
  ~Side() { engine_.reset(); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  batch::Engine& engine() { return *engine_; }

 private:
  std::shared_ptr<runner::LocalRunner> local_;
  std::unique_ptr<bench::ServedRunner> served_;
  std::unique_ptr<batch::Engine> engine_;
};

// Blocks of a prompt that pass while it is computed: what was told last, one transfer behind the other.
class AheadOf {
 public:
  AheadOf(batch::HandoverService& service, batch::HandoverJob job)
      : service_(service), job_(std::move(job)) {}

  void told(std::shared_ptr<const batch::ParkedContext> front) {
    base::MutexLock lock(mu_);
    std::swap(next_, front);
    if (front != nullptr) batch::release_parked(*job_.from, *front);
    start_next();
  }
  // What is under way has passed, and nothing more does. Returns its bytes.
  std::uint64_t end() {
    base::MutexLock lock(mu_);
    over_ = true;
    idle_.wait(lock, [&]() REQUIRES(mu_) { return !runs_; });
    if (next_ != nullptr) batch::release_parked(*job_.from, *next_);
    return n_bytes_;
  }

 private:
  void start_next() REQUIRES(mu_) {
    if (over_ || runs_ || next_ == nullptr) return;
    batch::HandoverJob job = job_;
    job.parked = std::exchange(next_, nullptr);
    runs_ = true;
    service_.start(std::move(job), [this](const batch::HandoverResult& result) {
      if (!result.status.ok()) die(result.status);
      base::MutexLock lock(mu_);
      n_bytes_ += result.n_bytes;
      runs_ = false;
      start_next();
      idle_.notify_all();
    });
  }

  batch::HandoverService& service_;
  const batch::HandoverJob job_;
  base::Mutex mu_;
  base::CondVar idle_;
  std::shared_ptr<const batch::ParkedContext> next_ GUARDED_BY(mu_);
  bool runs_ GUARDED_BY(mu_) = false;
  bool over_ GUARDED_BY(mu_) = false;
  std::uint64_t n_bytes_ GUARDED_BY(mu_) = 0;
};

struct Figures {
  std::vector<double> prompt_s;
  std::vector<double> prompt_ahead_s;
  std::vector<double> ahead_s;  // to the second token
  std::vector<double> n_bytes_ahead;
  std::vector<double> moved_s;
  std::vector<double> again_s;
  std::vector<double> transfer_s;
  std::uint64_t n_bytes = 0;
};

class Rounds {
 public:
  Rounds(Side& first,
         Side& second,
         std::uint32_t n_tokens,
         bool in_chunks,
         std::unique_ptr<BlockTransport> by)
      : first_(first),
        second_(second),
        n_tokens_(n_tokens),
        in_chunks_(in_chunks),
        service_({}, std::move(by)) {}

  Figures run(std::uint32_t n_rounds) {
    for (std::uint32_t i = 0; i <= n_rounds; ++i) {
      if (i == 1) figures_ = {};  // the first one is to warm up
      if (in_chunks_) go_on_ahead();
      const auto [context, parked] = compute_prompt();
      // Another salt: nothing is found that the other way has left.
      const std::vector<TokenId> moved = go_on(context, parked);
      batch::GenerationRequest again = context;
      again.cache_salt += " again";
      if (go_on(again, nullptr) != moved) end_different();
    }
    return figures_;
  }

 private:
  using Computed = std::pair<batch::GenerationRequest, std::shared_ptr<const batch::ParkedContext>>;

  batch::GenerationRequest make_request() {
    batch::GenerationRequest request;
    request.id = RequestId{++n_requests_};
    for (std::uint32_t i = 0; i < n_tokens_; ++i)
      request.prompt.push_back(static_cast<TokenId>(5 + (i * 37 + i / 50) % 1000));
    request.cache_salt = std::to_string(n_requests_);
    request.stopping = {.max_new_tokens = 4, .ignore_eos = true};
    return request;
  }

  Computed compute_prompt() { return compute_prompt(make_request(), {}, figures_.prompt_s); }
  Computed compute_prompt(
      batch::GenerationRequest request,
      const std::function<void(std::shared_ptr<const batch::ParkedContext>)>& on_blocks_ahead,
      std::vector<double>& seconds) {
    batch::GenerationRequest context = request;
    context.on_blocks_ahead = on_blocks_ahead;
    context.context_only = std::chrono::seconds(30);
    const auto sink = std::make_shared<bench::TimedSink>();
    const TimePoint begin = Clock::now();
    if (Status status = first_.engine().submit(std::move(context), sink); !status.ok()) die(status);
    const batch::TokenEvent last = sink->wait();
    seconds.push_back(Seconds(Clock::now() - begin).count());
    request.progress = {.ids = sink->ids(), .cumulative_logprob = last.cumulative_logprob};
    return {std::move(request), last.parked};
  }

  void go_on_ahead() {
    const batch::GenerationRequest request = make_request();
    AheadOf ahead(
        service_,
        {.from = &first_.engine(), .to = &second_.engine(), .request = request, .ahead = true});
    const auto told = [&](auto front) { ahead.told(std::move(front)); };
    const auto [context, parked] = compute_prompt(request, told, figures_.prompt_ahead_s);
    const TimePoint begin = Clock::now();
    figures_.n_bytes_ahead.push_back(static_cast<double>(ahead.end()));
    const std::vector<TokenId> ids = go_on(context, parked, begin, figures_.ahead_s);
    batch::GenerationRequest again = context;
    again.cache_salt += " again";
    std::vector<double> unused;
    if (go_on(again, nullptr, Clock::now(), unused) != ids) end_different();
  }

  [[noreturn]] static void end_different() {
    std::puts("the tokens differ");
    std::exit(1);
  }

  std::vector<TokenId> go_on(const batch::GenerationRequest& request,
                             std::shared_ptr<const batch::ParkedContext> parked) {
    auto& seconds = parked != nullptr ? figures_.moved_s : figures_.again_s;
    return go_on(request, std::move(parked), Clock::now(), seconds);
  }
  // Returns what follows the first token, which came at `begin`.
  std::vector<TokenId> go_on(const batch::GenerationRequest& request,
                             std::shared_ptr<const batch::ParkedContext> parked,
                             TimePoint begin,
                             std::vector<double>& seconds) {
    const bool moves = parked != nullptr;
    const auto sink = std::make_shared<bench::TimedSink>();
    std::promise<batch::HandoverResult> promise;
    service_.start({.from = &first_.engine(),
                    .to = &second_.engine(),
                    .parked = std::move(parked),
                    .request = request,
                    .sink = sink},
                   [&](batch::HandoverResult result) { promise.set_value(std::move(result)); });
    const batch::HandoverResult result = promise.get_future().get();
    if (!result.status.ok()) die(result.status);
    if (moves && !result.moved) die(result.why_not);
    sink->wait();
    seconds.push_back(Seconds(sink->first_at() - begin).count());
    if (&seconds == &figures_.moved_s)
      figures_.transfer_s.push_back(Seconds(result.duration).count());
    figures_.n_bytes = std::max(figures_.n_bytes, result.n_bytes);
    return sink->ids();
  }

  Side& first_;
  Side& second_;
  const std::uint32_t n_tokens_;
  const bool in_chunks_;
  batch::HandoverService service_;
  Figures figures_;
  std::uint64_t n_requests_ = 0;
};

int run(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const std::uint32_t n_tokens = arguments.count("tokens", 2000);
  const std::uint32_t n_rounds = arguments.count("rounds", 7);
  const std::string shards =
      arguments.one_of("shards", {"no", "memory", "router", "processes"}, "no");
  runner::RunnerOptions options;
  options.n_threads = arguments.count("threads", 1);
  options.model_dir = arguments.required_word("MODEL");
  const std::uint32_t chunk = arguments.count("chunk", 4096);
  const std::uint32_t n_layers = arguments.count("layers", 0);
  arguments.finish();
  options.without_text = true;
  options.max_total_tokens = n_tokens + 8;
  options.kv_blocks = (n_layers > 0 ? 16 : 4) * (n_tokens / options.block_tokens + 2);
  options.max_batch_size = 4;
  options.attachment_bytes_max = std::uint64_t{32} << 20;
  const bool forks = shards == "processes";
  std::vector<std::unique_ptr<bench::ForkedRunner>> forked;
  for (const std::string_view name : {"first", "second"})
    if (forks) forked.push_back(std::make_unique<bench::ForkedRunner>(options, name));
  const auto side = [&](std::size_t i) {
    if (forks) return std::make_unique<Side>(*forked[i], chunk);
    return std::make_unique<Side>(options, shards != "no", i == 0 ? "first" : "second", chunk);
  };
  const std::unique_ptr<Side> first = side(0);
  const std::unique_ptr<Side> second = side(1);
  std::unique_ptr<BlockTransport> by;
  if (shards == "memory" || forks) by = std::make_unique<rpc::MemoryTransport>();
  if (n_layers > 0) {
    bench::run_split({.first = first->engine(),
                      .second = second->engine(),
                      .n_layers = n_layers,
                      .n_tokens = n_tokens,
                      .n_rounds = n_rounds},
                     std::move(by));
    return 0;
  }
  const Figures all =
      Rounds(*first, *second, n_tokens, chunk < n_tokens, std::move(by)).run(n_rounds);
  const double transfer = median(all.transfer_s);
  const double mib = static_cast<double>(all.n_bytes) / (1 << 20);
  std::printf("%u tokens, %u rounds, medians\n", n_tokens, n_rounds);
  std::printf("  prompt and first token at the first engine  %8.2f ms\n",
              median(all.prompt_s) * 1e3);
  std::printf("  to the second token, blocks handed over     %8.2f ms\n",
              median(all.moved_s) * 1e3);
  std::printf("  to the second token, computed again         %8.2f ms\n",
              median(all.again_s) * 1e3);
  std::printf("  hand-over up to the commit                  %8.2f ms, %.2f MiB, %.0f MiB/s\n",
              transfer * 1e3,
              mib,
              mib / transfer);
  if (all.ahead_s.empty()) return 0;
  std::printf("  blocks of earlier chunks ahead of the first token: %.2f MiB\n",
              median(all.n_bytes_ahead) / (1 << 20));
  std::printf("  prompt and first token at the first engine  %8.2f ms\n",
              median(all.prompt_ahead_s) * 1e3);
  std::printf("  to the second token, the rest handed over   %8.2f ms\n",
              median(all.ahead_s) * 1e3);
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  return coxswain::run(argc, argv);
}
