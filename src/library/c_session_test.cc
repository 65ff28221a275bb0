// Sessions through the C API.

#include <cstdint>
#include <vector>

#include <coxswain/coxswain.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "library/testing/c_api_engine.h"

namespace coxswain::library {
namespace {

using testing::Answer;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class CSession : public testing::CApiTest {
 protected:
  void SetUp() override {
    CApiTest::SetUp();
    ASSERT_EQ(coxswain_session_start(engine_, 7, &session_, error_.out()), COXSWAIN_OK);
  }
  void TearDown() override {
    CApiTest::TearDown();
    coxswain_session_free(session_);  // also behind its engine
  }

  std::vector<std::int32_t> ids() const {
    std::vector<std::int32_t> out(coxswain_session_ids(session_, nullptr, 0));
    EXPECT_EQ(coxswain_session_ids(session_, out.data(), out.size()), out.size());
    return out;
  }
  Answer turn() {
    Answer out;
    out.code = coxswain_session_enqueue(session_, &request_, error_.out());
    if (out.code != COXSWAIN_OK) return out;
    coxswain_response piece;
    coxswain_response_init(&piece, sizeof piece);
    while (piece.is_final == 0) {
      EXPECT_EQ(coxswain_session_await(session_, -1, &piece, error_.out()), COXSWAIN_OK);
      out.text.append(piece.text, piece.text_bytes);
      out.tokens.insert(out.tokens.end(), piece.tokens, piece.tokens + piece.n_tokens);
    }
    out.code = piece.code;
    coxswain_response_clear(&piece);
    return out;
  }

  coxswain_session* session_ = nullptr;
};

TEST_F(CSession, GoesOnRollsBackAndAnswersAgain) {
  const Answer first = turn();
  EXPECT_EQ(first.code, COXSWAIN_OK);
  EXPECT_THAT(first.text, EndsWith("42"));
  std::size_t n_prompt = 0;
  const std::int32_t* prompt = coxswain_prompt_ids(prompt_, &n_prompt);
  std::vector<std::int32_t> all(prompt, prompt + n_prompt);
  all.insert(all.end(), first.tokens.begin(), first.tokens.end());
  EXPECT_EQ(ids(), all);

  ASSERT_EQ(coxswain_session_step(session_, 0, error_.out()), COXSWAIN_OK);
  EXPECT_TRUE(ids().empty());
  ASSERT_EQ(coxswain_session_append(session_, prompt, n_prompt, error_.out()), COXSWAIN_OK);
  request_.prompt = nullptr;  // what it has is continued
  request_.n = 2;
  EXPECT_EQ(turn().code, COXSWAIN_INVALID_ARGUMENT);  // a turn has one answer
  request_.n = 1;
  EXPECT_EQ(turn().tokens, first.tokens);
  std::int32_t one = -1;
  EXPECT_EQ(coxswain_session_ids(session_, &one, 1), all.size());
  EXPECT_EQ(one, all.front());
}

TEST_F(CSession, OneTurnAtATimeThatACancelEnds) {
  request_.ignore_eos = 1;
  request_.max_new_tokens = 0;  // as many as fit
  ASSERT_EQ(coxswain_session_enqueue(session_, &request_, error_.out()), COXSWAIN_OK);
  EXPECT_EQ(coxswain_session_enqueue(session_, &request_, error_.out()),
            COXSWAIN_FAILED_PRECONDITION);
  EXPECT_THAT(error_.text(), HasSubstr("session 7"));
  coxswain_session_cancel(session_);
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  while (piece.is_final == 0)
    ASSERT_EQ(coxswain_session_await(session_, 1000, &piece, error_.out()), COXSWAIN_OK);
  EXPECT_EQ(piece.code, COXSWAIN_CANCELLED);
  coxswain_response_clear(&piece);
}

TEST_F(CSession, EndsAndIsKilled) {
  ASSERT_EQ(coxswain_session_end(session_, error_.out()), COXSWAIN_OK);
  EXPECT_EQ(turn().code, COXSWAIN_NOT_FOUND);
  EXPECT_EQ(coxswain_session_kill(session_, error_.out()), COXSWAIN_NOT_FOUND);
  coxswain_session* next = nullptr;
  ASSERT_EQ(coxswain_session_start(engine_, 7, &next, error_.out()), COXSWAIN_OK);
  request_.ignore_eos = 1;
  ASSERT_EQ(coxswain_session_enqueue(next, &request_, error_.out()), COXSWAIN_OK);
  EXPECT_EQ(coxswain_session_kill(next, error_.out()), COXSWAIN_OK);
  coxswain_session_free(next);
}

TEST_F(CSession, BoundsAreOptionsOfTheEngine) {
  coxswain_close(engine_);
  engine_ = nullptr;
  coxswain_engine_options options;
  coxswain_engine_options_init(&options, sizeof options);
  EXPECT_EQ(options.sessions_max, 4096U);
  options.sessions_max = 1;
  ASSERT_EQ(coxswain_start(model_, &options, &engine_, error_.out()), COXSWAIN_OK);
  coxswain_session* one = nullptr;
  coxswain_session* two = nullptr;
  ASSERT_EQ(coxswain_session_start(engine_, 1, &one, error_.out()), COXSWAIN_OK);
  EXPECT_EQ(coxswain_session_start(engine_, 2, &two, error_.out()), COXSWAIN_RESOURCE_EXHAUSTED);
  EXPECT_THAT(error_.text(), HasSubstr("sessions_max"));
  coxswain_session_free(one);
}

TEST_F(CSession, NothingIsDoneWithNull) {
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  EXPECT_EQ(coxswain_session_start(nullptr, 1, &session_, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_start(engine_, 1, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_step(nullptr, 0, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_append(nullptr, nullptr, 0, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_append(session_, nullptr, 1, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_enqueue(session_, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_enqueue(nullptr, &request_, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_await(nullptr, 0, &piece, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_await(session_, 0, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_end(nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_kill(nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_session_ids(nullptr, nullptr, 0), 0U);
  coxswain_session_cancel(nullptr);
  coxswain_session_free(nullptr);
  EXPECT_EQ(coxswain_iteration_stats(nullptr, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace coxswain::library
