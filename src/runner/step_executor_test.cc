#include "runner/step_executor.h"

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runner/fake_model.h"
#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

constexpr std::uint32_t kBlocks = 16;
constexpr std::uint32_t kBlockTokens = 4;

class StepExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = make_fake_model({.n_groups = 1});
    codec_ = make_fake_codec();
    auto kv = kvstore::KvStore::create({.type = tensor::DType::kF32,
                                        .block_tokens = kBlockTokens,
                                        .n_blocks = {kBlocks},
                                        .layers = model_->info().kv_layers});
    ASSERT_TRUE(kv.ok()) << kv.status().message();
    kv_.emplace(std::move(kv).value());
    executor_ = std::make_unique<StepExecutor>(
        ExecutorParts{.model = model_.get(), .kv = &*kv_, .exec = &exec_, .codec = codec_.get()},
        ExecutorLimits{
            .rows_max = 32, .logit_rows_max = 4, .sequences_max = 4, .total_tokens_max = 64});
  }

  static SequenceSpec spec_of(std::uint64_t id, std::vector<TokenId> prompt = {5, 6, 7, 8, 9}) {
    return {.id = SequenceId{id},
            .prompt = std::move(prompt),
            .stopping = {.max_new_tokens = 8, .ignore_eos = true}};
  }
  static Row prompt_row(const SequenceSpec& spec, std::vector<BlockId> blocks) {
    Row row{.sequence = spec.id,
            .n_tokens = static_cast<std::uint32_t>(spec.prompt.size()),
            .tokens = spec.prompt,
            .emit = Emit::kSample};
    row.table_changes.push_back({.blocks = std::move(blocks)});
    return row;
  }
  StepResult execute(const StepPlan& plan) {
    auto result = executor_->execute(plan);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return std::move(result).value();
  }

  std::unique_ptr<model::Model> model_;
  std::shared_ptr<const TextCodec> codec_;
  kernels::ExecContext exec_{1};
  std::optional<kvstore::KvStore> kv_;
  std::unique_ptr<StepExecutor> executor_;
};

// What was produced elsewhere is walked again; what does not follow fails its sequence alone.
TEST_F(StepExecutorTest, AGrammarGoesOnBehindWhatWasProduced) {
  Grammars grammars(*codec_, model_->info().vocab_size);
  executor_ = std::make_unique<StepExecutor>(ExecutorParts{.model = model_.get(),
                                                           .kv = &*kv_,
                                                           .exec = &exec_,
                                                           .codec = codec_.get(),
                                                           .grammars = &grammars},
                                             ExecutorLimits{.rows_max = 32});
  grammar::Expressions expressions;
  const auto program = grammar::compile_program(expressions, expressions.bytes("abc"));
  ASSERT_TRUE(program.ok());
  StepPlan plan{.step = 1};
  for (const std::uint64_t i : {1U, 2U, 3U}) {
    SequenceSpec spec = spec_of(i);
    spec.sampling.grammar.bytes = std::make_shared<const std::string>(program->to_bytes());
    if (i > 1) spec.produced = {i == 2 ? 5 : 6};
    Row row = prompt_row(spec, {static_cast<BlockId>(2 * i), static_cast<BlockId>(2 * i + 1)});
    row.tokens.insert(row.tokens.end(), spec.produced.begin(), spec.produced.end());
    row.n_tokens = static_cast<std::uint32_t>(row.tokens.size());
    plan.new_sequences.push_back(std::move(spec));
    plan.rows.push_back(std::move(row));
  }
  const StepResult result = execute(plan);
  ASSERT_EQ(result.sequences.size(), 3U);
  EXPECT_EQ(result.sequences[0].tokens.at(0).text, "a");
  EXPECT_EQ(result.sequences[1].tokens.at(0).text, "b");
  EXPECT_EQ(result.sequences[2].status.message(),
            "the tokens produced before do not follow the grammar");
  // Without a vocabulary there are no masks.
  executor_ = std::make_unique<StepExecutor>(
      ExecutorParts{.model = model_.get(), .kv = &*kv_, .exec = &exec_},
      ExecutorLimits{.rows_max = 32});
  EXPECT_EQ(execute(plan).sequences.at(0).status.message(), "grammars need a tokenizer");
}

