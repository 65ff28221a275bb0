// Sessions over a FakeRunner and the demo model. Law 1: a turn is what a fresh request with the same ids yields.

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include <coxswain/executor.h>
#include <coxswain/generate.h>
#include <coxswain/local_model.h>
#include <coxswain/session.h>
#include <gtest/gtest.h>

#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using testing::expected;
using testing::ids_of;
using testing::make_request;

Response await_turn(Session& session) {
  Response whole;
  while (!whole.final) testing::append(whole, session.await());
  return whole;
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What a fresh request of these ids yields.
std::vector<TokenId> fresh(const FakeRunnerOptions& fake,
                           std::vector<TokenId> ids,
                           std::uint32_t n_new) {
  Request request;
  request.prompt.ids = std::move(ids);
  request.stopping.max_new_tokens = n_new;
  return expected(fake, request).tokens;
}

TEST(Session, EachTurnIsAFreshRequestOfAllIds) {
  const FakeRunnerOptions fake;
  const auto runner = std::make_shared<FakeRunner>(fake);
  Executor engine(runner);
  Sessions sessions(engine);
  auto session = sessions.start(7);
  ASSERT_TRUE(session.ok());
  std::vector<TokenId> ids;
  std::uint32_t n_cached = 0;
  for (TokenId turn = 0; turn < 5; ++turn) {
    const Request input = make_request(6, 5, turn * 7);
    ids = joined(std::move(ids), input.prompt.ids);
    ASSERT_TRUE(session->enqueue(input).ok());
    const Response answer = await_turn(*session);
    EXPECT_TRUE(answer.status.ok()) << answer.status.message();
    EXPECT_EQ(session_code(answer), SessionCode::kFinish);
    EXPECT_EQ(ids_of(answer.tokens), fresh(fake, ids, 5));
    ids = joined(std::move(ids), ids_of(answer.tokens));
    EXPECT_EQ(session->history(), ids);
    EXPECT_EQ(sessions.n_tokens(), ids.size());
    n_cached += answer.usage.n_cached_prompt_tokens;
  }
  EXPECT_GT(n_cached, 0U);  // what survived was found
  EXPECT_TRUE(runner->violations().empty());
}

TEST(Session, RolledBackItIsAsIfTheRestHadNeverBeen) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  ASSERT_TRUE(session.enqueue(make_request(11, 9)).ok());
  static_cast<void>(await_turn(session));
  const std::vector<TokenId> first = session.history();
  for (const std::int64_t n : {19, 16, 12, 11, 5, 1}) {
    ASSERT_TRUE(session.step(n).ok());
    const std::vector<TokenId> kept(first.begin(), first.begin() + n);
    EXPECT_EQ(session.history(), kept);
    EXPECT_EQ(sessions.n_tokens(), kept.size());
    const Request input = make_request(3, 8, static_cast<TokenId>(n));
    ASSERT_TRUE(session.enqueue(input).ok());
    EXPECT_EQ(ids_of(await_turn(session).tokens), fresh(fake, joined(kept, input.prompt.ids), 8));
    ASSERT_TRUE(session.step(static_cast<std::int64_t>(kept.size())).ok());
  }
  // Beyond the end, or negative: as it is.
  const auto before = session.history();
  ASSERT_TRUE(session.step(100).ok());
  ASSERT_TRUE(session.step(-1).ok());
  EXPECT_EQ(session.history(), before);
}

TEST(Session, AppendedIdsAndNoInputContinueIt) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  const std::vector<TokenId> ids = make_request(9, 0).prompt.ids;
  ASSERT_TRUE(session.append(ids).ok());
  ASSERT_TRUE(session.enqueue(make_request(0, 6)).ok());
  EXPECT_EQ(ids_of(await_turn(session).tokens), fresh(fake, ids, 6));
  auto empty = sessions.start(2).value();
  EXPECT_EQ(empty.enqueue(make_request(0, 6)).field(), "prompt");
}

