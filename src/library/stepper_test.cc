// Stepper over a FakeRunner and the demo model, and the one-liners.

#include <filesystem>
#include <stdexcept>
#include <unistd.h>

#include <coxswain/generate.h>
#include <coxswain/stepper.h>
#include <gtest/gtest.h>

#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using testing::Answers;
using testing::expected;
using testing::ids_of;
using testing::make_request;

void step(Stepper& engine, Answers& out) {
  for (Response& piece : engine.step()) testing::append(out, std::move(piece));
}

Answers run(Stepper& engine, Answers out = {}) {
  for (int i = 0; i < 10'000 && !engine.idle(); ++i) step(engine, out);
  EXPECT_TRUE(engine.idle());
  return out;
}

TEST(Stepper, AnswersAreThoseOfTheRequestAlone) {
  const FakeRunnerOptions fake;
  const auto runner = std::make_shared<FakeRunner>(fake);
  std::map<RequestId, Request> requests;
  {
    Stepper engine(runner);
    EXPECT_TRUE(engine.idle());
    EXPECT_TRUE(engine.step().empty());
    Answers answers;
    for (TokenId i = 0; i < 12; ++i) {
      const Request request = make_request(3 + i % 5, 9, i);
      const auto id = engine.add(request);
      ASSERT_TRUE(id.ok()) << id.status().message();
      requests[id.value()] = request;
      step(engine, answers);
    }
    answers = run(engine, std::move(answers));
    ASSERT_EQ(answers.size(), requests.size());
    for (const auto& [id, request] : requests) {
      EXPECT_EQ(ids_of(answers[id].tokens), expected(fake, request).tokens);
      EXPECT_TRUE(answers[id].final);
      EXPECT_EQ(answers[id].usage.n_generated_tokens, 9U);
    }
    ASSERT_TRUE(engine.add(make_request(5, 40)).ok());
    static_cast<void>(engine.step());
  }
  EXPECT_TRUE(runner->live().empty());  // told to forget
  EXPECT_TRUE(runner->violations().empty());
}

TEST(Stepper, CancelAndDeadlineEndARequest) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  Stepper engine(runner);
  const auto id = engine.add(make_request(5, 100));
  ASSERT_TRUE(id.ok());
  static_cast<void>(engine.step());
  engine.cancel(id.value());
  engine.cancel(RequestId{99});
  auto answers = run(engine);
  EXPECT_EQ(answers[id.value()].status.code(), Code::kCancelled);
  Request late = make_request(5, 100);
  late.deadline = Clock::now() - std::chrono::seconds(1);
  const auto late_id = engine.add(late);
  ASSERT_TRUE(late_id.ok());
  answers = run(engine);
  EXPECT_EQ(answers[late_id.value()].status.kind(), ErrorKind::kDeadline);
}

FakeRunnerOptions with_attachments() {
  FakeRunnerOptions out;
  out.n_blocks = {30};
  out.capabilities.attachments = true;
  out.capabilities.attachment_bytes_max = 20 << 10;
  return out;
}

TEST(Stepper, TakesFromMemoryAndFilesWhatTheCacheHasLost) {
  const FakeRunnerOptions fake = with_attachments();
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("stepper_" + std::to_string(::getpid()));
  const Request request = make_request(41, 5, 7);
  // Cached tokens of the request behind others that need the room, `n` times.
  const auto cached = [&](const ExecutorOptions& options, int n) {
    Stepper engine(std::make_shared<FakeRunner>(fake), options);
    std::uint32_t out = 0;
    for (int i = 0; i < n; ++i) {
      for (const TokenId family : {7, 1, 2, 3}) {
        const Request next = make_request(41, 5, family);
        const auto id = engine.add(next);
        EXPECT_TRUE(id.ok()) << id.status().message();
        const auto answers = run(engine);
        EXPECT_EQ(ids_of(answers.at(id.value()).tokens), expected(fake, next).tokens);
        if (family == 7) out = answers.at(id.value()).usage.n_cached_prompt_tokens;
      }
    }
    return out;
  };
  EXPECT_EQ(cached({}, 2), 0U);
  EXPECT_EQ(cached({.kv_host_bytes_max = 1 << 20}, 2), 40U);
  const ExecutorOptions files{.kv_spill_path = folder, .kv_spill_bytes_max = 1 << 20};
  EXPECT_EQ(cached(files, 1), 0U);
  EXPECT_EQ(cached(files, 1), 40U);  // another process would find them, too
  std::filesystem::remove_all(folder);
}

