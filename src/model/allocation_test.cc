// A step allocates nothing once the workspace is reserved: the global operator new is counted here.

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "model/test_models.h"

namespace {

// operator new has no other place for it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<std::size_t> n_allocations{0};

}  // namespace

// Not inlined, or g++ takes malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace coxswain::model {
namespace {

class NoAllocation : public ::testing::TestWithParam<SmallModel> {};

TEST_P(NoAllocation, InAStepAfterReserve) {
  const base::TempFolder folder;
  LoadOptions how;
  how.kernels = *kernels::select_kernels("");
  const auto model = load_small(folder, small_config(GetParam().fields), how);
  ASSERT_NE(model, nullptr);
  const ModelInfo& info = model->info();
  base::ThreadPool pool(2);
  kvstore::KvStoreOptions options;
  options.type = tensor::DType::kBf16;
  options.n_blocks.assign(info.kv_groups.size(), 6);
  options.layers = info.kv_layers;
  auto store = kvstore::KvStore::create(options);
  ASSERT_TRUE(store.ok() && model->reserve(40, 2, pool).ok());
  const std::vector<BlockId> tables[2]{{4, 1, 3}, {0, 5, 2}};
  std::vector<SequenceRows> rows(2);
  for (std::size_t i = 0; i < 2; ++i) {
    rows[i].first_row = i * 20;
    rows[i].n_rows = 20;
    rows[i].rope_length = 40;
    rows[i].block_tables.assign(info.kv_groups.size(), tables[i]);
  }
  std::vector<TokenId> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<TokenId>(i % info.vocab_size);
  std::vector<float> hidden(tokens.size() * info.hidden_size);
  std::vector<float> out(2 * info.vocab_size);
  const std::vector<std::uint32_t> last{19, 39};

  const std::size_t before = n_allocations.load();
  const bool ran = model->forward({tokens, rows}, {}, hidden, *store, pool).ok() &&
                   model->logits(hidden, last, out, pool).ok();
  const std::size_t after = n_allocations.load();
  EXPECT_TRUE(ran);
  EXPECT_EQ(after - before, 0U);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         NoAllocation,
                         ::testing::ValuesIn(small_models()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace coxswain::model