TEST(Session, OneTurnAtATime) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner);
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  ASSERT_TRUE(session.enqueue(make_request(3, 4)).ok());
  const std::vector<TokenId> ids{1};
  EXPECT_EQ(session_code(session.enqueue(make_request(3, 4))), SessionCode::kConflict);
  EXPECT_EQ(session_code(session.append(ids)), SessionCode::kConflict);
  EXPECT_EQ(session_code(session.step(0)), SessionCode::kConflict);
  EXPECT_EQ(session_code(sessions.start(1).status()), SessionCode::kConflict);
  EXPECT_EQ(session_code(sessions.find(1)->enqueue(make_request(3, 4))), SessionCode::kConflict);
  // Other sessions, and await_any(), are not touched by it.
  EXPECT_TRUE(sessions.start(2)->append(ids).ok());
  EXPECT_EQ(engine.await_any().status.code(), Code::kNotFound);
  EXPECT_TRUE(session.await(std::chrono::milliseconds(1)).empty());
  runner->release();
  EXPECT_TRUE(await_turn(session).status.ok());
  EXPECT_EQ(session_code(session.await()), SessionCode::kInvalid);  // no turn
  EXPECT_TRUE(session.enqueue(make_request(3, 4)).ok());
  EXPECT_TRUE(await_turn(session).status.ok());
}

TEST(Session, ATurnHasOneAnswerThatMayBeTheBestOfSeveral) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  Sessions sessions(engine);
  auto session = sessions.start(1);
  ASSERT_TRUE(session.ok());
  Request turn = make_request(5, 4);
  turn.n = 2;
  EXPECT_EQ(session->enqueue(turn).field(), "n");
  turn.n = 1;
  turn.best_of = 3;
  turn.sampling.do_sample = true;
  ASSERT_TRUE(session->enqueue(turn).ok());
  const Response answer = session->await();
  ASSERT_TRUE(answer.final);
  std::vector<TokenId> all = turn.prompt.ids;
  for (const OutputToken& token : answer.tokens) all.push_back(token.id);
  EXPECT_EQ(session->history(), all);
}

TEST(Session, ARefusedTurnLeavesItAsItWas) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  ASSERT_TRUE(session.append(make_request(9, 0).prompt.ids).ok());
  const auto before = session.history();
  Request bad = make_request(3, 4);
  bad.sampling.temperature = -1.0F;
  EXPECT_EQ(session_code(session.enqueue(bad)), SessionCode::kInvalid);
  const Request too_long = make_request(300, 4);
  EXPECT_EQ(session_code(session.enqueue(too_long)), SessionCode::kTooLong);
  EXPECT_EQ(session_code(session.append(too_long.prompt.ids)), SessionCode::kTooLong);
  EXPECT_EQ(session.history(), before);
  EXPECT_EQ(sessions.n_tokens(), before.size());
  // The answer is cut to the room that is left.
  ASSERT_TRUE(session.enqueue(make_request(3, 100'000)).ok());
  EXPECT_EQ(await_turn(session).tokens.size(), engine.total_tokens_max() - 12);
  EXPECT_EQ(session_code(session.enqueue(make_request(1, 1))), SessionCode::kTooLong);
}

TEST(Session, AllSessionsTogetherAreBounded) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
  Sessions sessions(engine, {.sessions_max = 2, .tokens_max = 20});
  auto first = sessions.start(1).value();
  auto second = sessions.start(2).value();
  const Status third = sessions.start(3).status();
  EXPECT_EQ(session_code(third), SessionCode::kOutOfMemory);
  EXPECT_NE(third.message().find("`sessions_max`"), std::string::npos);
  ASSERT_TRUE(first.enqueue(make_request(8, 4)).ok());  // 12 of 20
  const Status full = second.enqueue(make_request(8, 4));
  EXPECT_EQ(session_code(full), SessionCode::kOutOfMemory);
  EXPECT_NE(full.message().find("`tokens_max` of the sessions is 20"), std::string::npos);
  ASSERT_TRUE(second.enqueue(make_request(4, 4)).ok());
  EXPECT_TRUE(await_turn(first).status.ok());
  EXPECT_TRUE(await_turn(second).status.ok());
  EXPECT_EQ(sessions.n_tokens(), 20U);
  ASSERT_TRUE(first.end().ok());
  EXPECT_EQ(sessions.n_tokens(), 8U);
  EXPECT_EQ(sessions.n_sessions(), 1U);
  EXPECT_TRUE(sessions.start(3).ok());
}

TEST(Session, EndWaitsForTheTurnAndKillDoesNot) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  Executor engine(runner, {.requests_max = 2});
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  ASSERT_TRUE(session.enqueue(make_request(3, 40)).ok());
  ASSERT_TRUE(session.end().ok());
  EXPECT_EQ(await_turn(session).tokens.size(), 40U);
  EXPECT_EQ(session_code(session.enqueue(make_request(3, 4))), SessionCode::kInvalid);
  EXPECT_EQ(session_code(sessions.find(1).status()), SessionCode::kInvalid);
  EXPECT_EQ(session_code(session.end()), SessionCode::kInvalid);
  runner->hold();
  for (int round = 0; round < 3; ++round) {  // nothing stays behind in the Executor
    auto killed = sessions.start(2).value();
    ASSERT_TRUE(killed.enqueue(make_request(3, 40)).ok());
    ASSERT_TRUE(killed.kill().ok());
    EXPECT_EQ(session_code(killed.await()), SessionCode::kInvalid);
    EXPECT_EQ(sessions.n_sessions(), 0U);
    EXPECT_EQ(sessions.n_tokens(), 0U);
  }
  runner->release();
}

