#pragma once
// Managed: a program, its BatchManager and the fake runner below it. Checks what the runner saw when it goes.
//
// Thread rule: one thread makes and ends it; the program from any thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/batch_manager.h>
#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "json/json.h"
#include "manager/testing/program.h"

namespace coxswain::manager::testing {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;

struct Given {
  FakeRunnerOptions fake = {};
  BatchingType type = BatchingType::kInflightFused;
  CapacityPolicy policy = CapacityPolicy::kGuaranteedNoEvict;
  BatchManagerOptions options = {};
};

// A program, its manager and the runner below.
class Managed {
 public:
  explicit Managed(const Given& setup = {}) : Managed(setup, [](Managed&) {}) {}
  Managed(const Given& setup, const std::function<void(Managed&)>& prepare)
      : fake(setup.fake), runner(std::make_shared<FakeRunner>(setup.fake)) {
    prepare(*this);
    start(setup, program.callbacks());
  }
  Managed(const Given& setup, BatchManagerCallbacks on)
      : fake(setup.fake), runner(std::make_shared<FakeRunner>(setup.fake)) {
    start(setup, std::move(on));
  }
  ~Managed() {
    manager.reset();
    for (const std::string& what : runner->violations()) ADD_FAILURE() << what;
  }

  std::vector<TokenId> expected(const std::vector<TokenId>& prompt, std::uint32_t n_new) const {
    return batch::testing::expected_output(fake, plain_request(prompt, n_new)).tokens;
  }

  FakeRunnerOptions fake;
  Program program;
  std::shared_ptr<FakeRunner> runner;
  std::unique_ptr<BatchManager> manager;

 private:
  void start(const Given& setup, BatchManagerCallbacks on) {
    auto made =
        BatchManager::create(runner, setup.type, 4, setup.policy, std::move(on), setup.options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    manager = std::move(made).value();
  }
};

inline const std::vector<TokenId> kPrompt{5, 7, 9, 11, 13};

inline std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::uint64_t number(const std::string& json, std::string_view key) {
  const auto parsed = json::parse(json);
  const json::Value* value = parsed.ok() ? parsed.value().find(key) : nullptr;
  return value != nullptr ? value->to_uint64().value_or(~0ULL) : ~0ULL;
}

// Calls `act` by the worker as soon as a request has had three responses.
inline std::function<void(Managed&)> at_the_third_response(std::uint64_t id,
                                                           std::function<void(Managed&)> act) {
  return [id, act = std::move(act)](Managed& m) {
    m.program.on_send = [&m, id, act, n = 0](std::uint64_t sent, bool) mutable {
      if (sent == id && ++n == 3) act(m);
    };
  };
}

}  // namespace coxswain::manager::testing
