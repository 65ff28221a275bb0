// Context-only and generation-only requests over two engines: together they are the whole request.

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "coxswain/executor.h"
#include "coxswain/local_model.h"

#include "batch/testing/fake_runner.h"

namespace coxswain {
namespace {

LocalModel open_demo() {
  const LocalModelOptions options{.n_threads = 1,
                                  .kv_bytes = std::uint64_t{8} << 20,
                                  .total_tokens_max = 512,
                                  .prefill_tokens_max = 64,
                                  .batch_size_max = 8};
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  auto model = open_model(std::string(root != nullptr ? root : ".") + "/models/demo", options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return std::move(model).value();
}

// All responses of one sequence as one.
Response answer(Executor& engine, Request request) {
  const auto id = engine.enqueue(std::move(request));
  EXPECT_TRUE(id.ok()) << id.status().message();
  if (!id.ok()) return {.status = id.status()};
  Response all;
  while (!all.final) {
    Response piece = engine.await(*id);
    piece.text = all.text + piece.text;
    piece.tokens.insert(piece.tokens.begin(), all.tokens.begin(), all.tokens.end());
    if (piece.prompt.empty()) piece.prompt = all.prompt;
    all = std::move(piece);
  }
  return all;
}

Request question(const LocalModel& model) {
  Request out;
  out.prompt =
      model.chat({{"user", "What is 12 + 30? Say it slowly, please, digit by digit."}}).value();
  out.sampling.n_top_tokens = 3;
  out.stopping.max_new_tokens = 40;
  return out;
}

Request generation_of(Request request, const Response& context) {
  request.type = RequestType::kGenerationOnly;
  request.context_phase = context.context_phase;
  return request;
}

TEST(HandedOver, TheAnswerIsThatOfOneEngine) {
  const LocalModel first_model = open_demo();
  const LocalModel second_model = open_demo();
  Executor first(first_model);
  Executor second(second_model);
  std::vector<Request> all(4, question(first_model));
  all[1].sampling.do_sample = true;
  all[1].sampling.temperature = 1.5F;
  all[1].sampling.seed = 3;
  all[1].sampling.repetition_penalty = 1.1F;
  all[2].prompt_logprobs = true;
  std::uint32_t salt = 0;
  for (Request& request : all) {
    request.cache_salt = std::to_string(salt++);  // none finds another one's blocks
    const Response whole = answer(second, request);
    ASSERT_TRUE(whole.status.ok()) << whole.status.message();
    // The first token may begin a stop string: its text comes when that is known.
    if (salt == 4) request.stopping.stop_sequences = {whole.tokens[0].text + whole.tokens[1].text};
    const Response expected = salt == 4 ? answer(first, request) : whole;
    request.cache_salt += " once more";
    request.type = RequestType::kContextOnly;
    const Response context = answer(first, request);
    ASSERT_TRUE(context.status.ok()) << context.status.message();
    ASSERT_TRUE(context.context_phase.has_value());
    EXPECT_EQ(context.tokens.size(), 1U);
    EXPECT_TRUE(context.text.empty());
    EXPECT_EQ(context.prompt.size(), request.prompt_logprobs ? request.prompt.ids.size() : 0U);
    const Response seen = answer(second, generation_of(request, context));
    ASSERT_TRUE(seen.status.ok()) << seen.status.message();
    EXPECT_EQ(seen.tokens, expected.tokens);
    EXPECT_EQ(seen.text, expected.text);
    EXPECT_EQ(seen.finish, expected.finish);
    EXPECT_EQ(seen.cumulative_logprob, expected.cumulative_logprob);
    EXPECT_EQ(seen.usage.n_generated_tokens, expected.usage.n_generated_tokens);
    EXPECT_TRUE(seen.prompt.empty());
    const auto n_blocks = static_cast<std::uint32_t>(request.prompt.ids.size()) / 16;
    EXPECT_EQ(seen.usage.n_cached_prompt_tokens, n_blocks * 16) << "it was computed again";
  }
}

TEST(HandedOver, WhereTheFirstEngineIsGoneThePromptIsComputedAgain) {
  const LocalModel second_model = open_demo();
  Executor second(second_model);
  const Request request = question(second_model);
  const Response whole = answer(second, request);
  Response context;
  {
    const LocalModel first_model = open_demo();
    Executor first(first_model);
    Request context_only = request;
    context_only.type = RequestType::kContextOnly;
    context = answer(first, context_only);
  }
  const LocalModel third_model = open_demo();
  Executor third(third_model);
  const Response seen = answer(third, generation_of(request, context));
  EXPECT_EQ(seen.tokens, whole.tokens);
  EXPECT_EQ(seen.text, whole.text);
  EXPECT_EQ(seen.usage.n_cached_prompt_tokens, 0U);
}

TEST(HandedOver, AnAnswerOfOneTokenIsWholeAtOnce) {
  const LocalModel model = open_demo();
  Executor engine(model);
  Request request = question(model);
  request.stopping.max_new_tokens = 1;
  const Response whole = answer(engine, request);
  request.type = RequestType::kContextOnly;
  const Response seen = answer(engine, request);
  EXPECT_FALSE(seen.context_phase.has_value());
  EXPECT_EQ(seen.finish, FinishReason::kLength);
  EXPECT_EQ(seen.text, whole.text);
}

TEST(HandedOver, ShutDownInBetweenEveryRequestEnds) {
  const LocalModel first_model = open_demo();
  Executor first(first_model);
  Request request = question(first_model);
  request.type = RequestType::kContextOnly;
  const Response context = answer(first, request);
  const LocalModel second_model = open_demo();
  std::vector<RequestId> ids;
  Executor second(second_model);
  for (int i = 0; i < 4; ++i) {
    const auto id = second.enqueue(generation_of(request, context));
    ASSERT_TRUE(id.ok()) << id.status().message();
    ids.push_back(*id);
  }
  second.cancel(ids[1]);
  second.shutdown(Shutdown::kCancel);
  for (const RequestId id : ids) {
    Response last;
    while (!last.final) last = second.await(id);
    EXPECT_TRUE(last.finish.has_value() || last.status.code() == Code::kCancelled);
  }
}

TEST(HandedOver, WhatDoesNotFitIsRefusedByName) {
  batch::testing::FakeRunnerOptions fake;
  fake.about.max_total_tokens = 100;
  Executor engine(std::make_shared<batch::testing::FakeRunner>(fake));
  ASSERT_TRUE(engine.status().ok()) << engine.status().message();
  const auto refused_field = [&](const Request& request) {
    const auto id = engine.enqueue(request);
    return id.ok() ? std::string("accepted") : id.status().field();
  };
  Request request;
  request.prompt.ids = {1, 2, 3};
  request.stopping.max_new_tokens = 5;
  request.type = RequestType::kGenerationOnly;
  EXPECT_EQ(refused_field(request), "context_phase");
  request.context_phase = ContextPhase{};
  EXPECT_EQ(refused_field(request), "context_phase");
  request.type = RequestType::kContextAndGeneration;
  EXPECT_EQ(refused_field(request), "context_phase");
  request.context_phase.reset();
  request.type = RequestType::kContextOnly;
  request.n = 2;
  EXPECT_EQ(refused_field(request), "n");
  request.n = 1;
  request.context_lease = {};
  EXPECT_EQ(refused_field(request), "context_lease");
  request.context_lease = std::chrono::seconds(1);
  const auto latest = std::make_shared<LatestState>();
  EXPECT_EQ(engine.enqueue(request, latest).status().field(), "type");
}

}  // namespace
}  // namespace coxswain
