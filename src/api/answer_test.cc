#include "api/answer.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::api {
namespace {

using ::testing::HasSubstr;

OutputToken token(TokenId id, std::string text, float logprob, bool special = false) {
  OutputToken out;
  out.id = id;
  out.text = std::move(text);
  out.logprob = logprob;
  out.special = special;
  return out;
}

SequenceAnswer finished(FinishReason reason = FinishReason::kLength) {
  SequenceAnswer out;
  out.n_prompt = 7;
  out.tokens = {token(716, " am", -1.25F), token(257, " a", -0.5F)};
  out.n_generated = 2;
  out.logprob_sum = -1.75;
  out.finish = {reason, " am a", 5};
  return out;
}

AnswerPiece piece_of(const OutputToken& one, bool final) {
  return {.tokens = std::span(&one, 1), .final = final};
}

OpenAiAnswerOptions openai_options() {
  OpenAiAnswerOptions out;
  out.id = "x-1";
  out.created = 1700000000;
  out.model = "m";
  out.system_fingerprint = "1-f";
  return out;
}

TEST(NativeAnswer, TextOnlyAndWithDetails) {
  const std::vector<SequenceAnswer> one{finished()};
  EXPECT_EQ(make_native_answer({})->body(one), R"({"generated_text":" am a"})");
  NativeAnswerOptions options;
  options.details = true;
  EXPECT_EQ(
      make_native_answer(options)->body(one),
      R"({"generated_text":" am a","details":{"finish_reason":"length","generated_tokens":2,"seed":null,"prefill":[],"tokens":[{"id":716,"text":" am","logprob":-1.25,"special":false},{"id":257,"text":" a","logprob":-0.5,"special":false}]}})");
}

TEST(NativeAnswer, DraftsAreDetailsWhereThereWereSome) {
  SequenceAnswer sequence;
  sequence.n_drafts = 9;
  sequence.n_drafts_accepted = 6;
  const NativeAnswerOptions options{.details = true};
  EXPECT_THAT(make_native_answer(options)->body({&sequence, 1}),
              testing::HasSubstr(R"("tokens":[],"draft_n":9,"draft_n_accepted":6}})"));
  const OutputToken token{.id = 5, .text = "a"};
  const auto events = make_native_stream(options)->events(
      sequence, 0, {.tokens = {&token, 1}, .prompt = {}, .final = true});
  std::string all;
  for (const std::string& event : events) all += event;
  EXPECT_THAT(all, testing::HasSubstr(R"("input_length":0,"draft_n":9,"draft_n_accepted":6})"));
}

TEST(NativeAnswer, PromptTextInFrontAndInAnArray) {
  std::vector<SequenceAnswer> one{finished()};
  one[0].prompt_text = "I";
  NativeAnswerOptions options;
  options.return_full_text = true;
  options.as_array = true;
  EXPECT_EQ(make_native_answer(options)->body(one), R"([{"generated_text":"I am a"}])");
}

TEST(NativeAnswer, BestOfPutsTheHighestMeanFirstAndListsTheOthers) {
  std::vector<SequenceAnswer> two{finished(), finished(FinishReason::kEosToken)};
  two[1].logprob_sum = -1.0;
  two[1].seed = 9;
  two[1].prompt = {{1, NAN, "<s>"}, {2, -0.25F, "I"}};
  two[0].tokens.resize(1);
  NativeAnswerOptions options;
  options.details = true;
  options.top_tokens = true;
  EXPECT_EQ(
      make_native_answer(options)->body(two),
      R"({"generated_text":" am a","details":{"finish_reason":"eos_token","generated_tokens":2,"seed":9,"prefill":[{"id":1,"text":"<s>","logprob":null},{"id":2,"text":"I","logprob":-0.25}],"tokens":[{"id":716,"text":" am","logprob":-1.25,"special":false},{"id":257,"text":" a","logprob":-0.5,"special":false}],"best_of_sequences":[{"generated_text":" am a","finish_reason":"length","generated_tokens":2,"seed":null,"prefill":[],"tokens":[{"id":716,"text":" am","logprob":-1.25,"special":false}],"top_tokens":[[]]}],"top_tokens":[[],[]]}})");
}

TEST(NativeStream, IndexCountsMessagesAndTheLastHasTheText) {
  NativeAnswerOptions options;
  options.details = true;
  const auto stream = make_native_stream(options);
  SequenceAnswer sequence = finished(FinishReason::kStopSequence);
  EXPECT_EQ(stream->events(sequence, 0, piece_of(sequence.tokens[0], false)),
            std::vector<std::string>{"data: {\"index\":1,\"token\":{\"id\":716,\"text\":\" "
                                     "am\",\"logprob\":-1.25,\"special\":false},\"generated_text\":"
                                     "null,\"details\":null}\n\n"});
  EXPECT_EQ(
      stream->events(sequence, 0, piece_of(sequence.tokens[1], true)),
      std::vector<std::string>{"data: {\"index\":2,\"token\":{\"id\":257,\"text\":\" "
                               "a\",\"logprob\":-0.5,\"special\":false},\"generated_text\":\" am "
                               "a\",\"details\":{\"finish_reason\":\"stop_sequence\",\"generated_"
                               "tokens\":2,\"seed\":null,\"input_length\":7}}\n\n"});
  EXPECT_TRUE(stream->closing(std::span(&sequence, 1)).empty());
}

TEST(NativeStream, TopTokensStandBehindTheToken) {
  const auto stream = make_native_stream({});
  SequenceAnswer sequence = finished();
  OutputToken with_top = sequence.tokens[0];
  with_top.alternatives = {{5, -0.1F, true, "x"}};
  EXPECT_EQ(stream->events(sequence, 0, piece_of(with_top, false)).front(),
            "data: {\"index\":1,\"token\":{\"id\":716,\"text\":\" "
            "am\",\"logprob\":-1.25,\"special\":false},\"top_tokens\":[{\"id\":5,\"text\":\"x\","
            "\"logprob\":-0.1,\"special\":true}],\"generated_text\":null,\"details\":null}\n\n");
}

TEST(ChatAnswer, StopStringIsCutAndUsageAddsUp) {
  std::vector<SequenceAnswer> two{finished(FinishReason::kStopSequence),
                                  finished(FinishReason::kLength)};
  two[0].finish.stop_text_begin = 3;
  EXPECT_EQ(
      make_chat_answer(openai_options())->body(two),
      R"({"object":"chat.completion","id":"x-1","created":1700000000,"model":"m","system_fingerprint":"1-f","choices":[{"index":0,"message":{"role":"assistant","content":" am"},"logprobs":null,"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":" am a"},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ChatAnswer, Logprobs) {
  std::vector<SequenceAnswer> one{finished(FinishReason::kEosToken)};
  one[0].tokens.resize(1);
  one[0].tokens[0].alternatives = {{5, -0.5F, false, "x"}};
  OpenAiAnswerOptions options = openai_options();
  options.logprobs = true;
  options.n_top_logprobs = 1;
  const std::string body = make_chat_answer(options)->body(one);
  EXPECT_NE(
      body.find(
          R"("logprobs":{"content":[{"token":" am","logprob":-1.25,"bytes":[32,97,109],"top_logprobs":[{"token":"x","logprob":-0.5,"bytes":[120]}]}]},"finish_reason":"stop")"),
      std::string::npos)
      << body;
}

TEST(ChatStream, RoleInEveryDeltaAndSpecialTokensAreEmpty) {
  OpenAiAnswerOptions options = openai_options();
  options.include_usage = true;
  const auto stream = make_chat_stream(options);
  SequenceAnswer sequence = finished(FinishReason::kEosToken);
  const std::string head =
      "data: "
      "{\"object\":\"chat.completion.chunk\",\"id\":\"x-1\",\"created\":1700000000,\"model\":\"m\","
      "\"system_fingerprint\":\"1-f\",";
  EXPECT_EQ(
      stream->events(sequence, 0, piece_of(token(1, "OK", -0.5F), false)).front(),
      head +
          "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"OK\",\"tool_"
          "calls\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n");
  EXPECT_EQ(
      stream->events(sequence, 0, piece_of(token(2, "</s>", -0.5F, true), true)).front(),
      head +
          "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_"
          "calls\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n");
  EXPECT_EQ(
      stream->closing(std::span(&sequence, 1)),
      (std::vector<std::string>{head + "\"choices\":[],\"usage\":{\"prompt_tokens\":7,"
                                       "\"completion_tokens\":2,\"total_tokens\":9,"
                                       "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n",
                                "data: [DONE]\n\n"}));
}

TEST(CompletionStream, FinishReasonIsNullUntilTheLastChunkAndUsageStandsAlone) {
  OpenAiAnswerOptions options = openai_options();
  options.include_usage = true;
  const auto stream = make_completion_stream(options, 1);
  SequenceAnswer sequence = finished();
  sequence.n_cached = 4;
  const std::string head = R"(data: {"object":"text_completion","id":"x-1","created":1700000000,)";
  const std::string served = R"("model":"m","system_fingerprint":"1-f",)";
  EXPECT_EQ(stream->events(sequence, 1, piece_of(sequence.tokens[0], false)).front(),
            head + R"("choices":[{"index":1,"text":" am","logprobs":null,"finish_reason":null}],)" +
                served + "\"usage\":null}\n\n");
  EXPECT_EQ(stream->events(sequence, 1, piece_of(sequence.tokens[1], true)).front(),
            head +
                R"("choices":[{"index":1,"text":" a","logprobs":null,"finish_reason":"length"}],)" +
                served + "\"usage\":null}\n\n");
  EXPECT_EQ(
      stream->closing(std::span(&sequence, 1)),
      (std::vector<std::string>{
          head + served +
              R"("choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,)" +
              "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
          "data: [DONE]\n\n"}));
}

TEST(TgisDialect, EndsHaveItsNamesAndThereAreNoBytesOrCachedTokens) {
  std::vector<SequenceAnswer> one{finished(FinishReason::kStopSequence)};
  one[0].tokens.resize(1);
  OpenAiAnswerOptions options = openai_options();
  options.style = ApiStyle::kTgi;
  options.logprobs = true;
  const std::string chat = make_chat_answer(options)->body(one);
  EXPECT_THAT(chat, HasSubstr(R"([{"token":" am","logprob":-1.25,"top_logprobs":[]}])"));
  EXPECT_THAT(chat, HasSubstr(R"("finish_reason":"stop_sequence")"));
  EXPECT_THAT(chat, HasSubstr(R"("total_tokens":9}})"));
  options.logprobs = false;
  one[0] = finished(FinishReason::kEosToken);
  EXPECT_THAT(make_completion_answer(options, 1)->body(one),
              HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(make_completion_stream(options, 1)
                  ->events(one[0], 0, piece_of(one[0].tokens[1], true))
                  .front(),
              HasSubstr(R"("finish_reason":"eos_token")"));
}

TEST(CompletionStream, TgisHasAnEmptyFinishReasonAndTheUsageInTheLastChunk) {
  OpenAiAnswerOptions options = openai_options();
  options.style = ApiStyle::kTgi;
  options.include_usage = true;  // TGI does not know it here
  const auto stream = make_completion_stream(options, 1);
  SequenceAnswer sequence = finished();
  EXPECT_EQ(stream->events(sequence, 1, piece_of(sequence.tokens[0], false)).front(),
            "data: "
            "{\"object\":\"text_completion\",\"id\":\"x-1\",\"created\":1700000000,\"choices\":[{"
            "\"index\":1,\"text\":\" "
            "am\",\"logprobs\":null,\"finish_reason\":\"\"}],\"model\":\"m\",\"system_"
            "fingerprint\":\"1-f\"}\n\n");
  EXPECT_EQ(stream->events(sequence, 1, piece_of(sequence.tokens[1], true)).front(),
            "data: "
            "{\"object\":\"text_completion\",\"id\":\"x-1\",\"created\":1700000000,\"model\":\"m\","
            "\"system_fingerprint\":\"1-f\",\"choices\":[{\"index\":1,\"text\":\" "
            "a\",\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":7,"
            "\"completion_tokens\":2,\"total_tokens\":9}}\n\n");
  EXPECT_EQ(stream->closing(std::span(&sequence, 1)), std::vector<std::string>{"data: [DONE]\n\n"});
}

// A client asks whether a token was the best one by comparing it with its rivals: none are made up.
TEST(CompletionAnswer, AlternativesThatAreNotKnownAreNull) {
  std::vector<SequenceAnswer> one{finished()};
  one[0].tokens.resize(1);
  one[0].tokens[0].alternatives = {{5, -0.5F, false, "x"}, {6, -0.5F, false, "y"}};
  one[0].prompt_text = "Ié";
  one[0].prompt_pieces = {"", "I", "é"};
  one[0].prompt = {{1, NAN, "<s>"}, {2, -0.25F, "I"}, {3, -0.5F, "é"}};
  OpenAiAnswerOptions options = openai_options();
  options.logprobs = options.echo = true;
  options.n_top_logprobs = 1;
  const std::string body = make_completion_answer(options, 1)->body(one);
  EXPECT_NE(
      body.find(
          R"("text":"Ié am a","logprobs":{"tokens":["<s>","I","é"," am"],"token_logprobs":[null,-0.25,-0.5,-1.25],"top_logprobs":[null,null,null,{"x":-0.5," am":-1.25}],"text_offset":[0,0,1,2]})"),
      std::string::npos)
      << body;
}

TEST(CompletionAnswer, PromptsAreCountedOnceForSeveralSequences) {
  const std::vector<SequenceAnswer> four(4, finished());
  const std::string body = make_completion_answer(openai_options(), 2)->body(four);
  EXPECT_NE(
      body.find(
          R"("usage":{"prompt_tokens":14,"completion_tokens":8,"total_tokens":22,"prompt_tokens_details":{"cached_tokens":0}})"),
      std::string::npos)
      << body;
}

}  // namespace
}  // namespace coxswain::api
