// Beam searches through Executor and Stepper over the demo model: what a plain program finds that computes every beam
// anew, without a cache.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/generate.h>
#include <coxswain/local_model.h>
#include <coxswain/stepper.h>
#include <gtest/gtest.h>

#include "batch/testing/plain_beams.h"
#include "json/json.h"
#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using batch::testing::plain_beam_search;
using batch::testing::PlainBeam;
using testing::ids_of;

LocalModel open_demo(std::size_t n_threads = 1, std::uint32_t block_tokens = 16) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  auto model = open_model(std::string(root != nullptr ? root : ".") + "/models/demo",
                          {.block_tokens = block_tokens,
                           .n_threads = n_threads,
                           .kv_bytes = std::uint64_t{8} << 20,
                           .total_tokens_max = 256,
                           .prefill_tokens_max = 64,
                           .batch_size_max = 40});
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.value();
}

// Each beam of each step from its first token on.
std::vector<PlainBeam> plain(const LocalModel& model, const Request& request) {
  batch::GenerationRequest search;
  search.prompt = request.prompt.ids;
  search.sampling = request.sampling;
  search.stopping = request.stopping;
  search.beams = request.beams;
  return plain_beam_search(*model.runner(), search);
}

Request beam_request(const LocalModel& model, std::string_view text, const BeamParams& beams) {
  Request out;
  out.prompt = model.tokenize(text).value();
  out.beams = beams;
  out.n = beams.width;
  out.stopping.max_new_tokens = 12;
  return out;
}

void expect_answers(const LocalModel& model,
                    const std::vector<Response>& answers,
                    const std::vector<PlainBeam>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Response& answer = answers[i];
    ASSERT_TRUE(answer.status.ok()) << answer.status.message();
    EXPECT_EQ(ids_of(answer.tokens), expected[i].ids);
    std::vector<float> logprobs;
    logprobs.reserve(answer.tokens.size());
    for (const OutputToken& token : answer.tokens) logprobs.push_back(token.logprob);
    EXPECT_EQ(logprobs, expected[i].logprobs);
    EXPECT_EQ(answer.cumulative_logprob, expected[i].sum);
    EXPECT_EQ(answer.usage.n_generated_tokens, expected[i].ids.size());
    EXPECT_EQ(answer.text, model.codec()->decode(expected[i].ids, true));
  }
}

std::vector<Response> await_answers(Executor& engine, RequestId id) {
  std::vector<Response> out;
  do out.push_back(engine.await(id));
  while (!out.back().final);
  return out;
}

// How an engine is made for the same requests.
struct Way {
  std::size_t n_threads = 1;
  std::uint32_t block_tokens = 16;
  ExecutorOptions options = {};
};

std::vector<Way> ways() {
  return {{},
          {.n_threads = 2, .options = {.prefill_tokens_max = 16}},
          {.n_threads = 3, .block_tokens = 4, .options = {.prefix_caching = false}},
          // They do not fit together, and pause each other.
          {.block_tokens = 8,
           .options = {.policy = CapacityPolicy::kMaxUtilization, .batch_total_tokens_max = 288}},
          {.n_threads = 2,
           .block_tokens = 4,
           .options = {.policy = CapacityPolicy::kMaxUtilization,
                       .prefill_tokens_max = 8,
                       .batch_total_tokens_max = 272}}};
}

TEST(LibraryBeams, AnswersAreThoseOfAPlainProgram) {
  std::uint32_t n_pauses = 0;
  for (const Way& way : ways()) {
    const LocalModel model = open_demo(way.n_threads, way.block_tokens);
    std::vector<Request> requests;
    requests.push_back(beam_request(model, "What is 12 + 30?", {.width = 4}));
    requests.push_back(
        beam_request(model, "The ", {.width = 16, .length_penalty = 1.0F, .early_stopping = 0}));
    requests.push_back(
        beam_request(model, "Hello", {.width = 3, .early_stopping = 2, .diversity_rate = 0.5F}));
    requests[1].sampling.repetition_penalty = 1.3F;
    requests[1].sampling.no_repeat_ngram_size = 2;
    requests[2].stopping.min_new_tokens = 9;
    requests[2].sampling.logit_bias = {{5, 2.0F}};
    requests[1].stopping.ignore_eos = true;
    requests.push_back(requests[1]);
    requests.back().prompt = model.tokenize("Once upon").value();
    std::vector<std::vector<PlainBeam>> expected;
    expected.reserve(requests.size());
    for (const Request& request : requests) expected.push_back(plain(model, request));
    Executor engine(model, way.options);
    std::vector<RequestId> ids;
    for (const Request& request : requests) {
      const auto id = engine.enqueue(request);
      ASSERT_TRUE(id.ok()) << id.status().message();
      ids.push_back(id.value());
    }
    for (std::size_t i = 0; i < ids.size(); ++i)
      expect_answers(model, await_answers(engine, ids[i]), expected[i]);
    for (const IterationStats& iteration : engine.iteration_stats()) n_pauses += iteration.n_paused;
  }
  EXPECT_GT(n_pauses, 0U);
}

