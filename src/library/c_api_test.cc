// The C API over the demo model, as a C program uses it; and what a caller can do wrong.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/coxswain.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "library/testing/c_api_engine.h"
#include "library/testing/requests.h"

namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using CApi = coxswain::library::testing::CApiTest;
using coxswain::library::testing::Answer;

TEST_F(CApi, Answers) {
  const Answer answer = collect(enqueue());
  EXPECT_EQ(answer.code, COXSWAIN_OK) << answer.error;
  EXPECT_THAT(answer.text, EndsWith("42"));
  EXPECT_EQ(answer.finish, COXSWAIN_FINISH_END_TOKEN);
  EXPECT_EQ(answer.n_generated, answer.tokens.size());

  request_.max_new_tokens = 1;
  const Answer one = collect(enqueue());
  EXPECT_EQ(one.finish, COXSWAIN_FINISH_LENGTH);
  EXPECT_EQ(one.tokens,
            std::vector<std::int32_t>(answer.tokens.begin(), answer.tokens.begin() + 1));
}

TEST_F(CApi, StopsAtAText) {
  const char* stop[] = {"42"};
  request_.stop = stop;
  request_.n_stop = 1;
  const Answer answer = collect(enqueue());
  EXPECT_EQ(answer.finish, COXSWAIN_FINISH_STOP);
  EXPECT_THAT(answer.text, Not(HasSubstr("42")));
}

// The tokens of each answer, and that each ends once.
std::vector<std::vector<std::int32_t>> collect_each(coxswain_engine* engine,
                                                    std::uint64_t id,
                                                    std::size_t n) {
  std::vector<std::vector<std::int32_t>> out(n);
  std::vector<int> n_ends(n);
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  while (piece.is_final == 0) {
    EXPECT_EQ(coxswain_await(engine, id, -1, &piece, nullptr), COXSWAIN_OK);
    if (piece.sequence >= n) break;
    std::vector<std::int32_t>& all = out[piece.sequence];
    all.insert(all.end(), piece.tokens, piece.tokens + piece.n_tokens);
    n_ends[piece.sequence] += piece.ends_sequence;
  }
  EXPECT_EQ(n_ends, std::vector<int>(n, 1));
  coxswain_response_clear(&piece);
  return out;
}

TEST_F(CApi, SeveralAnswersAndTheBestOfThem) {
  request_.max_new_tokens = 8;
  request_.do_sample = 1;
  request_.temperature = 2.0F;
  request_.seed = 5;
  request_.n = 3;
  const auto answers = collect_each(engine_, enqueue(), 3);
  request_.n = 1;
  for (const auto& answer : answers) {
    EXPECT_EQ(collect(enqueue()).tokens, answer);
    ++request_.seed;
  }
  request_.seed = 5;
  request_.best_of = 3;
  const auto best = collect_each(engine_, enqueue(), 1);
  EXPECT_THAT(answers, Contains(best[0]));
  request_.n = 4;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(error_.text(), "`best_of` must be 0, or >= `n`, 4, and <= 1024. Given: 3");
  request_.n = 0;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(error_.text(), "`n` must be > 0 and <= 1024. Given: 0");
}

TEST_F(CApi, TopTokensAreToldOfEachToken) {
  request_.max_new_tokens = 3;
  request_.n_top_tokens = 2;
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  const std::uint64_t id = enqueue();
  std::size_t n_tokens = 0;
  while (piece.is_final == 0) {
    ASSERT_EQ(coxswain_await(engine_, id, -1, &piece, nullptr), COXSWAIN_OK);
    const coxswain_top_token* top = piece.top_tokens;
    for (std::size_t i = 0; i < piece.n_tokens; ++i, ++n_tokens) {
      ASSERT_EQ(piece.n_top_tokens[i], 2U);
      EXPECT_EQ(top[0].token, piece.tokens[i]);  // greedy
      EXPECT_EQ(top[0].logprob, piece.logprobs[i]);
      EXPECT_GE(top[0].logprob, top[1].logprob);
      EXPECT_NE(top[0].token, top[1].token);
      EXPECT_NE(top[1].text, nullptr);
      top += 2;
    }
  }
  EXPECT_EQ(n_tokens, 3U);
  EXPECT_LT(piece.cumulative_logprob, 0.0);
  coxswain_response_clear(&piece);
}

