// A runner that is there before its weights: steps go as far as layers are, and say the same as if all had been there.
// A source that is held by hand takes the place of a slow one.

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "model/test_models.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"
#include "runner/testing/held_source.h"

namespace coxswain::runner {
namespace {

using testing::HeldSource;
using weights::ImageStore;

class ArrivingRunner : public ::testing::Test {
 protected:
  void write_model(const std::string& fields) {
    const Status status = model::write_random_checkpoint(model::small_config(fields),
                                                         {.dir = folder_.path(), .progress = {}});
    ASSERT_TRUE(status.ok()) << status.message();
    RunnerOptions from = options();
    from.weights_store = store_ = std::make_shared<ImageStore>();
    plain_ = start(from);
  }

  RunnerOptions options() const {
    RunnerOptions out;
    out.model_dir = folder_.path();
    out.without_text = true;
    out.block_tokens = 8;
    out.kv_blocks = 200;
    out.n_threads = 1;
    out.memory_budget_bytes = std::uint64_t{1} << 30;
    out.max_batch_prefill_tokens = 64;
    out.max_batch_size = 8;
    out.attachment_bytes_max = std::uint64_t{1} << 20;
    return out;
  }
  static std::unique_ptr<LocalRunner> start(const RunnerOptions& options) {
    auto runner = LocalRunner::create(options);
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    return runner.ok() ? std::move(runner).value() : nullptr;
  }
  std::unique_ptr<LocalRunner> start_arriving() {
    source_ = std::make_shared<HeldSource>(store_);
    RunnerOptions from = options();
    from.weights_source = source_;
    from.on_weights = [this](const Result<model::LoadReport>& report) {
      loaded_.set_value(report.status());
    };
    return start(from);
  }

  static std::vector<SequenceSpec> specs() {
    std::vector<SequenceSpec> out;
    for (std::uint64_t id = 1; id <= 5; ++id) {
      SequenceSpec spec{.id = SequenceId{id}};
      for (std::uint64_t p = 0; p < 3 + 7 * id; ++p)
        spec.prompt.push_back(static_cast<TokenId>(3 + (p * 11 + id) % 50));
      spec.stopping = {.max_new_tokens = 6, .ignore_eos = true};
      spec.sampling.do_sample = id % 2 == 0;
      spec.sampling.seed = 40 + id;
      spec.rope_length = 60;
      out.push_back(std::move(spec));
    }
    return out;
  }

  // A prompt in block 1, through these layers.
  static StepPlan prompt_step(const LocalRunner& runner, LayerRange layers) {
    StepPlan plan{.step = 1, .epoch = runner.info().epoch, .layers = layers};
    SequenceSpec spec = specs().front();
    spec.prompt.resize(4);
    Row row{.sequence = spec.id, .n_tokens = 4, .tokens = spec.prompt};
    for (std::uint32_t group = 0; group < runner.info().kv_groups.size(); ++group)
      row.table_changes.push_back({.kv_group = group, .first_index = 0, .blocks = {1}});
    if (layers == LayerRange{}) row.emit = Emit::kSample;
    plan.new_sequences.push_back(std::move(spec));
    plan.rows.push_back(std::move(row));
    if (layers.end != 0 && layers.end < runner.info().n_layers) plan.hidden_out = 9;
    return plan;
  }
  void give_until(const LocalRunner& runner, std::uint32_t n_layers) {
    while (runner.layers_ready() < n_layers) source_->give(1);
  }