TEST(Session, KillWakesWhoAwaitsIt) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner);
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  ASSERT_TRUE(session.enqueue(make_request(3, 40)).ok());
  std::thread reader([&] { EXPECT_FALSE(await_turn(session).status.ok()); });
  runner->wait_for_submitted(1);
  ASSERT_TRUE(session.kill().ok());
  reader.join();
  runner->release();
}

TEST(Session, ACancelledTurnKeepsWhatItHasYielded) {
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake), {.unread_tokens_max = 2});
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  const Request input = make_request(3, 200);
  ASSERT_TRUE(session.enqueue(input).ok());
  Response whole;
  testing::append(whole, session.await());
  session.cancel();
  while (!whole.final) testing::append(whole, session.await());
  EXPECT_EQ(session_code(whole), SessionCode::kCancel);
  const auto ids = joined(input.prompt.ids, ids_of(whole.tokens));
  EXPECT_EQ(session.history(), ids);
  EXPECT_EQ(sessions.n_tokens(), ids.size());
  ASSERT_TRUE(session.enqueue(make_request(1, 5)).ok());
  EXPECT_EQ(ids_of(await_turn(session).tokens),
            fresh(fake, joined(ids, make_request(1, 5).prompt.ids), 5));
}

TEST(Session, AnotherStartUnderItsIdIsANewSession) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
  Sessions sessions(engine);
  auto former = sessions.start(1).value();
  ASSERT_TRUE(former.append(make_request(9, 0).prompt.ids).ok());
  auto session = sessions.start(1).value();
  EXPECT_TRUE(session.history().empty());
  EXPECT_EQ(session_code(former.step(1)), SessionCode::kInvalid);
  EXPECT_EQ(sessions.n_tokens(), 0U);
}

FakeRunnerOptions with_attachments() {
  FakeRunnerOptions fake;
  fake.capabilities.attachments = true;
  fake.capabilities.attachment_bytes_max = 32 << 10;
  return fake;
}

class SavedSession : public ::testing::Test {
 protected:
  SavedSession() { std::filesystem::create_directories(folder_); }
  ~SavedSession() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ / "session"; }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("session_" + std::to_string(::getpid()));
};

// A session over `fake` goes on in another engine, and nothing is computed again.
void expect_goes_on(const FakeRunnerOptions& fake, const std::string& path) {
  std::vector<TokenId> ids;
  {
    Executor engine(std::make_shared<FakeRunner>(fake));
    Sessions sessions(engine);
    auto session = sessions.start(7).value();
    Request turn = make_request(60, 30);
    turn.cache_salt = "salt";
    ASSERT_TRUE(session.enqueue(turn).ok());
    EXPECT_EQ(session_code(session.save(path)), SessionCode::kConflict);
    static_cast<void>(await_turn(session));
    ids = session.history();
    ASSERT_TRUE(session.save(path).ok());
    ASSERT_TRUE(session.save(path).ok());  // in the former one's place
    ASSERT_TRUE(session.end().ok());
    EXPECT_EQ(session_code(session.save(path)), SessionCode::kInvalid);
  }
  const auto runner = std::make_shared<FakeRunner>(fake);
  Executor engine(runner);
  Sessions sessions(engine);
  auto session = sessions.restore(8, path);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(session->id(), 8U);
  EXPECT_EQ(session->history(), ids);
  EXPECT_EQ(sessions.n_tokens(), ids.size());
  Request turn = make_request(5, 8);
  turn.cache_salt = "salt";
  ASSERT_TRUE(session->enqueue(turn).ok());
  const Response answer = await_turn(*session);
  Request whole = turn;
  whole.prompt.ids = joined(ids, turn.prompt.ids);
  EXPECT_EQ(ids_of(answer.tokens), expected(fake, whole).tokens);
  EXPECT_EQ(answer.usage.n_cached_prompt_tokens, 88U);  // of 89 that were computed, in blocks of 4
  EXPECT_TRUE(runner->violations().empty());
}