TEST_F(CApi, ABiasForbidsOrForcesATokenAndAMinimumAnEnd) {
  const Answer plain = collect(enqueue());
  const std::int32_t first = plain.tokens.front();
  const float never = -std::numeric_limits<float>::infinity();
  request_.logit_bias_tokens = &first;
  request_.n_logit_bias = 1;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("logit_bias"));
  request_.logit_bias = &never;
  const Answer biased = collect(enqueue());
  EXPECT_THAT(biased.tokens, Not(Contains(first)));
  request_.n_logit_bias = 0;
  request_.min_new_tokens = static_cast<std::uint32_t>(plain.tokens.size()) + 3;
  const Answer longer = collect(enqueue());
  EXPECT_GE(longer.tokens.size(), plain.tokens.size() + 3);
  request_.no_repeat_ngram_size = 1;
  std::vector<std::int32_t> once = collect(enqueue()).tokens;
  std::ranges::sort(once);
  EXPECT_EQ(std::ranges::adjacent_find(once), once.end());
}

// What the C++ API answers to the same search over the same model.
std::vector<coxswain::Response> searched_in_cpp(const coxswain_prompt* prompt,
                                                const coxswain_request& search) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  const auto model =
      coxswain::open_model(std::string(root == nullptr ? "." : root) + "/models/demo",
                           {.kv_bytes = std::uint64_t{8} << 20});
  EXPECT_TRUE(model.ok()) << model.status().message();
  coxswain::Request request;
  std::size_t n_ids = 0;
  const std::int32_t* ids = coxswain_prompt_ids(prompt, &n_ids);
  request.prompt.ids.assign(ids, ids + n_ids);
  request.stopping.max_new_tokens = search.max_new_tokens;
  request.n = search.n;
  request.beams = {.width = search.beam_width,
                   .length_penalty = search.beam_length_penalty,
                   .early_stopping = search.beam_early_stopping,
                   .diversity_rate = search.beam_diversity_rate};
  coxswain::Executor engine(*model);
  const auto id = engine.enqueue(request);
  EXPECT_TRUE(id.ok()) << id.status().message();
  std::vector<coxswain::Response> out;
  do out.push_back(engine.await(*id));
  while (!out.back().final);
  return out;
}

TEST_F(CApi, ABeamSearchGivesItsBestAnswersBestFirst) {
  request_.max_new_tokens = 12;
  request_.beam_width = 4;
  request_.n = 3;
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  for (const float length_penalty : {0.0F, 2.0F}) {
    request_.beam_length_penalty = length_penalty;
    request_.beam_early_stopping = length_penalty > 0.0F ? 0 : 1;
    request_.beam_diversity_rate = length_penalty > 0.0F ? 0.25F : 0.0F;
    const std::vector<coxswain::Response> expected = searched_in_cpp(prompt_, request_);
    ASSERT_EQ(expected.size(), 3U);
    const std::uint64_t id = enqueue();
    double last_score = std::numeric_limits<double>::infinity();
    for (const coxswain::Response& answer : expected) {
      ASSERT_EQ(coxswain_await(engine_, id, -1, &piece, nullptr), COXSWAIN_OK);
      EXPECT_EQ(piece.code, COXSWAIN_OK);
      EXPECT_EQ(piece.sequence, answer.sequence);
      EXPECT_EQ(piece.text, answer.text);
      EXPECT_EQ(std::vector<std::int32_t>(piece.tokens, piece.tokens + piece.n_tokens),
                coxswain::library::testing::ids_of(answer.tokens));
      EXPECT_EQ(piece.cumulative_logprob, answer.cumulative_logprob);
      const double score = piece.cumulative_logprob /
                           std::pow(static_cast<double>(piece.n_tokens), double{length_penalty});
      EXPECT_LE(score, last_score);
      last_score = score;
    }
    EXPECT_EQ(piece.is_final, 1);
  }
  coxswain_response_clear(&piece);
}