// Its forward pass does not end before `until` says so.
class SlowModel final : public model::Model {
 public:
  explicit SlowModel(std::unique_ptr<model::Model> inner) : inner_(std::move(inner)) {}
  const model::ModelInfo& info() const override { return inner_->info(); }
  Status reserve(std::size_t rows, std::size_t logit_rows, kernels::ExecContext& exec) override {
    return inner_->reserve(rows, logit_rows, exec);
  }
  std::uint64_t workspace_bytes(std::size_t rows,
                                std::size_t logit_rows,
                                std::size_t n_threads) const override {
    return inner_->workspace_bytes(rows, logit_rows, n_threads);
  }
  Status forward(const model::Batch& batch,
                 LayerRange layers,
                 std::span<float> hidden,
                 kvstore::KvStore& kv,
                 kernels::ExecContext& exec) override {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (!until()) {
      if (Clock::now() > deadline) return {Code::kDeadlineExceeded, "nothing was made meanwhile"};
      std::this_thread::yield();
    }
    return inner_->forward(batch, layers, hidden, kv, exec);
  }
  Status logits(std::span<const float> hidden,
                std::span<const std::uint32_t> rows,
                std::span<float> out,
                kernels::ExecContext& exec) override {
    return inner_->logits(hidden, rows, out, exec);
  }
  Status final_hidden(std::span<const float> hidden,
                      std::span<const std::uint32_t> rows,
                      std::span<float> out,
                      kernels::ExecContext& exec) override {
    return inner_->final_hidden(hidden, rows, out, exec);
  }
  std::function<bool()> until = [] { return true; };

 private:
  std::unique_ptr<model::Model> inner_;
};

TEST_F(StepExecutorTest, MasksAreMadeWhileTheForwardPassRuns) {
  const auto grammar = testing::regex_grammar("[a-f]{3}[g-m]{3}");
  const auto run = [&](bool waits) {
    SlowModel model(make_fake_model({.n_groups = 1}));
    Grammars grammars(*codec_, model.info().vocab_size);
    const auto masks = grammars.open(grammar).value();
    StepExecutor executor({.model = &model,
                           .kv = &*kv_,
                           .exec = &exec_,
                           .codec = codec_.get(),
                           .grammars = &grammars},
                          {.rows_max = 32});
    auto place = masks->begin();
    if (waits) model.until = [&] { return masks->has_mask(place); };
    SequenceSpec spec = spec_of(1);
    spec.sampling.grammar = grammar;
    spec.sampling.do_sample = true;
    StepPlan plan{.step = 1, .rows = {prompt_row(spec, {1, 2, 3})}};
    plan.new_sequences.push_back(spec);
    std::vector<OutputToken> out;
    while (true) {
      EXPECT_FALSE(masks->has_mask(place));
      const auto result = executor.execute(std::move(plan));
      EXPECT_TRUE(result.ok()) << result.status().message();
      const SequenceResult& sequence = result->sequences.at(0);
      EXPECT_TRUE(sequence.status.ok()) << sequence.status.message();
      if (sequence.tokens.empty()) return out;
      out.push_back(sequence.tokens[0]);
      if (sequence.finish) return out;
      EXPECT_TRUE(masks->advance(place, out.back().id));
      plan = {.rows = {{.sequence = spec.id,
                        .first_position = static_cast<std::uint32_t>(4 + out.size()),
                        .n_tokens = 1,
                        .continues = true,
                        .emit = Emit::kSample}}};
    }
  };
  const auto alone = run(false);
  EXPECT_EQ(alone.size(), 6U);
  EXPECT_EQ(run(true), alone);
}

TEST_F(StepExecutorTest, ABrokenRowFailsItsSequenceAndNoOther) {
  const SequenceSpec good = spec_of(1);
  const SequenceSpec bad = spec_of(2);
  const std::vector<std::function<void(Row&)>> damages = {
      [](Row& row) { row.tokens[2] = 63; },
      [](Row& row) { row.tokens.pop_back(); },
      [](Row& row) { row.n_tokens = 0; },
      [](Row& row) { row.first_position = 1; },
      [](Row& row) { row.first_position = 0xFFFFFFFFu; },
      [](Row& row) { row.n_tokens = 4, row.tokens.pop_back(); },  // a sample inside the prompt
      [](Row& row) { row.continues = true; },
      [](Row& row) { row.table_changes[0].blocks = {4}; },
      [](Row& row) {
        row.table_changes[0].blocks = {4, kBlocks};
      },
      [](Row& row) {
        row.table_changes[0].blocks = {4, kReleasedBlock};
      },
      [](Row& row) {
        row.table_changes[0].blocks = {1, 5};
      },  // block 1 belongs to the other row
      [](Row& row) {
        row.table_changes[0].blocks = {4, 4};
        row.first_position = 0;
        row.table_changes[0].first_index = 1;
      },
      [](Row& row) { row.table_changes[0].kv_group = 1; },
      [](Row& row) { row.table_changes[0].blocks.assign(kBlocks + 1, 4); },
      [](Row& row) { row.table_changes.clear(); },
      [](Row& row) { row.sequence = SequenceId{77}; },
  };
  StepPlan clean;
  clean.new_sequences = {good};
  clean.rows = {prompt_row(good, {1, 2})};
  const StepResult expected = execute(clean);
  for (std::size_t i = 0; i < damages.size(); ++i) {
    StepPlan plan;
    plan.dropped = {good.id, bad.id};
    plan.new_sequences = {good, bad};
    plan.rows = {prompt_row(good, {1, 2}), prompt_row(bad, {4, 5})};
    damages[i](plan.rows[1]);
    const StepResult result = execute(plan);
    ASSERT_EQ(result.sequences.size(), 2u);
    EXPECT_EQ(result.sequences[0], expected.sequences[0]) << i;
    EXPECT_FALSE(result.sequences[1].status.ok()) << i;
    EXPECT_TRUE(result.sequences[1].tokens.empty()) << i;
  }
}