TEST_F(SavedSession, GoesOnInAnotherEngineAndComputesNothingAgain) {
  FakeRunnerOptions fake = with_attachments();
  expect_goes_on(fake, path());
  fake.n_blocks = {65, 65};
  fake.windows = {0, 24};
  for (const std::uint32_t n_sinks : {0U, 6U, 30U}) {
    SCOPED_TRACE(n_sinks);
    fake.sink_tokens = n_sinks;
    expect_goes_on(fake, path());
  }
}

TEST_F(SavedSession, WhatCannotBeUsedIsComputed) {
  FakeRunnerOptions fake = with_attachments();
  std::vector<TokenId> ids;
  {
    Executor engine(std::make_shared<FakeRunner>(fake));
    Sessions sessions(engine);
    auto session = sessions.start(7).value();
    ASSERT_TRUE(session.enqueue(make_request(60, 30)).ok());
    static_cast<void>(await_turn(session));
    ids = session.history();
    ASSERT_TRUE(session.save(path()).ok());
  }
  const auto go_on = [&](const FakeRunnerOptions& options, Restore what) {
    Executor engine(std::make_shared<FakeRunner>(options));
    Sessions sessions(engine);
    auto session = sessions.restore(1, path(), what);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->enqueue(make_request(5, 8)).ok());
    const Response answer = await_turn(*session);
    EXPECT_EQ(ids_of(answer.tokens), fresh(options, joined(ids, make_request(5, 0).prompt.ids), 8));
    EXPECT_EQ(answer.usage.n_cached_prompt_tokens, 0U);
  };
  go_on(fake, Restore::kIds);
  FakeRunnerOptions closed = fake;
  closed.capabilities.attachments = false;
  go_on(closed, Restore::kIdsAndBlocks);
  FakeRunnerOptions narrow = fake;  // pieces are smaller there
  narrow.capabilities.attachment_bytes_max = 22 << 10;
  go_on(narrow, Restore::kIdsAndBlocks);
  FakeRunnerOptions other = fake;
  other.about.model_fingerprint = 5;
  {
    Executor engine(std::make_shared<FakeRunner>(other));
    Sessions sessions(engine);
    const Status refused = sessions.restore(1, path()).status();
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_NE(refused.message().find("model_fingerprint=0, here model_fingerprint=5"),
              std::string::npos);
    EXPECT_EQ(sessions.n_sessions(), 0U);
  }
  go_on(other, Restore::kIds);
}

TEST_F(SavedSession, AFileThatCannotBeWrittenIsNamed) {
  Executor engine(std::make_shared<FakeRunner>(with_attachments()));
  Sessions sessions(engine);
  auto session = sessions.start(1).value();
  const std::string where = path() + "/none";
  EXPECT_NE(session.save(where).message().find(where), std::string::npos);
  EXPECT_EQ(sessions.restore(1, where).status().code(), Code::kNotFound);
}

TEST(Session, CeLossIsTheMeanOverThePrompt) {
  EXPECT_FALSE(ce_loss({}).has_value());
  EXPECT_EQ(ce_loss({{.id = 1}, {.id = 2, .logprob = -1.0F}, {.id = 3, .logprob = -2.0F}}), 1.5);
}

// On a model: text, rolled back, and on from there, with the cache and without it.
TEST(Session, OnTheDemoModelARolledBackTurnIsAFreshOne) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  const auto model = open_model(std::string(root != nullptr ? root : ".") + "/models/demo",
                                {.n_threads = 1,
                                 .kv_bytes = std::uint64_t{8} << 20,
                                 .total_tokens_max = 512,
                                 .prefill_tokens_max = 64,
                                 .batch_size_max = 8});
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<TokenId> ids;
  Response rolled_back;
  {
    Executor engine(*model);
    Sessions sessions(engine);
    auto session = sessions.start(1).value();
    Request turn;
    turn.prompt = model->chat({{"user", "What is 12 + 30?"}}).value();
    ASSERT_TRUE(session.enqueue(turn).ok());
    EXPECT_TRUE(await_turn(session).text.ends_with("= 42"));
    const auto n_first = static_cast<std::int64_t>(session.history().size());
    turn.prompt = model->chat({{"user", "What is 7 + 8?"}}).value();
    ASSERT_TRUE(session.enqueue(turn).ok());
    EXPECT_TRUE(await_turn(session).text.ends_with("= 15"));
    ASSERT_TRUE(session.step(n_first).ok());
    turn.prompt = model->chat({{"user", "What colour is grass?"}}).value();
    turn.prompt_logprobs = true;
    turn.sampling.n_top_tokens = 4;
    ids = joined(session.history(), turn.prompt.ids);
    ASSERT_TRUE(session.enqueue(turn).ok());
    rolled_back = await_turn(session);
  }
  Executor engine(*model, {.prefix_caching = false});
  Request whole;
  whole.prompt.ids = ids;
  whole.prompt_logprobs = true;
  whole.sampling.n_top_tokens = 4;
  const Response alone = generate(engine, whole);
  EXPECT_EQ(rolled_back.tokens, alone.tokens);
  EXPECT_EQ(rolled_back.text, alone.text);
  EXPECT_EQ(ce_loss(rolled_back.prompt), ce_loss(alone.prompt));
  EXPECT_GT(ce_loss(alone.prompt).value_or(0.0), 0.0);
}

