#include "request/checks.h"

#include <gtest/gtest.h>

namespace coxswain::request {
namespace {

TEST(Checks, StopSequences) {
  RequestLimits limits;
  limits.stop_sequences_max = 2;
  limits.stop_bytes_max = 3;
  const auto message = [&](std::vector<std::string> stops) {
    const Status status = check_stop_sequences(stops, limits);
    if (!status.ok()) {
      EXPECT_EQ(status.field(), "stop");
    }
    return status.message();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({"a", "abc"}), "");
  EXPECT_EQ(message({"a", "b", "c"}), "`stop` supports up to 2 stop sequences. Given: 3");
  EXPECT_EQ(message({"a", ""}), "`stop` cannot have empty strings");
  EXPECT_EQ(message({"abcd"}), "`stop` strings must have at most 3 bytes. Given: 4");
}

TEST(Checks, NewTokensFillTheRoomUnlessAskedFor) {
  RequestLimits limits;
  limits.total_tokens_max = 10;
  EXPECT_EQ(resolve_max_new_tokens(1, 8, limits), 1U);
  EXPECT_EQ(resolve_max_new_tokens(3, 8, limits), 2U) << "it ends at the room";
  EXPECT_EQ(resolve_max_new_tokens(std::nullopt, 8, limits), 2U);
  EXPECT_EQ(resolve_max_new_tokens(std::nullopt, 10, limits), 0U);
  EXPECT_EQ(resolve_max_new_tokens(std::nullopt, 11, limits), 0U);
}

TEST(Checks, LengthsInTheOrderOfTheirFaults) {
  RequestLimits limits;
  limits.input_tokens_max = 6;
  limits.total_tokens_max = 10;
  EXPECT_EQ(find_length_fault(6, 4, limits), LengthFault::kNone);
  EXPECT_EQ(find_length_fault(6, 5, limits), LengthFault::kTotal);
  EXPECT_EQ(find_length_fault(7, 3, limits), LengthFault::kPrompt);
  EXPECT_EQ(find_length_fault(7, 4, limits), LengthFault::kTotal);
  EXPECT_EQ(find_length_fault(11, 0, limits), LengthFault::kTotal);
  EXPECT_EQ(find_length_fault(11, std::nullopt, limits), LengthFault::kPrompt);
  EXPECT_EQ(find_length_fault(6, std::nullopt, limits), LengthFault::kNone);
  EXPECT_EQ(find_length_fault(1, UINT32_MAX, limits), LengthFault::kTotal);
}

TEST(Checks, SeedsFollowTheGivenOneOrAreDrawn) {
  std::uint64_t next = 100;
  const auto draw = [&] { return next++; };
  EXPECT_EQ(resolve_seeds(7, 3, draw), (std::vector<std::uint64_t>{7, 8, 9}));
  EXPECT_EQ(resolve_seeds(UINT64_MAX, 2, draw), (std::vector<std::uint64_t>{UINT64_MAX, 0}));
  EXPECT_EQ(next, 100U) << "nothing is drawn";
  EXPECT_EQ(resolve_seeds(std::nullopt, 2, draw), (std::vector<std::uint64_t>{100, 101}));
}

}  // namespace
}  // namespace coxswain::request