TEST_F(StepExecutorTest, ASequenceNamedTwiceFails) {
  const SequenceSpec spec = spec_of(1);
  StepPlan plan;
  plan.new_sequences = {spec};
  plan.rows = {prompt_row(spec, {1, 2}), prompt_row(spec, {3, 4})};
  const StepResult result = execute(plan);
  EXPECT_FALSE(result.sequences[0].status.ok());
  EXPECT_FALSE(result.sequences[1].status.ok());
  EXPECT_EQ(executor_->n_sequences(), 0u);
}

TEST_F(StepExecutorTest, IllegalSpecsAreRefusedByField) {
  const auto status_of = [&](SequenceSpec spec) {
    StepPlan plan;
    plan.rows = {prompt_row(spec, {1, 2})};
    plan.new_sequences = {std::move(spec)};
    return execute(plan).sequences.front().status;
  };
  EXPECT_EQ(status_of(spec_of(1, {})).field(), "inputs");
  EXPECT_EQ(status_of(spec_of(1, {5, 64})).field(), "inputs");
  EXPECT_EQ(status_of(spec_of(1, {5, -1})).field(), "inputs");
  SequenceSpec spec = spec_of(1);
  spec.stopping.max_new_tokens = 0;
  EXPECT_EQ(status_of(spec).field(), "max_new_tokens");
  spec.stopping.max_new_tokens = 60;
  EXPECT_EQ(status_of(spec).field(), "max_new_tokens");
  spec = spec_of(1);
  spec.adapter_digest = "other";
  EXPECT_EQ(status_of(spec).code(), Code::kUnimplemented);
  spec = spec_of(1);
  spec.sampling.top_p = 0.0F;
  EXPECT_EQ(status_of(spec).field(), "top_p");
  spec.sampling = {};
  spec.sampling.temperature = -1.0F;
  EXPECT_EQ(status_of(spec).field(), "temperature");
  spec.sampling = {};
  spec.sampling.min_p = 1.0F;
  EXPECT_EQ(status_of(spec).field(), "min_p");
  spec.sampling = {};
  spec.sampling.logit_bias = {{64, 1.0F}};
  EXPECT_EQ(status_of(spec).field(), "logit_bias");
  spec.sampling = {};
  spec.sampling.repetition_penalty = 0.0F;
  EXPECT_EQ(status_of(spec).field(), "repetition_penalty");
  EXPECT_EQ(executor_->n_sequences(), 0u);
}

TEST_F(StepExecutorTest, SequencesAreLimitedAndDropped) {
  StepPlan plan;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const SequenceSpec spec = spec_of(id);
    plan.new_sequences.push_back(spec);
    plan.rows.push_back(
        prompt_row(spec, {static_cast<BlockId>(2 * id), static_cast<BlockId>(2 * id + 1)}));
  }
  const StepResult result = execute(plan);
  EXPECT_TRUE(result.sequences[3].status.ok());
  EXPECT_EQ(result.sequences[4].status.code(), Code::kResourceExhausted);
  StepPlan drop;
  drop.dropped = {SequenceId{1}, SequenceId{3}, SequenceId{99}};
  execute(drop);
  EXPECT_EQ(executor_->n_sequences(), 2u);
}