TEST_F(CApi, BadBeamsAreNamed) {
  request_.beam_width = 17;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(error_.text(), "`beams` must have a width >= 1 and <= 16. Given: 17");
  request_.beam_width = 2;
  request_.n = 3;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(error_.text(), "`n` must be >= 1 and <= the width of `beams`, 2. Given: 3");
  request_.n = 1;
  request_.beam_length_penalty = std::numeric_limits<float>::quiet_NaN();
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("length_penalty"));
}

// A program that was compiled before there were beams.
TEST_F(CApi, EarlierCallersSearchNoBeams) {
  const Answer now = collect(enqueue());
  request_.struct_size = offsetof(coxswain_request, beam_width);
  request_.beam_width = 99;  // behind the end of its struct
  EXPECT_EQ(collect(enqueue()).tokens, now.tokens);
}

TEST_F(CApi, ADraftChangesNoToken) {
  request_.ignore_eos = 1;
  const Answer plain = collect(enqueue());
  request_.draft = plain.tokens.data();
  request_.n_draft = plain.tokens.size();
  EXPECT_EQ(collect(enqueue()).tokens, plain.tokens);  // without effect: the model guesses nothing
  coxswain_model_options options;
  coxswain_model_options_init(&options, sizeof options);
  options.kv_bytes = 8 << 20;
  options.draft_tokens_max = 4;
  const std::string folder = std::string(std::getenv("COXSWAIN_SOURCE_DIR")) + "/models/demo";
  coxswain_model* model = nullptr;
  coxswain_engine* engine = nullptr;
  ASSERT_EQ(coxswain_open(folder.c_str(), &options, &model, error_.out()), COXSWAIN_OK);
  ASSERT_EQ(coxswain_start(model, nullptr, &engine, error_.out()), COXSWAIN_OK);
  std::swap(engine, engine_);
  const Answer guessed = collect(enqueue());
  EXPECT_EQ(guessed.tokens, plain.tokens);
  EXPECT_GT(guessed.n_accepted_drafts, 0U);
  EXPECT_GE(guessed.n_drafts, guessed.n_accepted_drafts);
  request_.draft = nullptr;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("`draft`"));
  std::swap(engine, engine_);
  coxswain_close(engine);
  coxswain_model_close(model);
}

TEST_F(CApi, StatisticsOfTheStepsSinceTheLastCall) {
  request_.max_new_tokens = 4;
  request_.ignore_eos = 1;
  collect(enqueue());
  char* json = nullptr;
  std::string text;
  // The last step is told with its events or just behind them.
  while (text.find("\"numCompletedRequests\":1") == std::string::npos) {
    ASSERT_EQ(coxswain_iteration_stats(engine_, &json, error_.out()), COXSWAIN_OK);
    text += json;
    coxswain_text_free(json);
  }
  for (const char* key : {"\"iter\":",
                          "\"iterLatencyMS\":",
                          "\"kvCacheStats\":{\"maxNumBlocks\":",
                          "\"numScheduledRequests\":1",
                          "\"queueHeadWaitsFor\":\"none\""}) {
    EXPECT_THAT(text, HasSubstr(key));
  }
  ASSERT_EQ(coxswain_iteration_stats(engine_, &json, error_.out()), COXSWAIN_OK);
  EXPECT_STREQ(json, "[]");
  coxswain_text_free(json);
}

