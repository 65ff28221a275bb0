// What a step allocates does not depend on the size of what any of its requests brought along:
// results have their own size, and nothing is copied that a request may make as long as it likes.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/allocation_watch.h"
#include "model/test_models.h"
#include "runner/step_executor.h"

namespace coxswain::runner {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kBlocksEach = 128;
constexpr std::uint32_t kSteps = 6;

class StepAllocations : public testing::Test {
 protected:
  void SetUp() override {
    model::LoadOptions how;
    how.kernels = *kernels::select_kernels("");
    model_ = model::load_small(folder_, model::small_config(R"({"model_type":"llama"})"), how);
    ASSERT_NE(model_, nullptr);
    auto kv = kvstore::KvStore::create({.type = tensor::DType::kF32,
                                        .block_tokens = kBlockTokens,
                                        .n_blocks = {2 * kBlocksEach},
                                        .layers = model_->info().kv_layers});
    ASSERT_TRUE(kv.ok()) << kv.status().message();
    kv_.emplace(std::move(kv).value());
    const ExecutorLimits limits{.rows_max = 2048, .logit_rows_max = 4};
    ASSERT_TRUE(model_->reserve(limits.rows_max, limits.logit_rows_max, exec_).ok());
    executor_.emplace(ExecutorParts{.model = model_.get(), .kv = &*kv_, .exec = &exec_}, limits);
  }

  static SequenceSpec spec_of(std::uint64_t id, std::size_t n_prompt) {
    SequenceSpec spec{.id = SequenceId{id}};
    for (std::size_t i = 0; i < n_prompt; ++i)
      spec.prompt.push_back(static_cast<TokenId>((i * 7 + id) % 61));
    spec.stopping = {.max_new_tokens = kSteps + 2, .ignore_eos = true};
    return spec;
  }
  // The whole prompt; `index` says which blocks are the sequence's.
  static Row first_row(const SequenceSpec& spec, std::uint32_t index) {
    Row row{.sequence = spec.id,
            .n_tokens = static_cast<std::uint32_t>(spec.prompt.size()),
            .tokens = spec.prompt,
            .emit = Emit::kSample};
    BlockTableChange& table = row.table_changes.emplace_back();
    for (BlockId b = 0; b < kBlocksEach; ++b) table.blocks.push_back(index * kBlocksEach + b);
    return row;
  }
  static Row decode_row(const SequenceSpec& spec, std::uint32_t step) {
    return {.sequence = spec.id,
            .first_position = static_cast<std::uint32_t>(spec.prompt.size()) + step,
            .n_tokens = 1,
            .continues = true,
            .emit = Emit::kSample};
  }

  struct Taken {
    std::size_t n = 0;
    std::size_t bytes = 0;
    std::size_t largest = 0;
    friend bool operator==(const Taken&, const Taken&) = default;
  };
  Taken execute(StepPlan plan) {
    const base::AllocationWatch watch;
    const auto result = executor_->execute(std::move(plan));
    const Taken taken{watch.n(), watch.bytes(), watch.largest()};
    EXPECT_TRUE(result.ok());
    for (const SequenceResult& sequence : result->sequences)
      EXPECT_TRUE(sequence.status.ok()) << sequence.status.message();
    return taken;
  }
  // A small request beside `other`: the step of both prompts, and all decode steps after it.
  std::vector<Taken> run_beside(const SequenceSpec& other) {
    const SequenceSpec small = spec_of(1, 5);
    StepPlan first;
    first.dropped = {small.id, other.id};
    first.new_sequences = {small, other};
    first.rows = {first_row(small, 0), first_row(other, 1)};
    std::vector<Taken> out{execute(std::move(first))};
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      StepPlan plan;
      plan.rows = {decode_row(small, step), decode_row(other, step)};
      out.push_back(execute(std::move(plan)));
    }
    return out;
  }

  base::TempFolder folder_;
  kernels::ExecContext exec_{2};
  std::unique_ptr<model::Model> model_;
  std::optional<kvstore::KvStore> kv_;
  std::optional<StepExecutor> executor_;
};

TEST_F(StepAllocations, AreTheSameBesideALongPrompt) {
  run_beside(spec_of(2, 5));  // buffers that are kept grow once
  const auto beside_short = run_beside(spec_of(2, 5));
  const auto beside_long = run_beside(spec_of(2, 1900));
  EXPECT_EQ(beside_long, beside_short);
}

TEST_F(StepAllocations, OfDecodeStepsDoNotFollowWhatARequestBroughtAlong) {
  SequenceSpec plain = spec_of(2, 5);
  SequenceSpec heavy = spec_of(2, 1900);
  for (SequenceSpec* spec : {&plain, &heavy}) {
    spec->sampling.do_sample = true;
    spec->sampling.repetition_penalty = 1.2F;
    spec->sampling.top_p = 0.9F;
    spec->sampling.typical_p = 0.9F;
    spec->sampling.n_top_tokens = 3;
  }
  for (TokenId id = 0; id < 61; ++id) heavy.sampling.logit_bias.emplace_back(id, 0.001F);
  run_beside(plain);
  auto beside_plain = run_beside(plain);
  auto beside_heavy = run_beside(heavy);
  // Of the first step the counts of the penalties are a part.
  beside_plain.erase(beside_plain.begin());
  beside_heavy.erase(beside_heavy.begin());
  EXPECT_EQ(beside_heavy, beside_plain);
}

}  // namespace
}  // namespace coxswain::runner
