// BatchManager over the demo model.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <gtest/gtest.h>

#include "manager/testing/first_program.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

std::string demo() {
  const char* source = std::getenv("COXSWAIN_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/models/demo";
}

// What an Executor answers to the same prompt, without an end token as a request of tensors that names none.
std::vector<TokenId> executor_answer(const LocalModel& model,
                                     const Prompt& prompt,
                                     Request request) {
  Executor engine(model);
  request.prompt = prompt;
  const auto id = engine.enqueue(std::move(request));
  EXPECT_TRUE(id.ok()) << id.status().message();
  std::vector<TokenId> out;
  for (;;) {
    const Response piece = engine.await(id.value());
    for (const OutputToken& token : piece.tokens) out.push_back(token.id);
    if (!piece.final) continue;
    EXPECT_TRUE(piece.status.ok()) << piece.status.message();
    return out;
  }
}

TEST(ManagerOfAModel, TheFirstProgramGetsWhatAnExecutorGives) {
  const auto model = open_model(demo());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Prompt prompt = model->chat({{"user", "What is 12 + 30?"}}).value();
  Request request;
  request.stopping.max_new_tokens = 32;
  request.stopping.ignore_eos = true;
  const std::vector<TokenId> expected = executor_answer(*model, prompt, request);
  const testing::ProgramResult result = testing::run_first_program(demo(), prompt.ids);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.ids, expected);
  EXPECT_GE(result.stats.size(), 32U);
}

TEST(ManagerOfAModel, ManyAtOnceGetWhatAnExecutorGivesEach) {
  const auto model = open_model(demo());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const RunnerInfo info = model->info();
  ASSERT_FALSE(info.eos_token_ids.empty());
  struct Case {
    Prompt prompt;
    Request request;
  };
  std::vector<Case> cases;
  testing::Program program;
  std::vector<std::shared_ptr<InferenceRequest>> requests;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::string question =
        "What is " + std::to_string(i) + " + " + std::to_string(7 * i) + "?";
    Case c{.prompt = model->chat({{"user", question}}).value(), .request = {}};
    auto request = testing::make_request(i, c.prompt.ids, 24, true);
    c.request.stopping.max_new_tokens = 24;
    if (i % 2 == 0) {
      c.request.stopping.end_ids = {info.eos_token_ids.front()};
      request->set(NamedTensor::of<std::int32_t>("end_id", {1}, {info.eos_token_ids.front()}));
    } else {
      c.request.stopping.ignore_eos = true;
    }
    if (i % 3 == 1) {
      c.request.sampling = {.do_sample = true, .temperature = 1.5F, .top_k = 20, .seed = i};
      request->set(NamedTensor::of<float>("temperature", {1}, {1.5F}));
      request->set(NamedTensor::of<std::int32_t>("runtime_top_k", {1}, {20}));
      request->set(NamedTensor::of<std::uint64_t>("random_seed", {1}, {i}));
    }
    if (i % 3 == 2) {
      c.request.sampling.frequency_penalty = 0.5F;
      c.request.sampling.no_repeat_ngram_size = 2;
      request->set(NamedTensor::of<float>("frequency_penalty", {1}, {0.5F}));
      request->set(NamedTensor::of<std::int32_t>("no_repeat_ngram_size", {1}, {2}));
    }
    c.request.sampling.penalties_count_prompt = true;
    cases.push_back(std::move(c));
    requests.push_back(std::move(request));
  }
  for (const auto type : {BatchingType::kV1, BatchingType::kInflightFused}) {
    auto made = BatchManager::create(
        model->runner(), type, 1, CapacityPolicy::kMaxUtilization, program.callbacks());
    ASSERT_TRUE(made.ok()) << made.status().message();
    for (const auto& request : requests) program.submit(request);
    const int n_final = type == BatchingType::kV1 ? 1 : 2;
    for (std::uint64_t i = 0; i < cases.size(); ++i) program.wait(i, n_final);
  }
  for (std::uint64_t i = 0; i < cases.size(); ++i) {
    const std::vector<TokenId> once = executor_answer(*model, cases[i].prompt, cases[i].request);
    std::vector<TokenId> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    EXPECT_EQ(program.reply(i).ids(), twice) << i;
  }
}

// The only token that an even-numbered request may choose.
class Only final : public LogitsProcessor {
 public:
  explicit Only(TokenId token) : token_(token) {}
  Status process(const LogitsInput& input, std::span<float> logits) override {
    if (input.tag % 2 != 0) return internal_error("only even ones");
    std::ranges::fill(logits, -1.0F);
    logits[static_cast<std::size_t>(token_)] = 1.0F;
    return {};
  }