TEST(LibraryBeams, AStepperAndGenerateGiveTheSame) {
  const LocalModel model = open_demo();
  Request request = beam_request(model, "What is 12 + 30?", {.width = 4});
  const auto expected = plain(model, request);
  {
    Stepper stepper(model);
    ASSERT_TRUE(stepper.add(request).ok());
    std::vector<Response> answers;
    while (!stepper.idle()) {
      for (Response& response : stepper.step()) answers.push_back(std::move(response));
    }
    expect_answers(model, answers, expected);
  }
  request.n = 1;
  Executor engine(model);
  const Response best = generate(engine, request);
  expect_answers(model, {best}, {expected[0]});
}

// Made by tests/conformance/beam_goldens.py.
TEST(LibraryBeams, TransformersFindsTheSame) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  const std::string folder = data == nullptr ? "" : std::string(data) + "/goldens/models/llama";
  if (data == nullptr || !std::filesystem::exists(folder))
    GTEST_SKIP() << "COXSWAIN_DATA has no goldens/models/llama";
  const auto golden = json::parse_file(
      std::string(root != nullptr ? root : ".") + "/tests/conformance/beam_goldens.json",
      std::size_t{1} << 20);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const auto model = open_model(folder,
                                {.dtype = "float32",
                                 .n_threads = 1,
                                 .kv_bytes = std::uint64_t{8} << 20,
                                 .batch_size_max = 16});
  ASSERT_TRUE(model.ok()) << model.status().message();
  Executor engine(*model);
  const auto ids_in = [](const json::Value& list) {
    std::vector<TokenId> out;
    for (const json::Value& id : list.as_array())
      out.push_back(static_cast<TokenId>(id.to_int64().value()));
    return out;
  };
  std::size_t n_ended = 0;
  for (const json::Value& one : golden->find("cases")->as_array()) {
    const auto number = [&](const char* key) { return one.find(key)->to_double().value(); };
    Request request;
    request.prompt.ids = ids_in(*one.find("prompt"));
    request.beams = {.width = static_cast<std::uint32_t>(number("width")),
                     .length_penalty = static_cast<float>(number("length_penalty")),
                     .early_stopping = static_cast<std::int32_t>(number("early_stopping"))};
    request.n = request.beams.width;
    request.stopping.max_new_tokens = static_cast<std::uint32_t>(number("max_new_tokens"));
    request.stopping.end_ids = ids_in(*one.find("end_ids"));
    request.stopping.ignore_eos = request.stopping.end_ids.empty();
    const auto id = engine.enqueue(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    const std::vector<Response> answers = await_answers(engine, id.value());
    const json::Array& expected = one.find("answers")->as_array();
    ASSERT_EQ(answers.size(), expected.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(ids_of(answers[i].tokens), ids_in(*expected[i].find("ids")));
      const double score = answers[i].cumulative_logprob /
                           std::pow(answers[i].tokens.size(), number("length_penalty"));
      EXPECT_NEAR(score,
                  expected[i].find("score")->to_double().value(),
                  1e-4 * std::max(1.0, std::abs(score)));
      n_ended += answers[i].finish == FinishReason::kEosToken ? 1 : 0;
    }
  }
  EXPECT_GT(n_ended, 20U);
}

TEST(LibraryBeams, MoreAnswersThanBeamsAreRefused) {
  const LocalModel model = open_demo();
  Executor engine(model);
  Request request = beam_request(model, "Hello", {.width = 4});
  request.n = 5;
  EXPECT_EQ(engine.enqueue(request).status().message(),
            "`n` must be >= 1 and <= the width of `beams`, 4. Given: 5");
  request.n = 2;
  request.best_of = 4;
  EXPECT_EQ(engine.enqueue(request).status().message(),
            "`best_of` must be 0 beside a beam search. Given: 4");
}

}  // namespace
}  // namespace coxswain::library
