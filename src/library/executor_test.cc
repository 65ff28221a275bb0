// Executor over a FakeRunner: what is accepted, how it is awaited, and how it ends.

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include <coxswain/executor.h>
#include <coxswain/generate.h>
#include <coxswain/latest_state.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using namespace std::chrono_literals;
using testing::await_whole;
using testing::expected;
using testing::ids_of;
using testing::make_request;

constexpr RequestId kUnknown{4711};

TEST(Executor, AnswersAreThoseOfTheRequestAlone) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  std::vector<Request> requests;
  requests.reserve(12);
  for (TokenId i = 0; i < 12; ++i) requests.push_back(make_request(3 + i % 5, 9, i));
  const auto ids = engine.enqueue(requests);
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  ASSERT_EQ(ids->size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Response answer = await_whole(engine, ids.value()[i]);
    EXPECT_TRUE(answer.status.ok()) << answer.status.message();
    EXPECT_EQ(ids_of(answer.tokens), expected(fake, requests[i]).tokens);
    EXPECT_EQ(answer.usage.n_prompt_tokens, requests[i].prompt.ids.size());
    EXPECT_EQ(answer.usage.n_generated_tokens, 9U);
  }
}

TEST(Executor, EachSequenceOfARequestIsTheRequestAloneWithItsSeed) {
  FakeRunnerOptions fake;
  fake.capabilities.moves = true;
  Executor engine(std::make_shared<FakeRunner>(fake));
  Request request = make_request(11, 9);
  request.sampling.do_sample = true;
  request.sampling.seed = 40;
  request.n = 4;
  const auto id = engine.enqueue(request);
  ASSERT_TRUE(id.ok()) << id.status().message();
  std::vector<std::vector<TokenId>> answers(4);
  std::vector<int> n_ends(4);
  for (bool final = false; !final;) {
    const Response piece = engine.await(id.value());
    ASSERT_TRUE(piece.status.ok()) << piece.status.message();
    ASSERT_LT(piece.sequence, 4U);
    EXPECT_EQ(n_ends[piece.sequence], 0);
    for (const OutputToken& token : piece.tokens) answers[piece.sequence].push_back(token.id);
    n_ends[piece.sequence] += piece.finish ? 1 : 0;
    final = piece.final;
  }
  EXPECT_EQ(engine.await(id.value()).status.code(), Code::kNotFound);
  for (std::size_t i = 0; i < 4; ++i) {
    Request alone = request;
    alone.n = 1;
    alone.sampling.seed = 40 + i;
    EXPECT_EQ(answers[i], expected(fake, alone).tokens) << i;
    EXPECT_EQ(n_ends[i], 1);
  }

  for (const std::uint32_t n : {0U, 1025U}) {
    request.n = n;
    const Status refused = engine.enqueue(request).status();
    EXPECT_EQ(refused.field(), "n");
    EXPECT_EQ(refused.message(), "`n` must be > 0 and <= 1024. Given: " + std::to_string(n));
  }
  request.n = 2;
  EXPECT_EQ(generate(engine, request).status.message(),
            "`n` must be 1 where one answer is read. Given: 2");
  EXPECT_EQ(engine.enqueue(request, std::make_shared<LatestState>()).status().field(), "n");
}

// The answers of all sequences with their mean log-probabilities, as separate requests give them, best first.
std::vector<std::vector<TokenId>> ranked(const FakeRunnerOptions& fake,
                                         Request request,
                                         std::uint32_t n) {
  std::vector<std::pair<double, std::vector<TokenId>>> all;
  for (std::uint32_t i = 0; i < n; ++i, ++request.sampling.seed) {
    const auto alone = expected(fake, request);
    double sum = 0.0;
    for (const float logprob : alone.logprobs) sum += double{logprob};
    all.emplace_back(sum / static_cast<double>(alone.tokens.size()), alone.tokens);
  }
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& answer) { return answer.first; });
  std::vector<std::vector<TokenId>> out;
  out.reserve(all.size());
  for (auto& [mean, tokens] : all) out.push_back(std::move(tokens));
  return out;
}

