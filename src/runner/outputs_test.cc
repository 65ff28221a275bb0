// What programs in this process may ask for beside tokens: logits, hidden states, a processor of their own.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "json/json.h"
#include "model/single_sequence.h"
#include "model/test_models.h"
#include "runner/fake_model.h"
#include "runner/testing/law1_runs.h"
#include "weights/checkpoint.h"

namespace coxswain::runner {
namespace {

constexpr OutputParams kAll{.context_logits = true,
                            .generation_logits = true,
                            .context_hidden = true,
                            .generation_hidden = true};

std::vector<float> rows_of(const std::vector<float>& all, std::size_t begin, std::size_t n) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(begin + n)};
}

// ---- the values ----

std::vector<TokenId> ids_of(const json::Value& prompt) {
  std::vector<TokenId> out;
  for (const json::Value& id : prompt.find("ids")->as_array())
    out.push_back(static_cast<TokenId>(id.to_int64().value()));
  return out;
}

double log_sum_exp(const std::vector<float>& row) {
  double max = -INFINITY;
  for (const float v : row) max = std::max(max, static_cast<double>(v));
  double sum = 0.0;
  for (const float v : row) sum += std::exp(static_cast<double>(v) - max);
  return max + std::log(sum);
}

// The logits of prompt and output, all positions at once, of a model without a runner.
std::vector<float> logits_alone(const std::string& dir, const std::vector<TokenId>& ids) {
  model::LoadOptions load;
  load.model_dir = dir;
  load.dtype = tensor::DType::kF32;
  load.kernels = *kernels::select_kernels("");
  auto model = model::Model::load(load);
  EXPECT_TRUE(model.ok()) << model.status().message();
  kernels::ExecContext exec(1);
  auto sequence = model::SingleSequence::create(**model, exec, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(static_cast<std::uint32_t>(ids.size()) + 1);
  EXPECT_TRUE(sequence->feed(ids).ok());
  return sequence->logits(ids.size()).value();
}

class GoldenOutputs : public ::testing::TestWithParam<const char*> {};

// Bit for bit what the model computes for prompt and output in one pass, and, as near as it is, the reference.
TEST_P(GoldenOutputs, AreTheModelsLogits) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string dir =
      data == nullptr ? "" : std::string(data) + "/goldens/models/" + GetParam();
  if (data == nullptr || !std::filesystem::exists(dir))
    GTEST_SKIP() << "COXSWAIN_DATA has no goldens/models/" << GetParam();
  const auto golden = json::parse_file(dir + "/golden.json", std::size_t{64} << 20);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  RunnerOptions options;
  options.model_dir = dir;
  options.without_text = true;
  options.dtype = tensor::DType::kF32;
  options.kv_dtype = tensor::DType::kF32;
  options.kv_blocks = 64;
  options.max_batch_prefill_tokens = 64;
  options.max_batch_size = 2;
  options.output_bytes_max = std::uint64_t{64} << 20;
  const auto runner = LocalRunner::create(options);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const std::size_t vocab = (*runner)->info().vocab_size;
  std::size_t n_compared = 0;
  for (const json::Value& prompt : golden->find("prompts")->as_array()) {
    SequenceSpec spec{.id = SequenceId{1}, .prompt = ids_of(prompt), .outputs = kAll};
    if (spec.prompt.size() > 200) continue;
    spec.stopping = {.max_new_tokens = 5, .ignore_eos = true};
    const DriveOutcome seen = drive(**runner, {spec}, {.chunk_tokens_max = 13}).front();
    ASSERT_TRUE(seen.status.ok()) << seen.status.message();
    std::vector<TokenId> ids = spec.prompt;
    for (std::size_t i = 0; i + 1 < seen.tokens.size(); ++i) ids.push_back(seen.tokens[i].id);
    spec.rope_length = static_cast<std::uint32_t>(ids.size()) + 1;
    const std::vector<float> expected = logits_alone(dir, ids);
    const std::size_t n_prompt = spec.prompt.size();
    EXPECT_EQ(seen.outputs.context_logits, rows_of(expected, 0, n_prompt * vocab));
    EXPECT_EQ(seen.outputs.generation_logits,
              rows_of(expected, (n_prompt - 1) * vocab, seen.tokens.size() * vocab));
    const auto last = rows_of(seen.outputs.context_logits, (n_prompt - 1) * vocab, vocab);
    EXPECT_NEAR(log_sum_exp(last), prompt.find("last_logsumexp")->to_double().value(), 1e-3);
    ++n_compared;
  }
  EXPECT_GT(n_compared, 2U);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         GoldenOutputs,
                         ::testing::Values("llama", "gemma2", "gpt2"),
                         [](const auto& model) { return std::string(model.param); });

