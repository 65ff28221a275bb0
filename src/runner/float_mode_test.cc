// Law 1 between hosts: a program that embeds the runner may round upwards or flush subnormal numbers to zero.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

#include "base/testing/temp_folder.h"
#include "model/test_models.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"

namespace coxswain::runner {
namespace {

std::unique_ptr<LocalRunner> start(const std::string& folder,
                                   const std::string& quantize,
                                   std::size_t n_threads) {
  RunnerOptions options;
  options.model_dir = folder;
  options.without_text = true;
  options.quantize = quantize;
  options.n_threads = n_threads;
  options.kv_blocks = 64;
  options.max_total_tokens = 64;
  options.max_batch_prefill_tokens = 64;
  options.max_batch_size = 4;
  auto runner = LocalRunner::create(options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

std::vector<SequenceSpec> requests() {
  std::vector<SequenceSpec> specs;
  for (std::uint32_t i = 0; i < 3; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    for (std::uint32_t p = 0; p < 5 + 9 * i; ++p) spec.prompt.push_back(3 + (p * 11 + i) % 50);
    spec.stopping = {.max_new_tokens = 12, .ignore_eos = true};
    spec.prompt_logprobs = true;
    spec.sampling.do_sample = i != 0;
    spec.sampling.seed = 7;
    spec.sampling.typical_p = i == 2 ? 0.9F : 1.0F;
    specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(FloatMode, TheHostsArithmeticChangesNoBit) {
  for (const std::string family : {"llama", "gemma2", "gpt_oss"}) {
    const auto& models = model::small_models();
    const auto small = std::ranges::find(models, family, &model::SmallModel::name);
    ASSERT_NE(small, models.end());
    const base::TempFolder folder;
    model::RandomCheckpointOptions checkpoint;
    checkpoint.dir = folder.path();
    ASSERT_TRUE(write_random_checkpoint(model::small_config(small->fields), checkpoint).ok());
    for (const std::string quantize : {"", "int8"}) {
      const std::string what = family + (quantize.empty() ? "" : ", int8");
      const auto usual = start(folder.path(), quantize, 2);
      const auto expected = drive(*usual, requests(), {});
      const std::uint32_t before = _mm_getcsr();
      constexpr std::uint32_t kOdd = 0xDFC0;  // flush to zero, subnormals are zero, rounding up
      _mm_setcsr(kOdd);
      for (const std::size_t n_threads : {1U, 2U}) {
        const auto odd = start(folder.path(), quantize, n_threads);
        expect_same_outcomes(expected, drive(*odd, requests(), {}), what);
        EXPECT_EQ(odd->info().kernel_set_id, usual->info().kernel_set_id);
        EXPECT_EQ(_mm_getcsr() & 0xFFC0U, kOdd);
      }
      _mm_setcsr(before);
    }
  }
}

}  // namespace
}  // namespace coxswain::runner
#endif
