#include "engine_share.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "batch/engine_core.h"
#include "require.h"
#include "served_runner.h"

namespace coxswain::bench {
namespace {

using std::chrono::duration;

class NullSink final : public batch::TokenSink {
 public:
  void on_event(batch::TokenEvent event) override {
    if (!event.status.ok()) die(event.status);
  }
};

struct Turn {
  double wall_us = 0;
  double computing_us = 0;
};

// One pass of the engine's loop: the next step is submitted before the oldest is waited for.
Turn turn(batch::EngineCore& core) {
  const TimePoint begin = Clock::now();
  core.advance(begin);
  while (core.submit_next(begin)) {
  }
  StepResult result = require(core.wait_oldest());
  const double computing = duration<double, std::micro>(result.timings.total).count();
  core.apply_oldest(std::move(result), Clock::now());
  return {duration<double, std::micro>(Clock::now() - begin).count(), computing};
}

}  // namespace

void print_engine_share(StepRunner& runner,
                        std::uint32_t n_streams,
                        std::uint32_t n_prompt,
                        std::uint32_t n_steps) {
  const ServedRunner served(runner);
  const std::uint32_t vocab_size = served.client()->info().vocab_size;
  batch::EngineCore core(served.client(), {}, {1, 2}, {});
  const auto sink = std::make_shared<NullSink>();
  constexpr std::uint32_t kWarmSteps = 4;
  for (std::uint32_t s = 0; s < n_streams; ++s) {
    batch::GenerationRequest request;
    request.id = RequestId{s + 1};
    for (std::uint32_t i = 0; i < n_prompt; ++i)
      request.prompt.push_back(static_cast<TokenId>((i * 7919 + s * 104729 + 5) % vocab_size));
    // The last steps of a request are outside what is measured.
    request.stopping = {.max_new_tokens = n_steps, .ignore_eos = true};
    core.add(std::move(request), sink, Clock::now());
  }
  for (std::uint32_t i = 0; i < kWarmSteps; ++i) turn(core);
  Turn sum;
  std::vector<double> rests;
  const std::uint32_t n_measured = n_steps - 2 * kWarmSteps;
  for (std::uint32_t i = 0; i < n_measured; ++i) {
    const Turn one = turn(core);
    sum.wall_us += one.wall_us;
    sum.computing_us += one.computing_us;
    rests.push_back(one.wall_us - one.computing_us);
  }
  while (core.n_sequences() > 0) turn(core);
  std::sort(rests.begin(), rests.end());
  std::printf(
      "engine and socket, %u streams: step %.2f ms, of it not computing %.0f us (median %.0f us): "
      "%.2f %%\n",
      n_streams,
      sum.wall_us / n_measured / 1e3,
      (sum.wall_us - sum.computing_us) / n_measured,
      rests[rests.size() / 2],
      100 * (1 - sum.computing_us / sum.wall_us));
}

}  // namespace coxswain::bench
