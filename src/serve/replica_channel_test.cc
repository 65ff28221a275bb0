#include "serve/replica_channel.h"

#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace coxswain::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const auto kNone = [](const Status& status) { ADD_FAILURE() << status.message(); };

TEST(ReplicaChannel, MessagesArriveWholeAndInOrder) {
  auto ends = ReplicaChannel::make();
  ASSERT_EQ(ends.status(), Status());
  const auto& [launcher, router] = ends.value();
  EXPECT_THAT(launcher.receive(3, kNone), IsEmpty());
  const ReplicaMessage start{.verb = ReplicaVerb::kStart, .replica = 2};
  const ReplicaMessage stop{.verb = ReplicaVerb::kStop, .replica = 0};
  ASSERT_EQ(router.send(start), Status());
  ASSERT_EQ(router.send(stop), Status());
  EXPECT_THAT(launcher.receive(3, kNone), ElementsAre(start, stop));
  for (const auto verb : {ReplicaVerb::kReady, ReplicaVerb::kEnded, ReplicaVerb::kFailed}) {
    ASSERT_EQ(launcher.send({.verb = verb, .replica = 1}), Status());
    EXPECT_THAT(router.receive(3, kNone), ElementsAre(ReplicaMessage{verb, 1}));
  }
}

TEST(ReplicaChannel, SendingNeverBlocks) {
  auto ends = ReplicaChannel::make();
  ASSERT_EQ(ends.status(), Status());
  Status last;
  for (int i = 0; i < 1'000'000 && last.ok(); ++i) last = ends->first.send({});
  EXPECT_EQ(last.code(), Code::kUnavailable);
  EXPECT_THAT(last.message(), HasSubstr("`start 0` was not sent"));
}

TEST(ReplicaChannel, WhatIsNoMessageIsToldAndLeftOut) {
  for (const char* const text : {"",
                                 " ",
                                 "start",
                                 "start ",
                                 "start 3",
                                 "start -1",
                                 "start 1 ",
                                 "begin 1",
                                 "start 99999999999999999999",
                                 "start  1"}) {
    EXPECT_FALSE(parse_replica_message(text, 3).ok()) << text;
  }
  auto ends = ReplicaChannel::make();
  ASSERT_EQ(ends.status(), Status());
  const std::string longer = "start 1" + std::string(1'000, '0');
  ASSERT_EQ(write(ends->second.fd(), longer.data(), longer.size()),
            static_cast<ssize_t>(longer.size()));
  ASSERT_EQ(ends->second.send({.verb = ReplicaVerb::kStop, .replica = 1}), Status());
  int n_bad = 0;
  EXPECT_THAT(ends->first.receive(3, [&](const Status&) { ++n_bad; }),
              ElementsAre(ReplicaMessage{ReplicaVerb::kStop, 1}));
  EXPECT_EQ(n_bad, 1);
}

TEST(ReplicaChannel, IsInheritedByItsNumber) {
  auto ends = ReplicaChannel::make();
  ASSERT_EQ(ends.status(), Status());
  const std::string number = std::to_string(dup(ends->second.fd()));
  auto inherited = ReplicaChannel::inherit(number + ":2");
  ASSERT_EQ(inherited.status(), Status());
  EXPECT_EQ(inherited->second, 2U);
  ASSERT_EQ(inherited->first.send({}), Status());
  EXPECT_THAT(ends->first.receive(1, kNone), ElementsAre(ReplicaMessage{}));
  for (const std::string& wrong : {std::string(),
                                   number,
                                   number + ":0",
                                   std::string("x:1"),
                                   std::string("999999:1"),
                                   std::string("0:1")}) {
    EXPECT_FALSE(ReplicaChannel::inherit(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace coxswain::serve
