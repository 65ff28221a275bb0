#include "library/response_gatherer.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::library {
namespace {

batch::TokenEvent tokens(const std::vector<std::string>& texts) {
  batch::TokenEvent out;
  for (const std::string& text : texts)
    out.tokens.push_back({.id = 7, .logprob = -0.5F, .text = text});
  return out;
}

batch::GenerationRequest request_with_stops(std::vector<std::string> stops) {
  batch::GenerationRequest out;
  out.id = RequestId{3};
  out.prompt = {1, 2, 3};
  out.stopping.stop_sequences = std::move(stops);
  return out;
}

batch::TokenEvent final_event(const std::vector<std::string>& texts, SequenceFinish finish) {
  batch::TokenEvent out = tokens(texts);
  out.final = true;
  out.finish = std::move(finish);
  out.n_generated = 4;
  out.n_cached_prompt_tokens = 2;
  return out;
}

TEST(ResponseGatherer, GivesWhatCameSinceTheLastTime) {
  ResponseGatherer gatherer(request_with_stops({}));
  EXPECT_FALSE(gatherer.has_news());
  gatherer.add(tokens({"one"}));
  gatherer.add(tokens({" two", " three"}));
  EXPECT_EQ(gatherer.n_unread_tokens(), 3U);
  const Response first = gatherer.take();
  EXPECT_EQ(first.id, RequestId{3});
  EXPECT_EQ(first.text, "one two three");
  EXPECT_EQ(first.tokens.size(), 3U);
  EXPECT_FALSE(first.final);
  EXPECT_FALSE(gatherer.has_news());
  gatherer.add(final_event(
      {" four"}, {.reason = FinishReason::kLength, .generated_text = "one two three four"}));
  const Response last = gatherer.take();
  EXPECT_EQ(last.text, " four");
  EXPECT_TRUE(last.final);
  EXPECT_EQ(last.finish, FinishReason::kLength);
  EXPECT_EQ(last.usage,
            (Usage{.n_prompt_tokens = 3, .n_cached_prompt_tokens = 2, .n_generated_tokens = 4}));
}

TEST(ResponseGatherer, KeepsBackWhatMayBecomeAStopString) {
  ResponseGatherer gatherer(request_with_stops({"END"}));
  gatherer.add(tokens({"an E"}));
  const Response first = gatherer.take();
  EXPECT_EQ(first.text, "an ");
  EXPECT_EQ(first.tokens.size(), 1U);
  gatherer.add(tokens({"N"}));
  EXPECT_EQ(gatherer.take().text, "");
  gatherer.add(final_event({"D of"},
                           {.reason = FinishReason::kStopSequence,
                            .generated_text = "an END of",
                            .stop_text_begin = 3}));
  EXPECT_EQ(gatherer.take().text, "");
}

TEST(ResponseGatherer, KeepsBackTheTextOfAStopSequenceOfIds) {
  batch::GenerationRequest request = request_with_stops({});
  request.stopping.stop_token_sequences = {{7, 7}};
  ResponseGatherer gatherer(request);
  gatherer.add(tokens({"one"}));
  EXPECT_EQ(gatherer.take().text, "");
  gatherer.add(final_event(
      {" two"},
      {.reason = FinishReason::kStopSequence, .generated_text = "one two", .stop_text_begin = 0}));
  const Response last = gatherer.take();
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.tokens.size(), 1U);
}

TEST(ResponseGatherer, LeavesOutTheTextOfSpecialTokens) {
  ResponseGatherer gatherer(request_with_stops({}));
  batch::TokenEvent event =
      final_event({"42", "</s>"}, {.reason = FinishReason::kEosToken, .generated_text = "42"});
  event.tokens.back().special = true;
  gatherer.add(std::move(event));
  const Response response = gatherer.take();
  EXPECT_EQ(response.text, "42");
  EXPECT_EQ(response.tokens.size(), 2U);
}

TEST(ResponseGatherer, AFailureIsTheWholeOfTheLastResponse) {
  ResponseGatherer gatherer(request_with_stops({}));
  batch::TokenEvent event;
  event.final = true;
  event.status = {Code::kCancelled, "cancelled"};
  gatherer.add(std::move(event));
  EXPECT_TRUE(gatherer.has_news());
  const Response response = gatherer.take();
  EXPECT_TRUE(response.final);
  EXPECT_EQ(response.status.code(), Code::kCancelled);
  EXPECT_FALSE(response.finish.has_value());
}

}  // namespace
}  // namespace coxswain::library
