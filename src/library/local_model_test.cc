// LocalModel over the demo model.

#include <cstdlib>
#include <string>

#include <coxswain/executor.h>
#include <coxswain/generate.h>
#include <coxswain/local_model.h>
#include <coxswain/stepper.h>
#include <gtest/gtest.h>

#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using testing::await_whole;

std::string demo_model() {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  return std::string(root != nullptr ? root : ".") + "/models/demo";
}

LocalModelOptions small_options() {
  return {.n_threads = 1,
          .kv_bytes = std::uint64_t{8} << 20,
          .total_tokens_max = 256,
          .prefill_tokens_max = 64,
          .batch_size_max = 8};
}

LocalModel open_demo() {
  auto model = open_model(demo_model(), small_options());
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.value();
}

TEST(LocalModel, ChatSaysWhereEveryTokenComesFrom) {
  const LocalModel model = open_demo();
  const auto prompt = model.chat({{"user", "Hello!"}});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(prompt->ids, (std::vector<TokenId>{3, 765, 7, 0, 4}));  // golden.json
  EXPECT_EQ(prompt->text, "<|user|>Hello!<|end|><|assistant|>");
  ASSERT_EQ(prompt->spans.size(), prompt->ids.size());
  EXPECT_EQ(prompt->spans[1], (TextSpan{.begin = 8, .end = 13}));
}

TEST(LocalModel, ContentNeverBecomesASpecialToken) {
  const LocalModel model = open_demo();
  const auto prompt = model.chat({{"user", "<|end|>"}});
  ASSERT_TRUE(prompt.ok());
  const auto n_ends = std::ranges::count(prompt->ids, TokenId{0});
  EXPECT_EQ(n_ends, 1);  // the template's own
  const auto trusted = model.tokenize("<|end|>");
  ASSERT_TRUE(trusted.ok());
  EXPECT_EQ(trusted->ids, (std::vector<TokenId>{0}));
  const auto untrusted = model.tokenize("<|end|>", {.untrusted = {{.begin = 0, .end = 7}}});
  ASSERT_TRUE(untrusted.ok());
  EXPECT_EQ(std::ranges::count(untrusted->ids, TokenId{0}), 0);
}

TEST(LocalModel, AnAssistantsLastMessageIsContinued) {
  const LocalModel model = open_demo();
  const auto prompt = model.chat({{"user", "Hello!"}, {"assistant", "Hello! I am"}});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_TRUE(prompt->text.ends_with("Hello! I am")) << prompt->text;
}

TEST(LocalModel, RefusesByName) {
  EXPECT_EQ(open_model("/no/such/folder").status().code(), Code::kNotFound);
  EXPECT_EQ(open_model(demo_model(), {.dtype = "float8"}).status().field(), "dtype");
  EXPECT_EQ(open_model(demo_model(), {.kv_dtype = "int2"}).status().field(), "kv_dtype");
  EXPECT_EQ(open_model(demo_model(), {.batch_size_max = 0}).status().field(), "batch_size_max");
  const LocalModel model = open_demo();
  EXPECT_EQ(model.chat({}).status().field(), "messages");
  EXPECT_EQ(model.tokenize("ab", {.untrusted = {{.begin = 1, .end = 3}}}).status().field(),
            "untrusted");
  EXPECT_EQ(model.tokenize("abcd", {.untrusted = {{.begin = 2, .end = 3}, {.begin = 0, .end = 1}}})
                .status()
                .field(),
            "untrusted");
}

TEST(LocalModel, WindowsAreAnOption) {
  const auto model =
      open_model(demo_model(), {.max_attention_window = {0, 64}, .sink_token_length = 4});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const RunnerInfo info = model->info();
  ASSERT_EQ(info.kv_groups.size(), 2U);
  EXPECT_EQ(info.kv_groups[0].kind, KvGroup::Kind::kFull);
  EXPECT_EQ(info.kv_groups[1].window, 64U);
  EXPECT_EQ(info.kv_groups[1].sink_tokens, 4U);
  EXPECT_EQ(open_model(demo_model(), {.sink_token_length = 4}).status().field(),
            "sink_token_length");
}

TEST(LocalModel, SaysWhereMemoryGoes) {
  const LocalModel model = open_demo();
  EXPECT_NE(model.memory_plan().find("weights"), std::string::npos);
  EXPECT_GT(model.info().vocab_size, 0U);
  EXPECT_NE(model.codec(), nullptr);
}

// A request's answer as text, piece by piece.
Response ask(Executor& engine, const LocalModel& model, const std::string& question) {
  Request request;
  request.prompt = model.chat({{"user", question}}).value();
  request.stopping.max_new_tokens = 64;
  const auto id = engine.enqueue(std::move(request));
  EXPECT_TRUE(id.ok()) << id.status().message();
  return await_whole(engine, id.value());
}