TEST_F(CApi, IdsOfAPromptMakeTheSamePrompt) {
  const Answer of_text = collect(enqueue());
  std::size_t n = 0;
  const std::int32_t* ids = coxswain_prompt_ids(prompt_, &n);
  ASSERT_GT(n, 0U);
  coxswain_prompt* copy = nullptr;
  ASSERT_EQ(coxswain_prompt_of_ids(ids, n, &copy, error_.out()), COXSWAIN_OK);
  request_.prompt = copy;
  const std::uint64_t id = enqueue();
  coxswain_prompt_free(copy);  // the request has its own
  EXPECT_EQ(collect(id).tokens, of_text.tokens);
}

TEST_F(CApi, TokenizesTextAsItStands) {
  coxswain_prompt* made = nullptr;
  const std::string text("one\0two", 7);
  ASSERT_EQ(coxswain_tokenize(model_, text.data(), text.size(), &made, error_.out()), COXSWAIN_OK)
      << error_.text();
  std::size_t n_whole = 0;
  coxswain_prompt_ids(made, &n_whole);
  coxswain_prompt_free(made);
  ASSERT_EQ(coxswain_tokenize(model_, text.data(), 3, &made, error_.out()), COXSWAIN_OK);
  std::size_t n_part = 0;
  coxswain_prompt_ids(made, &n_part);
  coxswain_prompt_free(made);
  EXPECT_LT(n_part, n_whole);
}

TEST_F(CApi, CancelEndsARequest) {
  request_.ignore_eos = 1;
  request_.max_new_tokens = 0;  // as many as fit: long enough not to be over
  const std::uint64_t id = enqueue();
  coxswain_cancel(engine_, id);
  coxswain_cancel(engine_, id + 1);
  coxswain_cancel(nullptr, id);
  EXPECT_EQ(collect(id).code, COXSWAIN_CANCELLED);
}

TEST_F(CApi, WaitsOnlySoLong) {
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  const std::uint64_t id = enqueue();
  std::string text;
  do {  // 0 ms: mostly nothing
    ASSERT_EQ(coxswain_await(engine_, id, 0, &piece, nullptr), COXSWAIN_OK);
    text += piece.text;
  } while (piece.is_final == 0);
  EXPECT_THAT(text, EndsWith("42"));
  // Collected: the id is unknown from here on.
  ASSERT_EQ(coxswain_await(engine_, id, std::numeric_limits<std::int64_t>::max(), &piece, nullptr),
            COXSWAIN_OK);
  EXPECT_EQ(piece.is_final, 1);
  EXPECT_EQ(piece.code, COXSWAIN_NOT_FOUND);
  coxswain_response_clear(&piece);
}

TEST_F(CApi, DeadlinesHold) {
  request_.ignore_eos = 1;
  request_.max_new_tokens = 0;
  request_.timeout_ms = 1;
  EXPECT_EQ(collect(enqueue()).code, COXSWAIN_DEADLINE_EXCEEDED);
  request_.ignore_eos = 0;
  request_.timeout_ms = std::numeric_limits<std::uint64_t>::max();  // never
  request_.queue_timeout_ms = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(collect(enqueue()).code, COXSWAIN_OK);
}

TEST_F(CApi, BadFieldsAreNamed) {
  const coxswain_request good = request_;
  request_.top_p = 2.0F;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("top_p"));
  request_ = good;
  request_.do_sample = 2;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(error_.text(), "`do_sample` must be 0 or 1. Given: 2");
  request_ = good;
  request_.n_stop = 1;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("stop"));
  request_ = good;
  request_.prompt = nullptr;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("prompt"));
}