// Lengths differ, so that the sum and the mean would choose otherwise.
TEST(Executor, TheBestOfSeveralAreGivenBestFirst) {
  FakeRunnerOptions fake;
  fake.eos_every = 6;
  Executor engine(std::make_shared<FakeRunner>(fake), {.unread_tokens_max = 1});
  Request request = make_request(11, 30);
  request.sampling.do_sample = true;
  request.sampling.seed = 40;
  request.best_of = 6;
  const auto expected_answers = ranked(fake, request, 6);
  for (const std::uint32_t n : {1U, 3U}) {
    request.n = n;
    const auto id = engine.enqueue(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    for (std::uint32_t i = 0; i < n; ++i) {
      const Response answer = engine.await(id.value());
      EXPECT_EQ(answer.sequence, i);
      EXPECT_TRUE(answer.finish.has_value());
      EXPECT_EQ(answer.final, i + 1 == n);
      EXPECT_EQ(ids_of(answer.tokens), expected_answers[i]);
      EXPECT_EQ(answer.usage.n_generated_tokens, expected_answers[i].size());
    }
  }
  request.n = 1;
  EXPECT_EQ(ids_of(generate(engine, request).tokens), expected_answers[0]);
  EXPECT_EQ(engine.enqueue(request, std::make_shared<LatestState>()).status().message(),
            "`best_of` must be 0 or 1 where an answer is read as it comes. Given: 6");
  request.n = 7;
  EXPECT_EQ(engine.enqueue(request).status().message(),
            "`best_of` must be 0, or >= `n`, 7, and <= 1024. Given: 6");
}

TEST(Executor, OfTheBestTheFailedOneComesFirst) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->row_failure = [](std::uint64_t, const SequenceSpec& spec) {
    return spec.sampling.seed == 2 ? internal_error("told to fail") : Status();
  };
  Executor engine(runner);
  Request request = make_request(5, 9);
  request.best_of = 4;
  EXPECT_EQ(generate(engine, request).status.message(), "told to fail");
}

// One sequence fails, or the runner is lost: each of the others is answered all the same.
TEST(Executor, EverySequenceIsAnswered) {
  for (const bool lost : {true, false}) {
    const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
    runner->row_failure = [&](std::uint64_t, const SequenceSpec& spec) {
      return spec.sampling.seed == 1 && !lost ? internal_error("told to fail") : Status();
    };
    runner->step_failure = [&](std::uint64_t step) {
      return step == 3 && lost ? Status(Code::kUnavailable, "killed") : Status();
    };
    Executor engine(runner);
    Request request = make_request(11, 9);
    request.n = 3;
    const auto id = engine.enqueue(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    int n_failed = 0;
    int n_finished = 0;
    for (bool final = false; !final;) {
      const Response piece = engine.await(id.value());
      n_failed += piece.status.ok() ? 0 : 1;
      n_finished += piece.finish ? 1 : 0;
      final = piece.final;
    }
    EXPECT_EQ(n_failed, lost ? 3 : 1);
    EXPECT_EQ(n_finished, lost ? 0 : 2);
  }
}

TEST(Executor, AnUnknownIdIsAnErrorAndNoWait) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
  const Response never = engine.await(kUnknown);
  EXPECT_TRUE(never.final);
  EXPECT_EQ(never.status.code(), Code::kNotFound);
  EXPECT_EQ(engine.await_any().status.code(), Code::kNotFound);
  const auto id = engine.enqueue(make_request(3, 2));
  ASSERT_TRUE(id.ok());
  EXPECT_TRUE(await_whole(engine, id.value()).status.ok());
  EXPECT_EQ(engine.await(id.value()).status.code(), Code::kNotFound);
  EXPECT_EQ(engine.await(id.value(), 1h).status.code(), Code::kNotFound);
}

TEST(Executor, ATimeoutGivesAnEmptyResponse) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  Executor engine(runner);
  runner->hold();
  const auto id = engine.enqueue(make_request(3, 2));
  ASSERT_TRUE(id.ok());
  const Response nothing = engine.await(id.value(), 1ms);
  EXPECT_TRUE(nothing.empty());
  EXPECT_FALSE(nothing.final);
  EXPECT_EQ(nothing.id, id.value());
  EXPECT_TRUE(engine.await_any(1ms).empty());
  EXPECT_EQ(engine.n_ready(), 0U);
  runner->release();
  EXPECT_EQ(await_whole(engine, id.value()).tokens.size(), 2U);
}

TEST(Executor, SeveralAreAwaitedInTheirOrder) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  const auto ids = engine.enqueue({make_request(3, 1, 1), make_request(4, 1, 9)});
  ASSERT_TRUE(ids.ok());
  const auto answers =
      engine.await(std::vector<RequestId>{ids.value()[1], kUnknown, ids.value()[0]});
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(ids_of(answers[0].tokens), expected(fake, make_request(4, 1, 9)).tokens);
  EXPECT_EQ(answers[1].status.code(), Code::kNotFound);
  EXPECT_EQ(ids_of(answers[2].tokens), expected(fake, make_request(3, 1, 1)).tokens);
}