 private:
  TokenId token_;
};

TEST(ManagerOfAModel, LogitsGoOutAndThroughAProcessor) {
  testing::Program program;
  BatchManagerOptions options;
  options.logits_processors["only"] = std::make_shared<Only>(17);
  auto made = BatchManager::create(demo(),
                                   BatchingType::kInflightFused,
                                   1,
                                   CapacityPolicy::kGuaranteedNoEvict,
                                   program.callbacks(),
                                   options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::vector<TokenId> prompt{5, 6, 7};
  for (std::uint64_t id = 1; id <= 4; ++id) {
    auto request = testing::make_request(id, prompt, 4, id == 2);
    if (id <= 2) {
      request->set(NamedTensor::of<bool>("return_context_logits", {1}, {true}));
      request->set(NamedTensor::of<bool>("return_generation_logits", {1}, {true}));
    } else {
      request->set_logits_post_processor("only");
    }
    program.submit(request);
  }
  const testing::Reply whole = program.wait(1);
  ASSERT_EQ(whole.error(), "");
  const NamedTensor* context = testing::find(whole.responses[0], "context_logits");
  const NamedTensor* generation = testing::find(whole.responses[0], "generation_logits");
  ASSERT_TRUE(context != nullptr && generation != nullptr);
  const std::int64_t width = context->shape[2];
  EXPECT_EQ(context->shape, (std::vector<std::int64_t>{1, 3, width}));
  EXPECT_EQ(generation->shape, (std::vector<std::int64_t>{1, 1, 4, width}));
  ASSERT_EQ(generation->as<float>().size(), static_cast<std::size_t>(4 * width));
  const std::vector<TokenId> ids = whole.ids();
  for (std::size_t i = 0; i < 4; ++i) {  // greedy
    const auto row = generation->as<float>().subspan(i * static_cast<std::size_t>(width),
                                                     static_cast<std::size_t>(width));
    EXPECT_EQ(std::ranges::max_element(row) - row.begin(), ids[3 + i]);
  }
  const testing::Reply stream = program.wait(2);
  std::vector<float> streamed;
  for (const auto& outputs : stream.responses) {
    const NamedTensor* rows = testing::find(outputs, "generation_logits");
    ASSERT_NE(rows, nullptr);
    streamed.insert(streamed.end(), rows->as<float>().begin(), rows->as<float>().end());
  }
  EXPECT_TRUE(std::ranges::equal(streamed, generation->as<float>()));
  EXPECT_EQ(*testing::find(stream.responses[0], "context_logits"), *context);
  EXPECT_EQ(program.wait(3).error(), "logits processor `only`: only even ones");
  EXPECT_EQ(program.wait(4).ids(), (std::vector<TokenId>{5, 6, 7, 17, 17, 17, 17}));
}

TEST(ManagerOfAModel, LogitsNeedRoom) {
  testing::Program program;
  auto made = BatchManager::create(demo(),
                                   BatchingType::kInflightFused,
                                   1,
                                   CapacityPolicy::kGuaranteedNoEvict,
                                   program.callbacks(),
                                   {.output_bytes_max = 0});
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto request = testing::make_request(1, {5, 6, 7}, 4);
  request->set(NamedTensor::of<bool>("return_context_logits", {1}, {true}));
  program.submit(request);
  EXPECT_NE(program.wait(1).error().find("output_bytes_max"), std::string::npos);
}

TEST(ManagerOfAModel, AFolderThatIsNoneIsNamed) {
  testing::Program program;
  const auto made = BatchManager::create("/nowhere",
                                         BatchingType::kInflight,
                                         1,
                                         CapacityPolicy::kGuaranteedNoEvict,
                                         program.callbacks());
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("/nowhere"), std::string::npos);
}

TEST(ManagerOfAModel, AShareOfTheMemoryIsForTheCache) {
  testing::Program program;
  const auto blocks = [&](double share) {
    auto made = BatchManager::create(demo(),
                                     BatchingType::kInflight,
                                     1,
                                     CapacityPolicy::kGuaranteedNoEvict,
                                     program.callbacks(),
                                     {.kv_cache_free_gpu_mem_fraction = share});
    return made.status();
  };
  EXPECT_TRUE(blocks(0.5).ok());
  EXPECT_EQ(blocks(0.0).field(), "kv_cache_free_gpu_mem_fraction");
  EXPECT_EQ(blocks(1e-12).code(), Code::kResourceExhausted);  // no block at all
}

}  // namespace
}  // namespace coxswain::manager
