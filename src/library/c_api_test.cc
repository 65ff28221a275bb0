// The C API over the demo model, as a C program uses it; and what a caller can do wrong.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/coxswain.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// An error's text, given back.
class Error {
 public:
  Error() = default;
  ~Error() { coxswain_text_free(text_); }
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  char** out() {
    coxswain_text_free(text_);
    text_ = nullptr;
    return &text_;
  }
  std::string text() const { return text_ == nullptr ? "" : text_; }

 private:
  char* text_ = nullptr;
};

struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;
  coxswain_code code = COXSWAIN_OK;
  std::string error;
  std::int32_t finish = COXSWAIN_FINISH_NONE;
  std::uint32_t n_generated = 0;
};

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
    ASSERT_NE(root, nullptr);
    coxswain_model_options options;
    coxswain_model_options_init(&options, sizeof options);
    options.kv_bytes = 8 << 20;
    const std::string folder = std::string(root) + "/models/demo";
    ASSERT_EQ(coxswain_open(folder.c_str(), &options, &model_, error_.out()), COXSWAIN_OK)
        << error_.text();
    ASSERT_EQ(coxswain_start(model_, nullptr, &engine_, error_.out()), COXSWAIN_OK)
        << error_.text();
    const char* role = "user";
    const char* content = "What is 12 + 30?";
    ASSERT_EQ(coxswain_chat(model_, &role, &content, 1, &prompt_, error_.out()), COXSWAIN_OK);
    coxswain_request_init(&request_, sizeof request_);
    request_.prompt = prompt_;
    request_.max_new_tokens = 64;
  }
  void TearDown() override {
    coxswain_prompt_free(prompt_);
    coxswain_model_close(model_);  // the engine keeps it
    coxswain_close(engine_);
  }

  // The id, or 0 with error_ set.
  std::uint64_t enqueue(coxswain_code expected = COXSWAIN_OK) {
    std::uint64_t id = 0;
    EXPECT_EQ(coxswain_enqueue(engine_, &request_, &id, error_.out()), expected) << error_.text();
    return id;
  }

  Answer collect(std::uint64_t id) {
    Answer out;
    coxswain_response piece;
    coxswain_response_init(&piece, sizeof piece);
    while (piece.is_final == 0) {
      if (coxswain_await(engine_, id, -1, &piece, error_.out()) != COXSWAIN_OK) break;
      EXPECT_EQ(piece.id, id);
      EXPECT_EQ(std::strlen(piece.text), piece.text_bytes);
      out.text.append(piece.text, piece.text_bytes);
      out.tokens.insert(out.tokens.end(), piece.tokens, piece.tokens + piece.n_tokens);
      for (std::size_t i = 0; i < piece.n_tokens; ++i) EXPECT_LE(piece.logprobs[i], 0.0F);
    }
    out.code = piece.code;
    out.error = piece.error;
    out.finish = piece.finish;
    out.n_generated = piece.n_generated_tokens;
    coxswain_response_clear(&piece);
    EXPECT_EQ(piece.owned, nullptr);
    EXPECT_EQ(piece.struct_size, sizeof piece);
    return out;
  }

  coxswain_model* model_ = nullptr;
  coxswain_engine* engine_ = nullptr;
  coxswain_prompt* prompt_ = nullptr;
  coxswain_request request_{};
  Error error_;
};

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
