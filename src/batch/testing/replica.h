#pragma once
// Replica: an engine over a runner of its own, for tests in which blocks pass from one to another.
//
// Thread rule: that of Engine.

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"

namespace coxswain::batch::testing {

inline FakeRunnerOptions handover_fake(std::vector<std::uint32_t> windows = {0},
                                       std::uint32_t n_blocks = 65) {
  FakeRunnerOptions out;
  out.windows = std::move(windows);
  out.n_blocks.assign(out.windows.size(), n_blocks);
  out.capabilities.attachments = true;
  out.capabilities.exports_beside = true;
  out.capabilities.attachment_bytes_max = 22 << 10;
  out.about.max_total_tokens = 240;
  return out;
}

// An engine with its runner. In the end the runner's rules were kept, and no block is held.
struct Replica {
  explicit Replica(const FakeRunnerOptions& fake, EngineOptions options = {})
      : runner(std::make_shared<FakeRunner>(fake)) {
    options.check_invariants = true;
    engine = Engine::create(runner, options);
  }
  ~Replica() {
    EXPECT_TRUE(engine->drain(std::chrono::seconds(10)));
    wait_for_no_leases();
    engine.reset();
    EXPECT_TRUE(runner->violations().empty()) << runner->violations().front();
    EXPECT_TRUE(runner->attached().empty()) << "an attachment is left";
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  std::shared_ptr<Recorder> run(const GenerationRequest& r) const {
    auto sink = std::make_shared<Recorder>();
    EXPECT_TRUE(engine->submit(r, sink).ok());
    EXPECT_TRUE(sink->wait().ok()) << sink->wait().message();
    return sink;
  }
  // Where it stays so, the test fails by the limit of the whole program.
  void wait_for_no_leases() const {
    while (engine->stats().blocks_leased > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::shared_ptr<FakeRunner> runner;
  std::unique_ptr<Engine> engine;
};

}  // namespace coxswain::batch::testing