// The head times a hidden state is its row of logits: the states are those behind the final norm.
TEST(Outputs, HiddenStatesAreWhatTheHeadMultiplies) {
  base::TempFolder folder;
  model::RandomCheckpointOptions random;
  random.dir = folder.path();
  random.type = tensor::DType::kF32;
  ASSERT_TRUE(
      write_random_checkpoint(model::small_config(R"({"model_type":"llama"})"), random).ok());
  const auto runner = testing::start(folder.path(), {});
  ASSERT_NE(runner, nullptr);
  const std::size_t vocab = runner->info().vocab_size;
  const std::size_t width = runner->info().hidden_size;
  SequenceSpec spec{.id = SequenceId{1}, .prompt = {4, 9, 16, 25}, .outputs = kAll};
  spec.stopping = {.max_new_tokens = 3, .ignore_eos = true};
  const DriveOutcome seen = drive(*runner, {spec}, {}).front();
  ASSERT_TRUE(seen.status.ok()) << seen.status.message();

  auto checkpoint = weights::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  std::vector<float> head(vocab * width);
  const auto found = checkpoint->find("lm_head.weight");
  ASSERT_TRUE(found.read(0, std::as_writable_bytes(std::span(head))).ok());
  const auto compare = [&](const std::vector<float>& hidden, const std::vector<float>& logits) {
    ASSERT_EQ(hidden.size() / width, logits.size() / vocab);
    ASSERT_GT(hidden.size(), 0U);
    for (std::size_t row = 0; row < hidden.size() / width; ++row) {
      for (std::size_t id = 0; id < vocab; ++id) {
        double sum = 0.0;
        for (std::size_t i = 0; i < width; ++i)
          sum += static_cast<double>(hidden[row * width + i]) * head[id * width + i];
        ASSERT_NEAR(logits[row * vocab + id], sum, 1e-4);
      }
    }
  };
  compare(seen.outputs.context_hidden, seen.outputs.context_logits);
  compare(seen.outputs.generation_hidden, seen.outputs.generation_logits);
}

// ---- processors ----

class Processor final : public LogitsProcessor {
 public:
  using Function = std::function<Status(const LogitsInput&, std::span<float>)>;
  explicit Processor(Function function) : function_(std::move(function)) {}
  Status process(const LogitsInput& input, std::span<float> logits) override {
    return function_(input, logits);
  }

 private:
  Function function_;
};

std::shared_ptr<LogitsProcessor> processor(Processor::Function function) {
  return std::make_shared<Processor>(std::move(function));
}

struct Seen {
  base::Mutex mu;
  std::vector<std::vector<TokenId>> outputs GUARDED_BY(mu);
};

