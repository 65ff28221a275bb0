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

TEST(StopHoldback, TheTextOfAStopSequenceOfIdsIsNeverSent) {
  StopHoldback holdback({}, {{5, 6, 7}, {6, 9}});
  EXPECT_EQ(holdback.push("a", 4), "a");
  EXPECT_EQ(holdback.push("b", 5), "");
  EXPECT_EQ(holdback.push("c", 6), "");
  EXPECT_EQ(holdback.push("d", 5), "bc");  // neither of them, and perhaps the first again
  EXPECT_EQ(holdback.push("e", 6), "");
  EXPECT_EQ(holdback.finish("f", stopped("abcdef", 3), 7), "");
}

TEST(StopHoldback, IdsThatOnlyLookedLikeAStopComeOut) {
  StopHoldback holdback({"xy"}, {{5, 5, 6}});
  EXPECT_EQ(holdback.push("a", 5), "");
  EXPECT_EQ(holdback.push("b", 5), "");
  EXPECT_EQ(holdback.push("c", 5), "a");  // the last two may begin it
  EXPECT_EQ(holdback.push("x", 8), "bc");
  EXPECT_EQ(holdback.push("d", 5), "x");
  EXPECT_EQ(holdback.finish("e", {FinishReason::kLength, "abcxde", 6}, 5), "de");
}

TEST(StopHoldback, FindsTheStopOfIdsWhenThePiecesDifferFromTheText) {
  StopHoldback holdback({}, {{5, 6}});
  EXPECT_EQ(holdback.push(" a", 4), " a");
  EXPECT_EQ(holdback.push("", 3), "");  // a special token
  EXPECT_EQ(holdback.push("b", 5), "");
  EXPECT_EQ(holdback.finish("c", stopped("abc", 1), 6), "");
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

TEST(StopHoldback, AKeptStopEndsTheText) {
  SequenceFinish finish{FinishReason::kStopSequence, "one STOPPER two", 4};
  const std::vector<std::string> stops{"STOPPER", "STOP"};
  EXPECT_EQ(text_through_stop(finish, stops), "one STOP");
  StopHoldback holdback(stops, {}, StopText::kKept);
  EXPECT_EQ(holdback.push("one S"), "one ");
  EXPECT_EQ(holdback.finish("TOPPER two", finish), "STOP");

  finish = {FinishReason::kStopSequence, "one two", 4};
  EXPECT_EQ(text_through_stop(finish, {}), "one two");
  StopHoldback of_ids({}, {{7}}, StopText::kKept);
  EXPECT_EQ(of_ids.push("one ", 1), "one ");
  EXPECT_EQ(of_ids.finish("two", finish, 7), "two");

  finish = {FinishReason::kEosToken, "one STOPPER", 11};
  EXPECT_EQ(text_through_stop(finish, stops), "one STOPPER");
}

TEST(StopHoldback, TextBeforeStop) {
  EXPECT_EQ(text_before_stop(stopped("abEND", 2)), "ab");
  EXPECT_EQ(text_before_stop({FinishReason::kLength, "abEND", 5}), "abEND");
}

}  // namespace
}  // namespace coxswain::request