TEST(Executor, AnyGivesEachResponseOnce) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  testing::Answers answers;
  std::map<RequestId, Request> requests;
  for (TokenId i = 0; i < 8; ++i) {
    const Request request = make_request(5, 6, i);
    const auto id = engine.enqueue(request);
    ASSERT_TRUE(id.ok());
    requests[id.value()] = request;
  }
  while (true) {
    Response piece = engine.await_any();
    if (piece.status.code() == Code::kNotFound) break;
    testing::append(answers, std::move(piece));
  }
  ASSERT_EQ(answers.size(), requests.size());
  for (const auto& [id, answer] : answers) {
    EXPECT_TRUE(answer.final);
    EXPECT_EQ(ids_of(answer.tokens), expected(fake, requests[id]).tokens);
  }
}

TEST(Executor, RefusesByName) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}),
                  {.stop_sequences_max = 2, .stop_bytes_max = 4});
  const auto field_of = [&](const Request& request) {
    const Status status = engine.enqueue(request).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_EQ(status.kind(), ErrorKind::kValidation);
    return status.field();
  };
  EXPECT_EQ(field_of(Request{}), "prompt");
  EXPECT_EQ(field_of(make_request(3, 100'000)), "max_new_tokens");
  EXPECT_EQ(field_of(make_request(5'000, 1)), "prompt");
  EXPECT_EQ(field_of(make_request(5'000, 0)), "prompt");
  Request foreign = make_request(3, 3);
  foreign.prompt.ids.push_back(50);
  EXPECT_EQ(field_of(foreign), "prompt");
  Request hot = make_request(3, 3);
  hot.sampling.temperature = -1.0F;
  EXPECT_EQ(field_of(hot), "temperature");
  Request stops = make_request(3, 3);
  stops.stopping.stop_sequences = {"a", "b", "c"};
  EXPECT_EQ(field_of(stops), "stop");
  stops.stopping.stop_sequences = {"abcde"};
  EXPECT_EQ(field_of(stops), "stop");
  stops.stopping.stop_sequences = {""};
  EXPECT_EQ(field_of(stops), "stop");
}

TEST(Executor, WithoutALimitAnAnswerFillsTheRoom) {
  FakeRunnerOptions fake;
  fake.n_blocks = {9};  // 8 blocks of 4 tokens
  Executor engine(std::make_shared<FakeRunner>(fake));
  const auto id = engine.enqueue(make_request(10, 0));
  ASSERT_TRUE(id.ok()) << id.status().message();
  const Response answer = await_whole(engine, id.value());
  EXPECT_EQ(answer.tokens.size(), 22U);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
}

TEST(Executor, ABadOptionRefusesEveryRequest) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}), {.batch_size_max = 0});
  EXPECT_EQ(engine.status().field(), "batch_size_max");
  EXPECT_EQ(engine.enqueue(make_request(3, 3)).status().field(), "batch_size_max");
  engine.cancel(kUnknown);
  engine.shutdown(Shutdown::kDrain);
  EXPECT_EQ(engine.await(kUnknown).status.code(), Code::kNotFound);
  Executor nothing(std::shared_ptr<StepRunner>{});
  EXPECT_EQ(nothing.enqueue(make_request(3, 3)).status().field(), "runner");
}

TEST(Executor, FullQueuesRefuseByName) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner, {.batch_size_max = 1, .queue_requests_max = 2, .requests_max = 3});
  const auto running = engine.enqueue(make_request(3, 3));
  ASSERT_TRUE(running.ok());
  runner->wait_for_submitted(1);
  ASSERT_TRUE(engine.enqueue(make_request(3, 3)).ok());
  // All or none: one would still fit.
  const auto both = engine.enqueue({make_request(3, 3), make_request(3, 3)});
  EXPECT_EQ(both.status().code(), Code::kResourceExhausted);
  EXPECT_NE(both.status().message().find("requests_max"), std::string::npos);
  EXPECT_EQ(engine.await(RequestId{3}).status.code(), Code::kNotFound);
  runner->release();
  std::size_t n = 0;
  for (Response piece; (piece = engine.await_any()).status.ok();) n += piece.final ? 1 : 0;
  EXPECT_EQ(n, 2U);
}

TEST(Executor, UncollectedAnswersAreBounded) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}), {.requests_max = 2});
  const auto first = engine.enqueue(make_request(3, 3));
  const auto second = engine.enqueue(make_request(3, 3));
  ASSERT_TRUE(first.ok() && second.ok());
  const Status full = engine.enqueue(make_request(3, 3)).status();
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_NE(full.message().find("`requests_max` is 2"), std::string::npos) << full.message();
  EXPECT_TRUE(await_whole(engine, first.value()).status.ok());
  EXPECT_TRUE(engine.enqueue(make_request(3, 3)).ok());
}