class Processors : public ::testing::Test {
 protected:
  void SetUp() override {
    RunnerOptions options;
    options.model_dir = "fake";
    options.n_threads = 2;
    options.kv_blocks = 64;
    options.max_batch_prefill_tokens = 64;
    options.max_batch_size = 8;
    options.output_bytes_max = std::uint64_t{1} << 20;
    options.logits_processors = {
        {"force", processor([](const LogitsInput& input, std::span<float> logits) {
           logits[input.tag] = 100.0F;
           return Status();
         })},
        {"watch", processor([seen = seen_](const LogitsInput& input, std::span<float> logits) {
           EXPECT_EQ(logits.size(), 64U);
           EXPECT_EQ(std::vector(input.prompt.begin(), input.prompt.end()),
                     (std::vector<TokenId>{5, 6, 7}));
           EXPECT_EQ(input.sequence, SequenceId{1});
           base::MutexLock lock(seen->mu);
           seen->outputs.emplace_back(input.output.begin(), input.output.end());
           return Status();
         })},
        {"refuse", processor([](const LogitsInput& input, std::span<float>) {
           return input.output.size() < 2 ? Status() : invalid_argument("two are enough", "output");
         })},
        {"throw", processor([](const LogitsInput&, std::span<float>) -> Status {
           throw std::runtime_error("a bug of the program");
         })},
        {"throw_number",
         processor([](const LogitsInput&, std::span<float>) -> Status { throw 7; })},
        {"nan", processor([](const LogitsInput&, std::span<float> logits) {
           logits[3] = std::numeric_limits<float>::quiet_NaN();
           return Status();
         })},
    };
    auto made = LocalRunner::create_with(
        options, make_fake_model({.n_groups = 1}), make_fake_codec(), "fake");
    ASSERT_TRUE(made.ok()) << made.status().message();
    runner_ = std::move(made).value();
  }

  static SequenceSpec spec_of(std::uint64_t id, std::string name = {}, std::uint64_t tag = 0) {
    SequenceSpec spec{.id = SequenceId{id}, .prompt = {5, 6, 7}};
    spec.stopping = {.max_new_tokens = 4, .ignore_eos = true};
    spec.sampling.logits_processor = std::move(name);
    spec.sampling.logits_processor_tag = tag;
    return spec;
  }
  std::vector<DriveOutcome> run(const std::vector<SequenceSpec>& specs) {
    return drive(*runner_, specs, {.look_ahead = true});
  }

  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  std::unique_ptr<LocalRunner> runner_;
};

TEST_F(Processors, ChangeTheLogitsOfTheirRequestsAlone) {
  const auto alone = run({spec_of(1)}).front();
  SequenceSpec forced = spec_of(2, "force", 41);
  forced.outputs.generation_logits = true;
  const auto outcomes = run({spec_of(1), forced, spec_of(3, "force", 42)});
  EXPECT_TRUE(same_outcome(outcomes[0], alone));
  ASSERT_EQ(outcomes[1].tokens.size(), 4U);
  for (const OutputToken& token : outcomes[1].tokens) EXPECT_EQ(token.id, 41);
  for (const OutputToken& token : outcomes[2].tokens) EXPECT_EQ(token.id, 42);
  // The model's own, as they were before.
  ASSERT_EQ(outcomes[1].outputs.generation_logits.size(), 4U * 64U);
  for (const float logit : outcomes[1].outputs.generation_logits) EXPECT_LT(logit, 9.0F);
}

TEST_F(Processors, SeePromptAndOutputOncePerToken) {
  const auto outcome = run({spec_of(1, "watch")}).front();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(same_outcome(outcome, run({spec_of(1)}).front()));
  base::MutexLock lock(seen_->mu);
  ASSERT_EQ(seen_->outputs.size(), outcome.tokens.size());
  for (std::size_t i = 0; i < seen_->outputs.size(); ++i) {
    ASSERT_EQ(seen_->outputs[i].size(), i);
    for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(seen_->outputs[i][j], outcome.tokens[j].id);
  }
}

