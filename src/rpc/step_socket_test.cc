#include "rpc/step_socket.h"

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <proto/engine_v1.pb.h>
#include <sys/socket.h>

namespace coxswain::rpc {
namespace {

namespace pb = coxswain::engine::v1;
using Taken = StepSocket::Taken;

constexpr std::size_t kBytesMax = std::size_t{4} << 20;
constexpr std::chrono::milliseconds kForever{-1};

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    from = std::make_unique<StepSocket>(Descriptor(ends[0]), kBytesMax);
    to = std::make_unique<StepSocket>(Descriptor(ends[1]), kBytesMax);
  }
  std::unique_ptr<StepSocket> from;
  std::unique_ptr<StepSocket> to;
};

pb::StepsRequest request_of(std::uint64_t step, std::size_t n_prompt_tokens = 0) {
  pb::StepsRequest out;
  out.mutable_plan()->set_step(step);
  pb::SequenceSpec& spec = *out.mutable_plan()->add_new_sequences();
  for (std::size_t i = 0; i < n_prompt_tokens; ++i) spec.add_prompt(0x0FFFFFFF);
  return out;
}

Taken read(StepSocket& from, pb::StepsRequest& message) {
  Taken taken = from.take(message);
  while (taken == Taken::kNone) {
    from.wait(StepSocket::For::kReading, kForever);
    if (!from.fill()) return from.take(message);
    taken = from.take(message);
  }
  return taken;
}

TEST(StepSocket, MessagesOfAnySizeArriveWholeAndInOrder) {
  Pair pair;
  // Small ones, which come several at once, and some of many reads.
  const std::array<std::size_t, 8> n_tokens{0, 1, 100'000, 0, 3, 600'000, 7, 20'000};
  std::thread sender([&] {
    for (std::size_t i = 0; i < n_tokens.size(); ++i) {
      pair.from->put(request_of(i, n_tokens[i]));
      while (pair.from->flush() && pair.from->has_unsent())
        pair.from->wait(StepSocket::For::kWriting, kForever);
    }
  });
  for (std::size_t i = 0; i < n_tokens.size(); ++i) {
    pb::StepsRequest got;
    ASSERT_EQ(read(*pair.to, got), Taken::kMessage);
    EXPECT_EQ(got.SerializeAsString(), request_of(i, n_tokens[i]).SerializeAsString());
  }
  sender.join();
}

TEST(StepSocket, SendingDoesNotWaitForWhoDoesNotRead) {
  Pair pair;
  for (std::uint64_t step = 0; step < 4; ++step) {
    pair.from->put(request_of(step, 100'000));
    EXPECT_TRUE(pair.from->flush());
  }
  EXPECT_TRUE(pair.from->has_unsent());
  EXPECT_FALSE(pair.from->wait(StepSocket::For::kBoth, std::chrono::milliseconds(1)));
  for (std::uint64_t step = 0; step < 4; ++step) {
    pb::StepsRequest got;
    while (pair.to->take(got) == Taken::kNone) {
      ASSERT_TRUE(pair.to->fill());
      ASSERT_TRUE(pair.from->flush());
    }
    EXPECT_EQ(got.plan().step(), step);
  }
  EXPECT_FALSE(pair.from->has_unsent());
}

TEST(StepSocket, WhatCameBeforeTheEndIsStillTaken) {
  Pair pair;
  pair.from->put(request_of(5));
  EXPECT_TRUE(pair.from->flush());
  pair.from.reset();
  pb::StepsRequest got;
  EXPECT_EQ(read(*pair.to, got), Taken::kMessage);
  EXPECT_EQ(got.plan().step(), 5U);
  EXPECT_EQ(read(*pair.to, got), Taken::kNone);
  pair.to->put(request_of(6));
  EXPECT_FALSE(pair.to->flush());
}

TEST(StepSocket, AMessageAboveTheLimitIsRefusedBeforeItsBytesAreRead) {
  Pair pair;
  std::thread sender([&] {
    pair.from->put(request_of(1, kBytesMax / 4));
    while (pair.from->flush() && pair.from->has_unsent())
      pair.from->wait(StepSocket::For::kWriting, kForever);
  });
  pb::StepsRequest got;
  EXPECT_EQ(read(*pair.to, got), Taken::kBroken);
  pair.to->shut_down();
  sender.join();
}

TEST(StepSocket, ShuttingDownWakesBothEnds) {
  Pair pair;
  std::thread here([&] {
    pb::StepsRequest got;
    EXPECT_EQ(read(*pair.from, got), Taken::kNone);
  });
  std::thread there([&] {
    pb::StepsRequest got;
    EXPECT_EQ(read(*pair.to, got), Taken::kNone);
  });
  pair.from->shut_down();
  here.join();
  there.join();
}

}  // namespace
}  // namespace coxswain::rpc