// Undisturbed, and saved and restored by another engine over another model of the same files.
TEST_F(SavedSession, OnTheDemoModelItIsAsIfItHadGoneOn) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  const LocalModelOptions options{.n_threads = 1,
                                  .kv_bytes = std::uint64_t{8} << 20,
                                  .total_tokens_max = 512,
                                  .prefill_tokens_max = 64,
                                  .batch_size_max = 8};
  const auto open = [&] {
    return open_model(std::string(root != nullptr ? root : ".") + "/models/demo", options);
  };
  Request question;
  question.sampling.n_top_tokens = 4;
  question.stopping.max_new_tokens = 24;
  Response undisturbed;
  std::size_t n_saved = 0;
  {
    const auto model = open();
    ASSERT_TRUE(model.ok()) << model.status().message();
    Executor engine(*model);
    Sessions sessions(engine);
    auto session = sessions.start(1).value();
    question.prompt = model->chat({{"user", "What is 12 + 30?"}}).value();
    ASSERT_TRUE(session.enqueue(question).ok());
    static_cast<void>(await_turn(session));
    ASSERT_TRUE(session.save(path()).ok());
    n_saved = (session.history().size() - 1) / model->info().block_tokens;
    question.prompt = model->chat({{"user", "What is 7 + 8?"}}).value();
    ASSERT_TRUE(session.enqueue(question).ok());
    undisturbed = await_turn(session);
  }
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  Executor engine(*model);
  Sessions sessions(engine);
  auto session = sessions.restore(1, path());
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->enqueue(question).ok());
  const Response restored = await_turn(*session);
  EXPECT_EQ(restored.tokens, undisturbed.tokens);
  EXPECT_EQ(restored.text, undisturbed.text);
  EXPECT_GT(n_saved, 0U);
  EXPECT_EQ(restored.usage.n_cached_prompt_tokens, n_saved * model->info().block_tokens);
}

// Another process over the same files takes from the folder what a former one has computed; the answer is the same.
TEST_F(SavedSession, OnTheDemoModelAFolderRemembersOverRestarts) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  const LocalModelOptions options{.n_threads = 1,
                                  .kv_bytes = std::uint64_t{8} << 20,
                                  .total_tokens_max = 512,
                                  .prefill_tokens_max = 64,
                                  .batch_size_max = 8};
  const auto answer = [&](const std::string& folder, std::uint64_t bytes_max) {
    const auto model =
        open_model(std::string(root != nullptr ? root : ".") + "/models/demo", options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    Executor engine(*model, {.kv_spill_path = folder, .kv_spill_bytes_max = bytes_max});
    Request question;
    question.prompt = model->chat({{"user", "What is 12 + 30? Say it slowly, please."}}).value();
    question.sampling.n_top_tokens = 4;
    return generate(engine, question);
  };
  const Response alone = answer("", 0);
  const Response first = answer(folder_, 1 << 20);
  const Response second = answer(folder_, 1 << 20);
  EXPECT_EQ(first.tokens, alone.tokens);
  EXPECT_EQ(second.tokens, alone.tokens);
  EXPECT_EQ(first.usage.n_cached_prompt_tokens, 0U);
  EXPECT_EQ(second.usage.n_cached_prompt_tokens, (alone.usage.n_prompt_tokens - 1) / 16 * 16);
  EXPECT_GE(second.usage.n_cached_prompt_tokens, 16U);
}

}  // namespace
}  // namespace coxswain::library
