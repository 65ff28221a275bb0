// Random operations on a KvCache, its pools and its prefix index: 10^5 of them, or COXSWAIN_KVCACHE_OPERATIONS.

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvcache/testing/cache_model.h"

namespace coxswain::kvcache {
namespace {

using testing::CacheModel;

constexpr std::uint64_t kOperationsOfASeed = 5'000;

std::uint64_t operations() {
  const char* given = std::getenv("COXSWAIN_KVCACHE_OPERATIONS");
  return given == nullptr ? 100'000 : std::strtoull(given, nullptr, 10);
}

TEST(KvCacheRandom, AgreesWithTheNaiveModel) {
  const std::vector<std::vector<KvGroupOptions>> shapes = {
      {{.n_blocks = 17}, {.n_blocks = 20}},
      {{.n_blocks = 24}, {.n_blocks = 14, .window_tokens = 5}},
      {{.n_blocks = 17}, {.n_blocks = 24, .window_tokens = 6}, {.n_blocks = 9, .window_tokens = 1}},
      {{.n_blocks = 16, .window_tokens = 5}},
      {{.n_blocks = 16, .window_tokens = 4}, {.n_blocks = 14, .window_tokens = 2}},
      {{.n_blocks = 24}, {.n_blocks = 18, .window_tokens = 5, .sink_tokens = 3}},
      {{.n_blocks = 18, .window_tokens = 4, .sink_tokens = 5}},
      {{.n_blocks = 17},
       {.n_blocks = 24, .window_tokens = 6, .sink_tokens = 1},
       {.n_blocks = 10, .window_tokens = 1, .sink_tokens = 4}}};
  std::uint64_t n_shortened = 0;
  std::uint64_t n_refilled = 0;
  for (std::uint64_t seed = 1; seed * kOperationsOfASeed <= operations(); ++seed) {
    const auto& groups = shapes[seed % shapes.size()];
    SCOPED_TRACE("seed " + std::to_string(seed));
    CacheModel model(seed, seed % 2 == 0 ? 4 : 2, groups);
    for (std::uint64_t i = 0; i < kOperationsOfASeed; ++i) {
      ASSERT_NO_FATAL_FAILURE(model.step()) << "operation " << i;
      if (HasFailure()) return;
    }
    model.finish();
    EXPECT_GT(model.n_hits(), 20U);
    EXPECT_GT(model.n_evicted(), 100U);
    EXPECT_GT(model.n_refused(), 10U);
    EXPECT_GT(model.n_remembered(), 20U);
    EXPECT_GT(model.n_parts(), 20U);
    EXPECT_GT(model.n_forks(), 20U);
    EXPECT_GT(model.n_imported(), 50U);
    EXPECT_GT(model.n_expired(), 20U);
    n_shortened += model.n_shortened();
    n_refilled += model.n_refilled();
  }
  EXPECT_GT(n_shortened, 100U);
  EXPECT_GT(n_refilled, 100U);
}

}  // namespace
}  // namespace coxswain::kvcache
