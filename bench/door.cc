// coxswain-bench-door: what the fleet costs where it stands before a single engine; kHelp says more.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "batch/engine.h"
#include "fleet/fleet.h"
#include "measures.h"

namespace {

using namespace coxswain;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-door [SEQUENCES] [STEPS] [ROUNDS]

CPU time of this thread for requests that are submitted, yield a token in each step and end: handed to an engine that
computes nothing, and to a fleet before that engine. Both arms in turn, the median of the rounds.

  SEQUENCES  at a time (64)
  STEPS      tokens of each (200)
  ROUNDS     of each arm (101)

Prints ns per event and ns per request of both arms, and the difference.
)";

constexpr std::size_t kPromptTokens = 256;

// Takes events as the router's delivery does: those of a step in one call.
class CountingOutlet final : public batch::EventOutlet {
 public:
  void on_events(std::span<batch::SinkEvent> events) override { n_ += events.size(); }
  std::uint64_t n() const { return n_; }

 private:
  std::uint64_t n_ = 0;
};

class OutletSink final : public batch::TokenSink {
 public:
  explicit OutletSink(batch::EventOutlet& outlet) : outlet_(outlet) {}
  void on_event(batch::TokenEvent) override {}
  batch::EventOutlet* outlet() override { return &outlet_; }

 private:
  batch::EventOutlet& outlet_;
};

// Hands out tokens when it is told to, on the caller's thread.
class EmptyEngine final : public batch::Engine {
 public:
  Status submit(batch::GenerationRequest, std::shared_ptr<batch::TokenSink> sink) override {
    sinks_.push_back(std::move(sink));
    return {};
  }
  void cancel(RequestId) override {}
  void post(batch::EngineWork) override {}
  batch::EngineStats stats() const override { return {}; }
  Status healthy() const override { return {}; }
  bool drain(std::chrono::milliseconds) override { return true; }
  void replace_runner(std::shared_ptr<StepRunner>) override {}

  // As EngineCore hands over the events of a step.
  void step(bool last) {
    events_.clear();
    for (const auto& sink : sinks_) {
      batch::TokenEvent event;
      event.tokens.resize(1);
      event.final = last;
      if (last) event.finish.emplace();
      events_.push_back({sink, std::move(event)});
    }
    if (!events_.empty()) events_.front().sink->outlet()->on_events(events_);
    if (last) sinks_.clear();
  }

 private:
  std::vector<std::shared_ptr<batch::TokenSink>> sinks_;
  std::vector<batch::SinkEvent> events_;
};

struct Cost {
  std::vector<double> per_event;
  std::vector<double> per_request;
};

void run_round(batch::RequestDoor& door,
               EmptyEngine& engine,
               std::uint32_t n_sequences,
               std::uint32_t n_steps,
               Cost& cost) {
  CountingOutlet outlet;
  const auto sink = std::make_shared<OutletSink>(outlet);
  const double begin = 1e9 * bench::thread_cpu_seconds();
  for (std::uint64_t id = 1; id <= n_sequences; ++id) {
    batch::GenerationRequest request;
    request.id = RequestId{id};
    request.prompt.resize(kPromptTokens);
    if (!door.submit(std::move(request), sink).ok()) std::fputs("refused\n", stderr);
  }
  const double submitted = 1e9 * bench::thread_cpu_seconds();
  for (std::uint32_t i = 1; i < n_steps; ++i) engine.step(false);
  const double yielded = 1e9 * bench::thread_cpu_seconds();
  engine.step(true);
  const double ended = 1e9 * bench::thread_cpu_seconds();
  const double n_events = static_cast<double>(n_sequences) * (n_steps - 1);
  if (outlet.n() != std::uint64_t{n_sequences} * n_steps)
    std::fputs("events are missing\n", stderr);
  cost.per_event.push_back((yielded - submitted) / n_events);
  cost.per_request.push_back((submitted - begin + ended - yielded) / n_sequences);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const std::uint32_t n_sequences = arguments.count_word("SEQUENCES", 64);
  const std::uint32_t n_steps = std::max(arguments.count_word("STEPS", 200), 2U);
  const std::uint32_t n_rounds = arguments.count_word("ROUNDS", 101);
  arguments.finish();

  EmptyEngine alone;
  EmptyEngine* behind = nullptr;
  batch::EngineObserver nobody;
  telemetry::Logger log({.level = telemetry::Level::kError, .target = "bench"});
  fleet::Fleet fleet({{.make_engine =
                           [&](batch::EngineObserver&) {
                             auto engine = std::make_unique<EmptyEngine>();
                             behind = engine.get();
                             return engine;
                           },
                       .observer = nobody}},
                     {},
                     {.log = log});
  Cost direct;
  Cost through;
  for (std::uint32_t i = 0; i < n_rounds; ++i) {
    run_round(alone, alone, n_sequences, n_steps, direct);
    run_round(fleet, *behind, n_sequences, n_steps, through);
  }
  const auto print =
      [](const char* what, const std::vector<double>& a, const std::vector<double>& b) {
        std::printf("%-12s engine %7.0f ns   fleet %7.0f ns   more %7.0f ns\n",
                    what,
                    bench::median(a),
                    bench::median(b),
                    bench::median(b) - bench::median(a));
      };
  print("event", direct.per_event, through.per_event);
  print("request", direct.per_request, through.per_request);
  return 0;
}
