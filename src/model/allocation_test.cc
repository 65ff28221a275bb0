// A step allocates nothing once the workspace is reserved: the global operator new is counted here.

#include <vector>

#include <gtest/gtest.h>

#include "base/testing/allocation_watch.h"
#include "model/test_models.h"

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
  kernels::ExecContext exec(2);
  kvstore::KvStoreOptions options;
  options.type = tensor::DType::kBf16;
  options.n_blocks.assign(info.kv_groups.size(), 6);
  options.layers = info.kv_layers;
  auto store = kvstore::KvStore::create(options);
  ASSERT_TRUE(store.ok() && model->reserve(40, 2, exec).ok());
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

  const base::AllocationWatch watch;
  const bool ran = model->forward({tokens, rows}, {}, hidden, *store, exec).ok() &&
                   model->logits(hidden, last, out, exec).ok();
  const std::size_t n_allocations = watch.n();
  EXPECT_TRUE(ran);
  EXPECT_EQ(n_allocations, 0U);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         NoAllocation,
                         ::testing::ValuesIn(small_models()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace coxswain::model
