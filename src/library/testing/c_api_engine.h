#pragma once
// CApiTest: an engine over the demo model through the C API, for tests of it.
//
// Thread rule: one thread.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <coxswain/coxswain.h>
#include <gtest/gtest.h>

namespace coxswain::library::testing {

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
  std::uint32_t n_drafts = 0;
  std::uint32_t n_accepted_drafts = 0;
};

class CApiTest : public ::testing::Test {
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
    out.n_drafts = piece.n_draft_tokens;
    out.n_accepted_drafts = piece.n_accepted_draft_tokens;
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

}  // namespace coxswain::library::testing
