// Prefixes copied out of an engine and into it: tokens are those of an undisturbed run, and nothing is computed again
// that came in.

#include "batch/prefix_copy.h"

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/testing/replica.h"

namespace coxswain::batch {
namespace {

using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::handover_fake;
using testing::Recorder;
using testing::Replica;

GenerationRequest request(std::size_t n_prompt, std::uint32_t n_new, std::uint64_t id) {
  GenerationRequest out;
  out.id = RequestId{id};
  for (std::size_t i = 0; i < n_prompt; ++i)
    out.prompt.push_back(static_cast<TokenId>((i * 7 + 3) % 50));
  out.stopping.max_new_tokens = n_new;
  return out;
}

struct Copied {
  PrefixPieces pieces;
  std::vector<std::string> images;

  BringPiece bring() const {
    return [this](std::uint32_t i) { return Result<std::string>(images.at(i)); };
  }
};

Copied copy_out(const Replica& from, const GenerationRequest& query) {
  Copied out;
  auto pieces = export_prefix(*from.engine, query, [&](std::uint32_t i, std::string image) {
    EXPECT_EQ(i, out.images.size());
    out.images.push_back(std::move(image));
    return Status();
  });
  EXPECT_TRUE(pieces.ok()) << pieces.status().message();
  if (pieces.ok()) out.pieces = std::move(pieces).value();
  EXPECT_EQ(out.pieces.n_pieces(), out.images.size());
  return out;
}

class PrefixCopy : public ::testing::TestWithParam<std::vector<std::uint32_t>> {};

void expect_nothing_computed_again(const FakeRunnerOptions& fake) {
  SCOPED_TRACE("sink tokens " + std::to_string(fake.sink_tokens));
  const GenerationRequest first = request(90, 20, 1);
  const Replica from(fake);
  const std::vector<TokenId> output = from.run(first)->ids();
  GenerationRequest turn = first;
  turn.id = RequestId{2};
  turn.prompt.insert(turn.prompt.end(), output.begin(), output.end());
  turn.prompt.push_back(5);
  const Copied copied = copy_out(from, turn);
  EXPECT_EQ(copied.pieces.n_blocks, 27U);  // 109 positions were computed, blocks of 4
  EXPECT_GT(copied.images.size(), 1U);

  const Replica to(fake);
  ASSERT_TRUE(import_prefix(*to.engine, turn, copied.pieces, copied.bring()).ok());
  const auto next = to.run(turn);
  EXPECT_EQ(next->ids(), expected_output(fake, turn).tokens);
  EXPECT_EQ(next->final_event().n_cached_prompt_tokens, 108U);
  // Once more: all is there, nothing is asked for.
  const Status again = import_prefix(*to.engine, turn, copied.pieces, [](std::uint32_t) {
    return Result<std::string>(internal_error("a piece is asked for"));
  });
  EXPECT_TRUE(again.ok()) << again.message();
}

// Sink tokens of no block, of a part of the second one, and up to what the window sees.
TEST_P(PrefixCopy, WhatCameInIsNotComputedAgain) {
  FakeRunnerOptions fake = handover_fake(GetParam());
  for (const std::uint32_t n_sinks : {0U, 6U, 90U}) {
    fake.sink_tokens = n_sinks;
    expect_nothing_computed_again(fake);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups,
                         PrefixCopy,
                         ::testing::Values(std::vector<std::uint32_t>{0},
                                           std::vector<std::uint32_t>{0, 24},
                                           std::vector<std::uint32_t>{24, 10}));

TEST(PrefixCopyFaults, AnImageThatIsNotRightChangesNothing) {
  const FakeRunnerOptions fake = handover_fake();
  const GenerationRequest first = request(90, 8, 1);
  const Replica from(fake);
  from.run(first);
  const Copied copied = copy_out(from, first);
  const Replica to(fake);
  for (const std::size_t at : {std::size_t{0}, std::size_t{5}, copied.images[1].size() - 1}) {
    Copied broken = copied;
    broken.images[1][at] = static_cast<char>(broken.images[1][at] ^ 1);
    EXPECT_FALSE(import_prefix(*to.engine, first, broken.pieces, broken.bring()).ok());
  }
  Copied swapped = copied;  // whole, and of another number of blocks
  std::swap(swapped.images.front(), swapped.images.back());
  EXPECT_FALSE(import_prefix(*to.engine, first, swapped.pieces, swapped.bring()).ok());
  GenerationRequest later = first;
  later.id = RequestId{9};
  const auto answer = to.run(later);
  EXPECT_EQ(answer->final_event().n_cached_prompt_tokens, 0U);
  EXPECT_EQ(answer->ids(), expected_output(fake, first).tokens);
}

TEST(PrefixCopyFaults, ARunnerThatFailsTheStepFailsNoRequest) {
  const FakeRunnerOptions fake = handover_fake();
  const GenerationRequest first = request(60, 8, 1);
  const Replica replica(fake);
  replica.run(first);
  replica.runner->fail_next_transfer({Code::kInternal, "told to fail"});
  const auto failed = export_prefix(
      *replica.engine, first, [](std::uint32_t, const std::string&) { return Status(); });
  EXPECT_EQ(failed.status().message(), "told to fail");
  EXPECT_EQ(copy_out(replica, first).pieces.n_blocks, 15U);
}

TEST(PrefixCopyFaults, NoRoomAndNoAttachmentsAreErrorsOfTheCopyAlone) {
  const GenerationRequest first = request(90, 8, 1);
  const Replica from(handover_fake());
  from.run(first);
  const Copied copied = copy_out(from, first);
  const Replica small(handover_fake({0}, 20));
  EXPECT_EQ(import_prefix(*small.engine, first, copied.pieces, copied.bring()).code(),
            Code::kResourceExhausted);
  FakeRunnerOptions none = handover_fake();
  none.capabilities.attachments = false;
  const Replica closed(none);
  EXPECT_EQ(import_prefix(*closed.engine, first, copied.pieces, copied.bring()).code(),
            Code::kUnimplemented);
  closed.run(first);
  EXPECT_EQ(copy_out(closed, first).pieces.n_blocks, 0U);
}

TEST(PrefixCopyFaults, ALostRunnerEndsACopyInTheMiddle) {
  const FakeRunnerOptions fake = handover_fake();
  const GenerationRequest first = request(90, 8, 1);
  const Replica replica(fake);
  replica.run(first);
  const auto next = std::make_shared<FakeRunner>(fake);
  const auto copied = export_prefix(*replica.engine, first, [&](std::uint32_t, const std::string&) {
    replica.engine->replace_runner(next);
    return Status();
  });
  EXPECT_EQ(copied.status().code(), Code::kUnavailable);
  GenerationRequest later = first;
  later.id = RequestId{9};
  EXPECT_EQ(replica.run(later)->ids(), expected_output(fake, first).tokens);
}

// While requests come and go the blocks that are copied stay what they are.
TEST(PrefixCopyFaults, BesideRequestsThatNeedTheRoom) {
  const FakeRunnerOptions fake = handover_fake({0}, 40);
  const GenerationRequest first = request(90, 8, 1);
  const Replica from(fake);
  from.run(first);
  std::vector<std::shared_ptr<Recorder>> others;
  for (std::uint64_t id = 2; id < 12; ++id) {
    GenerationRequest other = request(70, 12, id);
    other.prompt[0] = static_cast<TokenId>(id);
    others.push_back(std::make_shared<Recorder>());
    ASSERT_TRUE(from.engine->submit(other, others.back()).ok());
  }
  const Copied copied = copy_out(from, first);
  for (const auto& other : others) EXPECT_TRUE(other->wait().ok());
  const Replica to(fake);
  ASSERT_TRUE(import_prefix(*to.engine, first, copied.pieces, copied.bring()).ok());
  EXPECT_EQ(to.run(first)->ids(), expected_output(fake, first).tokens);
}

}  // namespace
}  // namespace coxswain::batch