TEST(Executor, CancelEndsARequestWithItsFinalResponse) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner);
  const auto id = engine.enqueue(make_request(3, 100));
  ASSERT_TRUE(id.ok());
  runner->wait_for_submitted(1);
  engine.cancel(id.value());
  const Response last = await_whole(engine, id.value());  // while the step still hangs
  EXPECT_EQ(last.status.code(), Code::kCancelled);
  EXPECT_FALSE(last.finish.has_value());
  engine.cancel(id.value());
  engine.cancel(kUnknown);
  runner->release();
}

TEST(Executor, WhoReadsTooLittleIsNotComputedFurther) {
  const FakeRunnerOptions fake;
  const auto runner = std::make_shared<FakeRunner>(fake);
  Executor engine(runner, {.unread_tokens_max = 4, .stall_timeout = 1h});
  const Request request = make_request(3, 40);
  const auto silent = engine.enqueue(request);
  ASSERT_TRUE(silent.ok());
  // Another request of the same length is answered meanwhile; the silent one is not.
  const auto reading = engine.enqueue(make_request(3, 200, 5));
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(await_whole(engine, reading.value()).tokens.size(), 200U);
  Response piece = engine.await(silent.value());
  EXPECT_FALSE(piece.final);
  EXPECT_LE(piece.tokens.size(), 6U);  // those of the steps in flight come on top
  Response whole;
  testing::append(whole, std::move(piece));
  while (!whole.final) testing::append(whole, engine.await(silent.value()));
  EXPECT_EQ(ids_of(whole.tokens), expected(fake, request).tokens);
}

TEST(Executor, ADrainAnswersWhatNobodyReads) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}),
                  {.unread_tokens_max = 2, .stall_timeout = 1h});
  const auto id = engine.enqueue(make_request(3, 40));
  ASSERT_TRUE(id.ok());
  engine.shutdown(Shutdown::kDrain);
  EXPECT_EQ(engine.enqueue(make_request(3, 3)).status().code(), Code::kUnavailable);
  const Response whole = engine.await(id.value());
  EXPECT_TRUE(whole.final && whole.status.ok());
  EXPECT_EQ(whole.tokens.size(), 40U);
}

TEST(Executor, AShutdownThatCancelsEndsWhatRuns) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner);
  const auto ids = engine.enqueue({make_request(3, 100), make_request(5, 100)});
  ASSERT_TRUE(ids.ok());
  engine.shutdown(Shutdown::kDrain, 1ms);  // its grace passes
  for (const Response& r : engine.await(ids.value())) {
    EXPECT_TRUE(r.final);
    EXPECT_EQ(r.status.code(), Code::kCancelled);
  }
  runner->release();
}

TEST(Executor, ALostRunnerFailsThoseThatWaitToo) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  std::atomic<int> n_lines = 0;
  Executor engine(runner, {.batch_size_max = 1, .log = [&](LogLevel level, std::string_view line) {
                             if (level == LogLevel::kError && line.find("lost") != line.npos)
                               ++n_lines;
                             throw std::runtime_error("a log that throws");
                           }});
  runner->hold();
  const auto ids = engine.enqueue({make_request(3, 100), make_request(5, 100)});
  ASSERT_TRUE(ids.ok());
  runner->wait_for_submitted(1);
  runner->fail_next({Code::kUnavailable, "the machine burns"});
  runner->release();
  for (const RequestId id : ids.value()) {
    const Response last = await_whole(engine, id);
    EXPECT_EQ(last.status.code(), Code::kUnavailable);
    EXPECT_EQ(last.status.message(), "the machine burns");
  }
  EXPECT_EQ(n_lines, 1);
  EXPECT_EQ(engine.enqueue(make_request(3, 3)).status().code(), Code::kUnavailable);
}

TEST(Executor, KeepsTheStatisticsOfTheLatestSteps) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}),
                  {.iteration_stats_max = 4, .request_stats_max = 100});
  const auto id = engine.enqueue(make_request(6, 8));
  ASSERT_TRUE(id.ok());
  EXPECT_TRUE(await_whole(engine, id.value()).status.ok());
  engine.shutdown(Shutdown::kDrain);
  const auto steps = engine.iteration_stats();
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_LT(steps[0].iteration, steps[3].iteration);
  EXPECT_EQ(steps[3].n_decoded_tokens, 1U);
  EXPECT_TRUE(engine.iteration_stats().empty());
  const auto requests = engine.request_stats();
  ASSERT_EQ(requests.size(), 8U);
  ASSERT_EQ(requests[7].requests.size(), 1U);
  EXPECT_EQ(requests[7].requests[0].id, id.value());
  EXPECT_EQ(requests[7].requests[0].n_generated_tokens, 8U);
}

}  // namespace
}  // namespace coxswain::library