  base::TempFolder folder_;
  std::shared_ptr<ImageStore> store_;
  std::unique_ptr<LocalRunner> plain_;
  std::shared_ptr<HeldSource> source_;
  std::promise<Status> loaded_;
};

TEST_F(ArrivingRunner, AStepWaitsAtTheLayerThatIsNotThere) {
  write_model(R"({"model_type":"llama"})");
  const auto runner = start_arriving();
  ASSERT_NE(runner, nullptr);
  EXPECT_TRUE(runner->is_loading());
  EXPECT_EQ(runner->layers_ready(), 0U);
  EXPECT_EQ(runner->info().model_fingerprint, plain_->info().model_fingerprint);
  // The first layer alone, with a source that then gives nothing more.
  const auto first = runner->submit(prompt_step(*runner, {.begin = 0, .end = 1}));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(runner->wait(*first, TimePoint::min()).status().code(), Code::kDeadlineExceeded);
  give_until(*runner, 1);
  const auto below = runner->wait(*first);
  ASSERT_TRUE(below.ok()) << below.status().message();
  ASSERT_TRUE(below->sequences.front().status.ok()) << below->sequences.front().status.message();
  EXPECT_EQ(below->layers_ready, (LayerRange{.begin = 0, .end = 1}));
  const auto hidden = runner->take(9);
  ASSERT_TRUE(hidden.ok());
  // The same bits as of a runner that has everything.
  StepPlan same = prompt_step(*plain_, {.begin = 0, .end = 1});
  ASSERT_TRUE(plain_->run(std::move(same)).ok());
  EXPECT_TRUE(plain_->take(9)->bytes == hidden->bytes);

  StepPlan drop{.step = 2, .epoch = runner->info().epoch};
  drop.dropped.push_back(SequenceId{1});
  ASSERT_TRUE(runner->run(std::move(drop)).ok());
  const auto whole = runner->submit(prompt_step(*runner, {}));
  ASSERT_TRUE(whole.ok());
  give_until(*runner, runner->info().n_layers);
  // The head comes last.
  EXPECT_TRUE(runner->is_loading());
  EXPECT_EQ(runner->wait(*whole, TimePoint::min()).status().code(), Code::kDeadlineExceeded);
  source_->give_all();
  const auto result = runner->wait(*whole);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->sequences.front().tokens.size(), 1U);
  EXPECT_EQ(result->layers_ready, (LayerRange{.begin = 0, .end = runner->info().n_layers}));
  EXPECT_TRUE(loaded_.get_future().get().ok());
  EXPECT_FALSE(runner->is_loading());
}

TEST_F(ArrivingRunner, TokensAreThoseOfAPlainRun) {
  for (const char* fields :
       {R"({"model_type":"llama"})",
        R"({"model_type":"llama","tie_word_embeddings":true,"attention_bias":true})",
        R"({"model_type":"mistral","sliding_window":9})",
        R"({"model_type":"mixtral","num_local_experts":5,"num_experts_per_tok":2})"}) {
    SCOPED_TRACE(fields);
    write_model(fields);
    loaded_ = {};
    const auto expected = drive_each_alone(*plain_, specs());
    const auto runner = start_arriving();
    ASSERT_NE(runner, nullptr);
    auto driven = std::async(std::launch::async, [&] {
      return drive(*runner, specs(), {.seed = 3, .chunk_tokens_max = 9, .look_ahead = true});
    });
    give_until(*runner, runner->info().n_layers);
    source_->give_all();
    expect_same_outcomes(expected, driven.get(), fields);
    EXPECT_TRUE(loaded_.get_future().get().ok());
  }
}

TEST_F(ArrivingRunner, TheCheckpointGoesOnWhereTheSourceEnds) {
  write_model(R"({"model_type":"llama"})");
  const auto expected = drive_each_alone(*plain_, specs());
  const auto runner = start_arriving();
  ASSERT_NE(runner, nullptr);
  auto driven =
      std::async(std::launch::async, [&] { return drive(*runner, specs(), {.seed = 5}); });
  source_->give(4);
  source_->fail();
  expect_same_outcomes(expected, driven.get(), "after the source");
  EXPECT_TRUE(loaded_.get_future().get().ok());
}

TEST_F(ArrivingRunner, WithoutWeightsStepsFail) {
  write_model(R"({"model_type":"llama"})");
  const auto runner = start_arriving();
  ASSERT_NE(runner, nullptr);
  EXPECT_TRUE(runner->healthy().ok());
  source_->give(4);
  std::filesystem::resize_file(folder_.file("model.safetensors"), 100);
  const auto step = runner->submit(prompt_step(*runner, {}));
  ASSERT_TRUE(step.ok());
  source_->fail();
  EXPECT_EQ(runner->wait(*step).status().code(), Code::kUnavailable);
  EXPECT_EQ(loaded_.get_future().get().code(), Code::kDataLoss);
  EXPECT_EQ(runner->healthy().code(), Code::kUnavailable);
  EXPECT_FALSE(runner->is_loading());
  // And so does the next one.
  const auto next = runner->submit(prompt_step(*runner, {}));
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(runner->wait(*next).status().code(), Code::kUnavailable);
}

TEST_F(ArrivingRunner, ItCanEndBeforeTheWeightsAreThere) {
  write_model(R"({"model_type":"llama"})");
  auto runner = start_arriving();
  ASSERT_NE(runner, nullptr);
  ASSERT_TRUE(runner->submit(prompt_step(*runner, {})).ok());
  source_->give(3);
  runner.reset();
}

TEST_F(ArrivingRunner, WithAGuesserTheStartWaits) {
  write_model(R"({"model_type":"llama"})");
  source_ = std::make_shared<HeldSource>(store_);
  source_->give_all();
  RunnerOptions from = options();
  from.weights_source = source_;
  from.speculative_model_dir = folder_.path();
  from.draft_tokens_max = 2;
  const auto runner = start(from);
  ASSERT_NE(runner, nullptr);
  EXPECT_FALSE(runner->is_loading());
  expect_same_outcomes(drive_each_alone(*plain_, specs()),
                       drive(*runner, specs(), {.n_draft_max = 2}),
                       "with a guesser");
}

}  // namespace
}  // namespace coxswain::runner
