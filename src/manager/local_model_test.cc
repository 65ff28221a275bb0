// BatchManager over the demo model.

#include <cstdlib>
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
