// A whole forward pass on the AMX set as it is shipped: on tiles where the CPU has them, through
// the trap of kernels/testing where it has AVX-512 with BF16 alone. Beside it, in this program,
// runs invariance_test.cc over the same set.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/testing/tile_trap.h"
#include "model/single_sequence.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

constexpr std::uint32_t kRows = 70;

struct Case {
  std::string name;
  std::string fields;
  bool int8 = false;
};

std::vector<Case> cases() {
  return {{"llama", R"({"model_type":"llama"})"},
          {"llama_int8", R"({"model_type":"llama"})", true},
          {"gpt2", R"({"model_type":"gpt2","n_embd":48,"n_layer":3,"n_head":4,"n_positions":128})"},
          {"gpt2_int8",
           R"({"model_type":"gpt2","n_embd":48,"n_layer":3,"n_head":4,"n_positions":128})",
           true}};
}

// Logits of every row of one prompt.
std::vector<float> logits_on(kernels::Isa isa, const Case& c, std::size_t n_threads) {
  base::TempFolder folder;
  LoadOptions how;
  how.kernels = *kernels::kernel_table(isa);
  if (c.int8) how.quantize = "int8";
  if (!c.int8) how.dtype = tensor::DType::kBf16;
  const auto model = load_small(folder, small_config(c.fields), how);
  kernels::ExecContext exec(n_threads);
  SingleSequenceOptions options;
  options.tokens_max = options.chunk_tokens_max = options.logit_rows_max = kRows;
  auto sequence = SingleSequence::create(*model, exec, options);
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(kRows);
  std::vector<TokenId> ids(kRows);
  for (std::uint32_t i = 0; i < kRows; ++i)
    ids[i] = static_cast<TokenId>((i * 7919 + i * i * 31) % model->info().vocab_size);
  EXPECT_TRUE(sequence->feed(ids).ok());
  auto logits = sequence->logits(kRows);
  EXPECT_TRUE(logits.ok());
  return std::move(logits).value();
}

class Amx : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!kernels::kernel_table(kernels::Isa::kAmx).ok())
      GTEST_SKIP() << "neither tiles nor AVX-512 with BF16, which the trap needs";
  }
};

// bf16 differs in the rounding of activations, int8 in that of the attention alone.
TEST_P(Amx, ForwardAgreesWithTheScalarSet) {
  const std::uint64_t before = kernels::testing::tile_counts().products;
  const std::vector<float> amx = logits_on(kernels::Isa::kAmx, GetParam(), 2);
  if (kernels::testing::tiles_are_emulated()) {
    EXPECT_GT(kernels::testing::tile_counts().products, before);
  }
  const std::vector<float> scalar = logits_on(kernels::Isa::kScalar, GetParam(), 1);
  ASSERT_EQ(amx.size(), scalar.size());
  const std::size_t vocab = scalar.size() / kRows;
  double largest = 0.0;
  double worst = 0.0;
  for (std::size_t i = 0; i < scalar.size(); ++i) {
    largest = std::max<double>(largest, std::fabs(scalar[i]));
    worst = std::max<double>(worst, std::fabs(static_cast<double>(amx[i]) - scalar[i]));
  }
  const double tolerance = 0.02 * largest;
  EXPECT_LT(worst, tolerance);
  // Greedy tokens agree wherever the second best is further away than two logits may move.
  std::size_t n_clear = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto begin = scalar.begin() + static_cast<std::ptrdiff_t>(row * vocab);
    const auto best = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(vocab));
    std::vector<float> others(begin, begin + static_cast<std::ptrdiff_t>(vocab));
    others.erase(others.begin() + (best - begin));
    if (*best - *std::max_element(others.begin(), others.end()) < 2 * tolerance) continue;
    ++n_clear;
    const auto amx_begin = amx.begin() + static_cast<std::ptrdiff_t>(row * vocab);
    EXPECT_EQ(
        std::max_element(amx_begin, amx_begin + static_cast<std::ptrdiff_t>(vocab)) - amx_begin,
        best - begin)
        << "row " << row;
  }
  EXPECT_GT(n_clear, kRows / 4) << "worst " << worst << " of " << largest;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Models, Amx, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace coxswain::model
