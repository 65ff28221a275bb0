#include "fleet/plan/sim_engine.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

using std::chrono::duration;
using std::chrono::nanoseconds;

constexpr StepTimes kTimes{.step = 0.01,
                           .decode = 0.001,
                           .prompt_token = 1e-4,
                           .decode_context = 2e-6,
                           .prompt_context = 1e-7};

struct Request {
  nanoseconds at{};
  std::uint32_t n_prompt = 0;
  std::uint32_t n_output = 0;
};
struct Times {
  double first = 0.0;
  double last = 0.0;
  bool operator==(const Times&) const = default;
};

// One step after the other, each looked at.
std::vector<Times> step_by_step(const std::vector<Request>& requests, const EngineRules& rules) {
  struct State {
    std::uint32_t n_done = 0;  // of the prompt
    std::uint32_t n_out = 0;
  };
  std::vector<State> states(requests.size());
  std::vector<Times> out(requests.size());
  double now = 0.0;
  double decided = 0.0;
  std::size_t n_ended = 0;
  while (n_ended < requests.size()) {
    double takes = kTimes.step;
    std::uint32_t room = rules.step_prompt_tokens;
    std::vector<std::size_t> decodes;
    bool any = false;
    double next = 1e9;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& r = requests[i];
      const double at = duration<double>(r.at).count();
      if (at > now) next = std::min(next, at);
      if (states[i].n_out > 0 && states[i].n_out < r.n_output) {
        decodes.push_back(i);
        takes += kTimes.decode + kTimes.decode_context * (r.n_prompt + states[i].n_out);
        any = true;
      }
    }
    std::vector<std::size_t> begun;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& r = requests[i];
      if (duration<double>(r.at).count() > decided || states[i].n_out > 0 || room == 0) continue;
      const std::uint32_t n = std::min(room, r.n_prompt - states[i].n_done);
      takes += kTimes.prompt_token * n;
      for (std::uint32_t p = 0; p < n; ++p)
        takes += kTimes.prompt_context * (states[i].n_done + p + 1);
      states[i].n_done += n;
      room -= n;
      any = true;
      if (states[i].n_done == r.n_prompt) begun.push_back(i);
    }
    if (!any) {
      // Nothing was decided: whatever is there begins now.
      if (decided == now) now = next;
      decided = now;
      continue;
    }
    const double began = now;
    now += takes;
    decided = rules.look_ahead ? began : now;
    for (const std::size_t i : begun) out[i].first = now;
    for (const std::size_t i : decodes) ++states[i].n_out;
    for (const std::size_t i : begun) ++states[i].n_out;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (states[i].n_out != requests[i].n_output || out[i].last > 0.0) continue;
      out[i].last = now;
      ++n_ended;
    }
  }
  return out;
}

// What a run that ends does to its requests. Returns how many of them have all their tokens.
std::size_t note_ended(const SimEngine::Ended& ended,
                       nanoseconds now,
                       const std::vector<Request>& requests,
                       SimEngine& engine,
                       std::vector<Times>& out) {
  const double seconds = duration<double>(now).count();
  std::size_t n_ended = ended.sequences.size();
  for (const std::uint32_t i : ended.sequences) out[i].last = seconds;
  for (const std::uint32_t i : ended.prompts) {
    out[i].first = seconds;
    if (requests[i].n_output > 1) {
      engine.go_on(i, requests[i].n_prompt, requests[i].n_output - 1);
    } else {
      out[i].last = seconds;
      ++n_ended;
    }
  }
  return n_ended;
}

std::vector<Times> in_runs(const std::vector<Request>& requests, const EngineRules& rules) {
  SimEngine engine(kTimes, rules);
  std::vector<Times> out(requests.size());
  std::size_t n_ended = 0;
  std::size_t next_request = 0;
  std::optional<nanoseconds> ends;
  nanoseconds now{};
  while (n_ended < requests.size()) {
    const bool arrives =
        next_request < requests.size() && (!ends || requests[next_request].at < *ends);
    if (arrives) {
      now = requests[next_request].at;
      engine.add_prompt(
          now, static_cast<std::uint32_t>(next_request), requests[next_request].n_prompt);
      ++next_request;
    } else {
      now = *ends;
      n_ended += note_ended(engine.end(), now, requests, engine, out);
    }
    ends = engine.next(now, 1.0);
  }
  return out;
}

TEST(SimEngine, RunsAreThatManySteps) {
  std::mt19937 draw(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Request> requests;
    nanoseconds at{};
    for (int i = 0; i < 12; ++i) {
      at += nanoseconds(draw() % 400'000'000);
      requests.push_back({.at = at,
                          .n_prompt = 1 + static_cast<std::uint32_t>(draw() % 700),
                          .n_output = 1 + static_cast<std::uint32_t>(draw() % 40)});
    }
    const EngineRules rules{.step_prompt_tokens = 128, .look_ahead = round % 2 == 0};
    const std::vector<Times> a = step_by_step(requests, rules);
    const std::vector<Times> b = in_runs(requests, rules);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      // Times are rounded to nanoseconds, once in a run.
      EXPECT_NEAR(a[i].first, b[i].first, 1e-5) << round << " " << i;
      EXPECT_NEAR(a[i].last, b[i].last, 1e-5) << round << " " << i;
    }
  }
}

TEST(SimEngine, ADonorComputesItsPartOfAPrompt) {
  SimEngine engine({.step = 0.01, .decode = 0.0, .prompt_token = 0.001},
                   {.step_prompt_tokens = 100});
  engine.add_prompt(nanoseconds(0), 0, 100);
  EXPECT_EQ(engine.next(nanoseconds(0), 0.5), std::chrono::milliseconds(60));
}

TEST(SimEngine, ABatchHasNoMoreThanItsMost) {
  SimEngine engine(kTimes, {.step_prompt_tokens = 100, .batch_max = 2});
  for (std::uint32_t i = 0; i < 3; ++i) engine.add_prompt(nanoseconds(0), i, 10);
  const auto ends = engine.next(nanoseconds(0), 1.0);
  ASSERT_TRUE(ends);
  EXPECT_EQ(engine.n_queued(), 1U);
  EXPECT_EQ(engine.end().prompts.size(), 2U);
}

}  // namespace
}  // namespace coxswain::fleet
