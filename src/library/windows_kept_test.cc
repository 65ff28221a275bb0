// Blocks of a model with windows that leave the cache and come back, on the demo model with windows put on it: with a
// saved session, and from the memory behind the cache. Law 1: what follows is what a fresh computation yields.

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <coxswain/executor.h>
#include <coxswain/generate.h>
#include <coxswain/local_model.h>
#include <coxswain/session.h>
#include <gtest/gtest.h>

namespace coxswain::library {
namespace {

struct Windows {
  std::vector<std::uint32_t> windows;
  std::uint32_t sinks = 0;
};

class WindowsKept : public ::testing::TestWithParam<Windows> {
 protected:
  static Result<LocalModel> open() {
    const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
    return open_model(std::string(root != nullptr ? root : ".") + "/models/demo",
                      {.n_threads = 1,
                       .kv_bytes = std::uint64_t{3} << 19,
                       .max_attention_window = GetParam().windows,
                       .sink_token_length = GetParam().sinks,
                       .total_tokens_max = 256,
                       .prefill_tokens_max = 64,
                       .batch_size_max = 2});
  }
  // Longer than the windows. Half of what is said is drawn.
  static Request request(std::size_t n_prompt, std::uint64_t family) {
    Request out;
    for (std::size_t i = 0; i < n_prompt; ++i)
      out.prompt.ids.push_back(static_cast<TokenId>(5 + (i * 37 + family * (i / 3 + 1)) % 900));
    out.stopping = {.max_new_tokens = 12, .ignore_eos = true};
    out.sampling.do_sample = family % 2 == 1;
    out.sampling.seed = family;
    out.sampling.n_top_tokens = 3;
    return out;
  }
  static Response fresh(const LocalModel& model, const Request& request) {
    Executor engine(model, {.prefix_caching = false});
    return generate(engine, request);
  }
};

TEST_P(WindowsKept, ASavedSessionGoesOnAsIfComputedAnew) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("windows_kept_" + std::to_string(::getpid()));
  const auto await_turn = [](Session& session) {
    std::vector<OutputToken> out;
    for (;;) {
      Response piece = session.await();
      EXPECT_TRUE(piece.status.ok()) << piece.status.message();
      std::ranges::move(piece.tokens, std::back_inserter(out));
      if (piece.final) return std::pair(out, piece.usage.n_cached_prompt_tokens);
    }
  };
  std::vector<TokenId> ids;
  {
    const auto model = open();
    ASSERT_TRUE(model.ok()) << model.status().message();
    Executor engine(*model);
    Sessions sessions(engine);
    auto session = sessions.start(1).value();
    ASSERT_TRUE(session.enqueue(request(120, 3)).ok());
    static_cast<void>(await_turn(session));
    ids = session.history();
    ASSERT_TRUE(session.save(path).ok());
  }
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  Request turn = request(40, 5);
  std::vector<OutputToken> restored;
  {
    Executor engine(*model);
    Sessions sessions(engine);
    auto session = sessions.restore(2, path);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->enqueue(turn).ok());
    const auto [tokens, n_cached] = await_turn(*session);
    EXPECT_EQ(n_cached, (ids.size() - 1) / 16 * 16);
    restored = tokens;
  }
  turn.prompt.ids.insert(turn.prompt.ids.begin(), ids.begin(), ids.end());
  EXPECT_EQ(restored, fresh(*model, turn).tokens);
  std::filesystem::remove(path);
}

TEST_P(WindowsKept, WhatTheCacheHasLostComesBackFromMemory) {
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  constexpr std::uint64_t kFamilies = 30;  // more than the windows of all fit
  std::vector<Response> alone;
  for (std::uint64_t family = 0; family < kFamilies; ++family)
    alone.push_back(fresh(*model, request(100 + family, family)));
  Executor engine(*model, {.kv_host_bytes_max = std::uint64_t{8} << 20});
  std::uint64_t n_onboarded = 0;
  for (int round = 0; n_onboarded < 20; ++round) {
    ASSERT_LT(round, 200) << "nothing comes back";
    for (std::uint64_t family = 0; family < kFamilies; ++family) {
      const Response answer = generate(engine, request(100 + family, family));
      ASSERT_EQ(answer.tokens, alone[family].tokens) << "family " << family;
    }
    for (const IterationStats& step : engine.iteration_stats())
      n_onboarded = std::max(n_onboarded, step.kv.tier.memory_blocks_onboarded);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Windows,
    WindowsKept,
    ::testing::Values(Windows{{40, 0}}, Windows{{40}}, Windows{{33, 70}, 5}, Windows{{0, 20}, 18}));

}  // namespace
}  // namespace coxswain::library