TEST_F(Processors, AnErrorOrAnExceptionEndsItsSequenceAlone) {
  const auto alone = run({spec_of(1)}).front();
  const auto outcomes = run({spec_of(1),
                             spec_of(2, "refuse"),
                             spec_of(3, "throw"),
                             spec_of(4, "throw_number"),
                             spec_of(5, "nan"),
                             spec_of(6, "nobody")});
  EXPECT_TRUE(same_outcome(outcomes[0], alone));
  EXPECT_EQ(outcomes[1].status.message(), "logits processor `refuse`: two are enough");
  EXPECT_EQ(outcomes[1].tokens.size(), 2U);
  EXPECT_EQ(outcomes[2].status.message(),
            "logits processor `throw`: it threw: a bug of the program");
  EXPECT_EQ(outcomes[3].status.message(), "logits processor `throw_number`: it threw something");
  EXPECT_EQ(outcomes[4].status.kind(), ErrorKind::kGeneration);
  EXPECT_NE(outcomes[4].status.message().find("NaN"), std::string::npos);
  EXPECT_EQ(outcomes[5].status.field(), "logits_processor");
  EXPECT_EQ(outcomes[5].status.message(), "this runner has no logits processor `nobody`");
}

TEST_F(Processors, TheRunnerSaysWhichItHas) {
  EXPECT_EQ(runner_->info().logits_processors,
            (std::vector<std::string>{"force", "nan", "refuse", "throw", "throw_number", "watch"}));
  EXPECT_EQ(runner_->info().capabilities.output_bytes_max, std::uint64_t{1} << 20);
}

// ---- what must be asked for when the runner is made ----

TEST(Outputs, ARunnerThatWasNotMadeForThemRefusesThemByName) {
  RunnerOptions options;
  options.model_dir = "fake";
  options.kv_blocks = 64;
  options.max_batch_prefill_tokens = 64;
  const auto make = [&] {
    return LocalRunner::create_with(options, make_fake_model({.n_groups = 1}), nullptr, "fake");
  };
  const auto status_of = [](StepRunner& runner, const SequenceSpec& spec) {
    return drive(runner, {spec}, {}).front().status;
  };
  const auto plain = make();
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ((*plain)->info().capabilities.output_bytes_max, 0U);
  SequenceSpec spec{.id = SequenceId{1}, .prompt = {5}};
  spec.stopping = {.max_new_tokens = 2, .ignore_eos = true};
  spec.outputs.generation_logits = true;
  EXPECT_EQ(status_of(**plain, spec).code(), Code::kUnimplemented);
  EXPECT_EQ(status_of(**plain, spec).field(), "outputs");
  spec.outputs = {};
  spec.sampling.n_top_tokens = 65;
  EXPECT_EQ(status_of(**plain, spec).field(), "top_n_tokens");

  options.top_tokens_max = 1025;
  EXPECT_EQ(make().status().field(), "top_tokens_max");
  options.top_tokens_max = 1024;
  options.logits_processors = {{"none", nullptr}};
  EXPECT_EQ(make().status().field(), "logits_processors");
  // One without a name is for the requests that name none, and is not told of.
  options.logits_processors = {{"", processor([](const LogitsInput&, std::span<float> logits) {
                                  logits[41] = 100.0F;
                                  return Status();
                                })}};
  const auto forced = make();
  ASSERT_TRUE(forced.ok()) << forced.status().message();
  EXPECT_TRUE((*forced)->info().logits_processors.empty());
  SequenceSpec unnamed = spec;
  unnamed.sampling = {};
  const DriveOutcome said = drive(**forced, {unnamed}, {}).front();
  ASSERT_EQ(said.tokens.size(), 2U) << said.status.message();
  for (const OutputToken& token : said.tokens) EXPECT_EQ(token.id, 41);
  options.logits_processors.clear();
  const auto able = make();
  ASSERT_TRUE(able.ok()) << able.status().message();
  EXPECT_EQ((*able)->info().capabilities.top_tokens_max, 1024U);
  const DriveOutcome seen = drive(**able, {spec}, {}).front();
  ASSERT_TRUE(seen.status.ok()) << seen.status.message();
  EXPECT_EQ(seen.tokens[0].alternatives.size(), 64U);  // the whole vocabulary
}

}  // namespace
}  // namespace coxswain::runner