TEST_F(CApi, NothingIsDoneWithNull) {
  std::uint64_t id = 0;
  coxswain_model* model = nullptr;
  coxswain_engine* engine = nullptr;
  coxswain_prompt* prompt = nullptr;
  EXPECT_EQ(coxswain_open(nullptr, nullptr, &model, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_open("x", nullptr, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_start(nullptr, nullptr, &engine, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_tokenize(nullptr, "x", 1, &prompt, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_tokenize(model_, nullptr, 1, &prompt, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_chat(model_, nullptr, nullptr, 1, &prompt, nullptr),
            COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_prompt_of_ids(nullptr, 1, &prompt, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_enqueue(nullptr, &request_, &id, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_enqueue(engine_, nullptr, &id, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_enqueue(engine_, &request_, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(coxswain_await(engine_, id, 0, nullptr, nullptr), COXSWAIN_INVALID_ARGUMENT);
  std::size_t n = 7;
  EXPECT_EQ(coxswain_prompt_ids(nullptr, &n), nullptr);
  EXPECT_EQ(n, 0U);
  coxswain_text_free(nullptr);
  coxswain_prompt_free(nullptr);
  coxswain_response_clear(nullptr);
  coxswain_close(nullptr);
  coxswain_model_close(nullptr);
}

TEST_F(CApi, FoldersAndOptionsAreNamed) {
  coxswain_model* model = nullptr;
  EXPECT_EQ(coxswain_open("/no/such/folder", nullptr, &model, error_.out()), COXSWAIN_NOT_FOUND);
  EXPECT_THAT(error_.text(), HasSubstr("/no/such/folder"));
  coxswain_model_options options;
  coxswain_model_options_init(&options, sizeof options);
  options.dtype = "float9";
  EXPECT_EQ(coxswain_open("/no/such/folder", &options, &model, error_.out()),
            COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("float9"));
  options.dtype = nullptr;
  options.isa = "avx9";
  const std::string folder = std::string(std::getenv("COXSWAIN_SOURCE_DIR")) + "/models/demo";
  EXPECT_EQ(coxswain_open(folder.c_str(), &options, &model, error_.out()),
            COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("avx9"));
  EXPECT_EQ(model, nullptr);
}

TEST_F(CApi, OneEngineAtATime) {
  coxswain_engine* second = nullptr;
  EXPECT_EQ(coxswain_start(model_, nullptr, &second, error_.out()), COXSWAIN_FAILED_PRECONDITION);
  EXPECT_EQ(second, nullptr);
  EXPECT_THAT(error_.text(), Not(""));
}

// A program that was compiled with a later header: one more field, known to this library only as bytes.
struct LaterRequest {
  coxswain_request known;
  std::uint64_t added;
};

TEST_F(CApi, LaterCallersAreUnderstoodAsFarAsTheyAskForNothingNew) {
  LaterRequest later{};
  std::memset(&later, 0xFF, sizeof later);
  coxswain_request_init(&later.known, sizeof later);
  EXPECT_EQ(later.known.struct_size, sizeof later);
  EXPECT_EQ(later.added, 0U);
  later.known.prompt = prompt_;
  later.known.max_new_tokens = 1;
  std::uint64_t id = 0;
  EXPECT_EQ(coxswain_enqueue(engine_, &later.known, &id, nullptr), COXSWAIN_OK);
  EXPECT_EQ(collect(id).tokens.size(), 1U);
  later.added = 1;
  EXPECT_EQ(coxswain_enqueue(engine_, &later.known, &id, error_.out()), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_THAT(error_.text(), HasSubstr("struct_size"));
}

TEST_F(CApi, StructsWithoutASizeAreRefused) {
  request_.struct_size = 0;
  enqueue(COXSWAIN_INVALID_ARGUMENT);
  EXPECT_EQ(error_.text(), "`struct_size` of coxswain_request must be >= 112. Given: 0");
  coxswain_response piece{};
  EXPECT_EQ(coxswain_await(engine_, 1, 0, &piece, error_.out()), COXSWAIN_INVALID_ARGUMENT);
  coxswain_engine_options options{};
  coxswain_engine* engine = nullptr;
  EXPECT_EQ(coxswain_start(model_, &options, &engine, error_.out()), COXSWAIN_INVALID_ARGUMENT);
}

}  // namespace
