// kv_cache_host_memory_bytes: blocks that the cache has lost come back from memory, and answers are those without.

#include <numeric>

#include <coxswain/batch_manager.h>

#include "manager/testing/managed.h"

namespace coxswain::manager {
namespace {

using batch::testing::FakeRunnerOptions;
using testing::joined;
using testing::make_request;
using testing::Managed;

FakeRunnerOptions small_cache() {
  FakeRunnerOptions out;
  out.n_blocks = {40};
  out.capabilities.attachments = true;
  out.capabilities.attachment_bytes_max = 20 << 10;
  return out;
}

std::vector<TokenId> prompt_of(TokenId family) {
  std::vector<TokenId> out(60);
  std::iota(out.begin(), out.end(), family);
  for (TokenId& id : out) id %= 50;
  return out;
}

TEST(HostMemory, BringsBackWhatTheCacheHasLost) {
  Managed run({.fake = small_cache(), .options = {.kv_cache_host_memory_bytes = 1 << 20}});
  run.runner->keep_plans();
  std::size_t n_imports = 0;
  std::uint64_t id = 0;
  for (int round = 0; n_imports == 0; ++round) {
    ASSERT_LT(round, 200) << "nothing has come back";
    for (TokenId family = 0; family < 5; ++family) {
      run.program.submit(make_request(++id, prompt_of(family), 5));
      EXPECT_EQ(run.program.wait(id).ids(),
                joined(prompt_of(family), run.expected(prompt_of(family), 5)));
    }
    for (const StepPlan& plan : run.runner->take_plans()) n_imports += plan.imports.size();
  }
}

TEST(HostMemory, EventsAreKeptUpToTheirNumber) {
  Managed run({.fake = small_cache(),
               .options = {.kv_cache_host_memory_bytes = 1 << 20, .event_buffer_max_size = 1000}});
  std::size_t n_behind = 0;  // told of as behind the cache
  std::uint64_t last = 0;
  for (std::uint64_t id = 1; n_behind == 0; ++id) {
    ASSERT_LT(id, 1000U) << "nothing was told of the memory";
    const auto family = static_cast<TokenId>(id % 5);
    run.program.submit(make_request(id, prompt_of(family), 5));
    run.program.wait(id);
    const KvEvents events = run.manager->kv_events();
    EXPECT_EQ(events.n_lost, 0U);
    for (const KvEvent& event : events.events) {
      EXPECT_EQ(event.id, ++last);
      for (const KvEventBlock& block : event.blocks) n_behind += block.cache_level;
    }
  }
  Managed none({.fake = small_cache()});
  none.program.submit(make_request(1, prompt_of(1), 5));
  none.program.wait(1);
  EXPECT_EQ(none.manager->kv_events(), KvEvents{});
}

TEST(HostMemory, IsRefusedWhereNothingCouldBeKept) {
  testing::Program program;
  FakeRunnerOptions fake = small_cache();
  fake.capabilities.attachment_bytes_max = 0;
  const auto made = BatchManager::create(std::make_shared<batch::testing::FakeRunner>(fake),
                                         BatchingType::kInflightFused,
                                         1,
                                         CapacityPolicy::kGuaranteedNoEvict,
                                         program.callbacks(),
                                         {.kv_cache_host_memory_bytes = 77});
  EXPECT_EQ(made.status().field(), "kv_cache_host_memory_bytes");
  EXPECT_EQ(made.status().message(),
            "`kv_cache_host_memory_bytes` must be 0, no KV blocks are kept in memory or files: "
            "this runner hands out no blocks. Given: 77");
  const auto priority = BatchManager::create(std::make_shared<batch::testing::FakeRunner>(fake),
                                             BatchingType::kInflightFused,
                                             1,
                                             CapacityPolicy::kGuaranteedNoEvict,
                                             program.callbacks(),
                                             {.secondary_offload_min_priority = 101});
  EXPECT_EQ(priority.status().message(),
            "`secondary_offload_min_priority` must be >= 0 and <= 100. Given: 101");
}

}  // namespace
}  // namespace coxswain::manager