TEST_F(StepExecutorTest, ARowOfAFinishedSequenceIsEmpty) {
  SequenceSpec spec = spec_of(1);
  spec.stopping.max_new_tokens = 1;
  StepPlan plan;
  plan.new_sequences = {spec};
  plan.rows = {prompt_row(spec, {1, 2})};
  EXPECT_TRUE(execute(plan).sequences.front().finish.has_value());
  StepPlan ahead;
  ahead.rows = {{.sequence = spec.id,
                 .first_position = 5,
                 .n_tokens = 1,
                 .continues = true,
                 .emit = Emit::kSample}};
  const StepResult result = execute(ahead);
  EXPECT_TRUE(result.sequences.front().status.ok());
  EXPECT_TRUE(result.sequences.front().tokens.empty());
  EXPECT_FALSE(result.sequences.front().finish.has_value());
}

TEST_F(StepExecutorTest, CopiedBlocksHoldTheSameKeys) {
  const SequenceSpec spec = spec_of(1);
  StepPlan plan;
  plan.new_sequences = {spec};
  plan.rows = {prompt_row(spec, {1, 2})};
  execute(plan);
  Row decode{.sequence = spec.id,
             .first_position = 5,
             .n_tokens = 1,
             .continues = true,
             .emit = Emit::kSample};
  StepPlan next;
  next.rows = {decode};
  const StepResult expected = execute(next);

  StepPlan again = plan;
  again.dropped = {spec.id};
  execute(again);
  StepPlan moved;
  moved.moves = {{.from = {.id = 1}, .to = {.id = 7}}, {.from = {.id = 2}, .to = {.id = 8}}};
  decode.table_changes = {{.first_index = 0, .blocks = {7, 8}}};
  moved.rows = {decode};
  EXPECT_EQ(execute(moved).sequences.front(), expected.sequences.front());
}

TEST_F(StepExecutorTest, PromptTokensComeWithWhatTheModelWouldRatherHaveSeen) {
  SequenceSpec spec = spec_of(1);
  spec.prompt_logprobs = true;
  spec.sampling.n_top_tokens = 3;
  StepPlan plan;
  plan.new_sequences = {spec};
  plan.rows = {prompt_row(spec, {1, 2})};
  plan.rows[0].prompt_logprobs = true;
  const StepResult result = execute(plan);
  const std::vector<PromptToken>& whole = result.sequences.front().prompt;
  ASSERT_EQ(whole.size(), spec.prompt.size());
  EXPECT_TRUE(whole[0].alternatives.empty());
  for (std::size_t i = 1; i < whole.size(); ++i) {
    const auto& best = whole[i].alternatives;
    ASSERT_EQ(best.size(), 3u);
    EXPECT_GE(best[0].logprob, best[1].logprob);
    EXPECT_GE(best[1].logprob, best[2].logprob);
    EXPECT_GE(best[0].logprob, whole[i].logprob);
    EXPECT_EQ(best[0].text, codec_->token_text(best[0].id));
    for (const TokenAlternative& other : best) {
      if (other.id == whole[i].id) {
        EXPECT_EQ(other.logprob, whole[i].logprob);
      }
    }
  }

  StepPlan drop;
  drop.dropped = {spec.id};
  execute(drop);
  for (std::uint32_t p = 0; p < spec.prompt.size(); ++p) {
    StepPlan one;
    Row row{.sequence = spec.id,
            .first_position = p,
            .n_tokens = 1,
            .tokens = {spec.prompt[p]},
            .emit = p + 1 == spec.prompt.size() ? Emit::kSample : Emit::kNone,
            .prompt_logprobs = true};
    if (p == 0) {
      one.new_sequences = {spec};
      row.table_changes.push_back({.blocks = {1, 2}});
    }
    one.rows = {row};
    const StepResult part = execute(one);
    ASSERT_EQ(part.sequences.front().prompt.size(), 1u);
    if (p > 0) {
      EXPECT_EQ(part.sequences.front().prompt.front(), whole[p]) << p;
    }
  }
}

TEST_F(StepExecutorTest, WhatCannotBeDoneAtAllFailsThePlan) {
  StepPlan layers;
  layers.layers = {.begin = 0, .end = 0};
  EXPECT_TRUE(executor_->execute(layers).ok());
  layers.layers = {.begin = 1, .end = 1};
  EXPECT_EQ(executor_->execute(layers).status().code(), Code::kUnimplemented);
  StepPlan moves;
  moves.moves = {{.from = {.id = 1}, .to = {.id = kBlocks}}};
  EXPECT_EQ(executor_->execute(moves).status().code(), Code::kInternal);
  moves.moves = {{.from = {.id = 1}, .to = {.tier = 1, .id = 2}}};
  EXPECT_EQ(executor_->execute(moves).status().code(), Code::kUnimplemented);
  StepPlan imports;
  imports.imports = {{.attachment = 1, .blocks = {{1}}}};
  EXPECT_EQ(executor_->execute(imports).status().code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace coxswain::runner
