#include "request/stop_holdback.h"

#include <gtest/gtest.h>

namespace coxswain::request {
namespace {

SequenceFinish stopped(std::string text, std::size_t begin) {
  return {FinishReason::kStopSequence, std::move(text), begin};
}

TEST(StopHoldback, WithoutStopStringsNothingIsKeptBack) {
  StopHoldback holdback({});
  EXPECT_EQ(holdback.push("abc"), "abc");
  EXPECT_EQ(holdback.finish("d", {FinishReason::kLength, "abcd", 4}), "d");
}

TEST(StopHoldback, OfAStopSequenceOfIdsTheLastTokenIsCutOff) {
  for (const std::size_t begin : {1U, 2U}) {  // "b" and "c", or "c" alone
    StopHoldback holdback({});
    EXPECT_EQ(holdback.push("a"), "a");
    EXPECT_EQ(holdback.push("b"), "b");
    EXPECT_EQ(holdback.finish("c",
                              {.reason = FinishReason::kStopSequence,
                               .generated_text = "abc",
                               .stop_text_begin = begin}),
              "");
  }
}

TEST(StopHoldback, PartOfAStopStringIsNeverSent) {
  StopHoldback holdback({"END", "\n\n"});
  EXPECT_EQ(holdback.push("one E"), "one ");
  EXPECT_EQ(holdback.push("N"), "");
  EXPECT_EQ(holdback.finish("D", stopped("one END", 4)), "");
}

TEST(StopHoldback, TextThatOnlyLookedLikeAStopStringComesOut) {
  StopHoldback holdback({"END"});
  EXPECT_EQ(holdback.push("E"), "");
  EXPECT_EQ(holdback.push("N"), "");
  EXPECT_EQ(holdback.push("x"), "ENx");
  EXPECT_EQ(holdback.push("E"), "");
  EXPECT_EQ(holdback.finish("N", {FinishReason::kEosToken, "ENxEN", 5}), "EN");
}

TEST(StopHoldback, TextAroundTheStopStringInTheLastPiece) {
  StopHoldback holdback({"END"});
  EXPECT_EQ(holdback.push("a E"), "a ");
  EXPECT_EQ(holdback.finish("END tail", stopped("a EEND tail", 3)), "E");
}

TEST(StopHoldback, FindsTheStopStringItselfWhenThePiecesDifferFromTheText) {
  StopHoldback holdback({"END"});
  EXPECT_EQ(holdback.push(" a E"), " a ");
  EXPECT_EQ(holdback.push("N"), "");
  EXPECT_EQ(holdback.finish("D x", stopped("a END x", 2)), "");
}

TEST(StopHoldback, TextBeforeStop) {
  EXPECT_EQ(text_before_stop(stopped("abEND", 2)), "ab");
  EXPECT_EQ(text_before_stop({FinishReason::kLength, "abEND", 5}), "abEND");
}

}  // namespace
}  // namespace coxswain::request