TEST(Stepper, RefusesByName) {
  Stepper engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}),
                 {.queue_requests_max = 2, .requests_max = 3});
  EXPECT_EQ(engine.add(Request{}).status().field(), "prompt");
  EXPECT_EQ(engine.add(make_request(3, 10'000)).status().field(), "max_new_tokens");
  ASSERT_TRUE(engine.add(make_request(3, 3)).ok());
  ASSERT_TRUE(engine.add(make_request(3, 3)).ok());
  const Status full = engine.add(make_request(3, 3)).status();
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_NE(full.message().find("`queue_requests_max` is 2"), std::string::npos);
  static_cast<void>(engine.step());
  ASSERT_TRUE(engine.add(make_request(3, 3)).ok());
  EXPECT_NE(engine.add(make_request(3, 3)).status().message().find("`requests_max` is 3"),
            std::string::npos);
  EXPECT_EQ(run(engine).size(), 3U);
  Stepper none(std::shared_ptr<StepRunner>{});
  EXPECT_EQ(none.add(make_request(3, 3)).status().field(), "runner");
  EXPECT_TRUE(none.idle() && none.step().empty());
}

TEST(Stepper, ALostRunnerEndsAll) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  Stepper engine(runner, {.batch_size_max = 1});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.add(make_request(5, 30)).ok());
  static_cast<void>(engine.step());
  runner->fail_next({Code::kUnavailable, "the machine burns"});
  const auto answers = run(engine);
  EXPECT_EQ(answers.size(), 3U);
  for (const auto& [id, answer] : answers) {
    EXPECT_EQ(answer.status.code(), Code::kUnavailable);
    EXPECT_EQ(answer.status.message(), "the machine burns");
  }
  EXPECT_EQ(engine.add(make_request(5, 30)).status().code(), Code::kUnavailable);
}

TEST(Generate, GivesTheWholeAnswer) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  const Request request = make_request(5, 12);
  const Response answer = generate(engine, request);
  EXPECT_TRUE(answer.final && answer.status.ok());
  EXPECT_EQ(ids_of(answer.tokens), expected(fake, request).tokens);
  const Response refused = generate(engine, Request{});
  EXPECT_TRUE(refused.final);
  EXPECT_EQ(refused.status.field(), "prompt");
}

TEST(Generate, StreamCallsForEachPieceAndEndsWhenAsked) {
  const FakeRunnerOptions fake;
  ExecutorOptions options;
  options.unread_tokens_max = 8;  // so that no answer is whole before the first look at it
  Executor engine(std::make_shared<FakeRunner>(fake), options);
  const Request request = make_request(5, 12);
  std::vector<TokenId> seen;
  const auto keep = [&](const Response& piece) {
    for (const OutputToken& token : piece.tokens) seen.push_back(token.id);
    return true;
  };
  EXPECT_TRUE(stream(engine, request, keep).status.ok());
  EXPECT_EQ(seen, expected(fake, request).tokens);
  int n = 0;
  const Response ended = stream(engine, make_request(5, 200), [&](const Response&) {
    ++n;
    return false;
  });
  EXPECT_EQ(n, 1);
  EXPECT_EQ(ended.status.code(), Code::kCancelled);
  EXPECT_LT(ended.tokens.size(), 200U);
  const Response threw = stream(engine, make_request(5, 200), [](const Response&) -> bool {
    throw std::runtime_error("no");
  });
  EXPECT_EQ(threw.status.code(), Code::kCancelled);
  EXPECT_EQ(threw.status.message(), "the callback threw: no");
}

}  // namespace
}  // namespace coxswain::library