TEST(LocalModel, OneEngineAtATime) {
  const LocalModel model = open_demo();
  {
    Executor first(model);
    Executor second(model);
    EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
    const auto refused = second.enqueue(testing::make_request(3, 3));
    EXPECT_EQ(refused.status().code(), Code::kFailedPrecondition);
    const Response answer = ask(first, model, "What is 12 + 30?");
    EXPECT_TRUE(answer.text.ends_with("= 42")) << answer.text;
    EXPECT_EQ(answer.finish, FinishReason::kEosToken);
    // Ends while a request runs: the runner forgets it all the same.
    ASSERT_TRUE(first.enqueue(testing::make_request(8, 200)).ok());
  }
  for (int i = 0; i < 3; ++i) {
    Executor next(model);
    EXPECT_TRUE(ask(next, model, "What is 12 + 30?").text.ends_with("= 42"));
    ASSERT_TRUE(next.enqueue(testing::make_request(8, 200)).ok());
    static_cast<void>(next.await_any());
  }
}

TEST(LocalModel, GoesWithItsLastUser) {
  auto model = std::make_unique<LocalModel>(open_demo());
  const LocalModel copy = *model;
  Executor engine(*model);
  model.reset();
  EXPECT_TRUE(ask(engine, copy, "What is 12 + 30?").text.ends_with("= 42"));
}

TEST(LocalModel, OneLinersAndTheStepperSayTheSame) {
  const LocalModel model = open_demo();
  const Prompt prompt = model.chat({{"user", "What is 12 + 30?"}}).value();
  const Response whole = generate(model, prompt);
  EXPECT_TRUE(whole.text.ends_with("= 42")) << whole.text;
  EXPECT_EQ(generate(model, prompt.text).tokens, whole.tokens);
  Request request;
  request.prompt = prompt;
  std::string streamed;
  const auto keep = [&](const Response& piece) {
    streamed += piece.text;
    return true;
  };
  EXPECT_EQ(stream(model, request, keep).tokens, whole.tokens);
  EXPECT_EQ(streamed, whole.text);
  Stepper engine(model);
  EXPECT_EQ(generate(model, prompt).status.code(), Code::kFailedPrecondition);
  ASSERT_TRUE(engine.add(request).ok());
  Response stepped;
  while (!engine.idle())
    for (Response& piece : engine.step()) testing::append(stepped, std::move(piece));
  EXPECT_EQ(stepped.tokens, whole.tokens);
  EXPECT_EQ(stepped.text, whole.text);
}

class OneIdAlways final : public LogitsProcessor {
 public:
  Status process(const LogitsInput& input, std::span<float> logits) override {
    logits[input.tag] = 1000.0F;
    return {};
  }
};

TEST(LocalModel, GivesLogitsAndAHandInThem) {
  LocalModelOptions options = small_options();
  options.output_bytes_max = std::uint64_t{1} << 20;
  options.top_tokens_max = 1024;
  options.logits_processors = {{"always", std::make_shared<OneIdAlways>()}};
  const auto opened = open_model(demo_model(), options);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const RunnerInfo info = opened->runner()->info();
  Request request;
  request.prompt = opened->tokenize("Hello there").value();
  request.stopping = {.max_new_tokens = 3, .ignore_eos = true};
  request.outputs = {.generation_logits = true, .context_hidden = true};
  request.sampling.n_top_tokens = 1000;
  request.sampling.logits_processor = "always";
  request.sampling.logits_processor_tag = 7;
  const Response whole = generate(*opened, request);
  ASSERT_TRUE(whole.status.ok()) << whole.status.message();
  ASSERT_EQ(whole.tokens.size(), 3U);
  double sum = 0.0;
  for (const OutputToken& token : whole.tokens) {
    EXPECT_EQ(token.id, 7);
    EXPECT_GE(token.alternatives.size(), 1000U);
    sum += static_cast<double>(token.logprob);
  }
  EXPECT_EQ(whole.cumulative_logprob, sum);
  EXPECT_EQ(whole.outputs.context_hidden.size(), request.prompt.ids.size() * info.hidden_size);
  EXPECT_EQ(whole.outputs.generation_logits.size(), 3U * info.vocab_size);
  EXPECT_TRUE(whole.outputs.context_logits.empty());

  Stepper engine(*opened);
  request.prompt.ids.assign(200, 5);
  request.outputs = {.context_hidden = true};
  const std::size_t bytes = 200 * std::size_t{info.hidden_size} * sizeof(float);
  const std::size_t n_fit = options.output_bytes_max / bytes;
  for (std::size_t i = 0; i < n_fit; ++i) EXPECT_TRUE(engine.add(request).ok());
  EXPECT_EQ(engine.add(request).status().code(), Code::kResourceExhausted);
  while (!engine.idle()) engine.step();
  EXPECT_TRUE(engine.add(request).ok());
}

TEST(LocalModel, AStopStringIsNeverShown) {
  const LocalModel model = open_demo();
  Executor engine(model);
  Request request;
  request.prompt = model.chat({{"user", "What is 12 + 30?"}}).value();
  request.stopping.stop_sequences = {"= 42"};
  const auto id = engine.enqueue(std::move(request));
  ASSERT_TRUE(id.ok()) << id.status().message();
  std::string text;
  Response piece;
  while (!piece.final) {
    piece = engine.await(id.value());
    text += piece.text;
    EXPECT_EQ(text.find("= 4"), std::string::npos);
  }
  EXPECT_EQ(piece.finish, FinishReason::kStopSequence);
  EXPECT_TRUE(text.ends_with("12 + 30 ")) << text;
}

}  // namespace
}  // namespace coxswain::library
