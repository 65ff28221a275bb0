#include "serve/router/member_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using membership::Member;
using membership::Members;
using membership::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Member member(const std::string& name, const std::string& address = "h:1") {
  return {.name = name, .address = address};
}

const std::vector<bool> kNoneUp(3, false);

TEST(MemberSlots, MembersKeepTheirReplicas) {
  MemberSlots slots(3);
  EXPECT_THAT(slots.take({member("a"), member("c")}, kNoneUp).came, ElementsAre(0, 1));
  const auto changes = slots.take({member("b"), member("c")}, kNoneUp);
  EXPECT_THAT(changes.left, ElementsAre(0));
  EXPECT_THAT(changes.came, ElementsAre(0)) << "the first that nobody has";
  EXPECT_EQ(slots.slots()[0].member.name, "b");
  EXPECT_EQ(slots.slots()[1].member.name, "c");
  EXPECT_FALSE(slots.slots()[2].is_taken);
}

TEST(MemberSlots, WhoComesBackHasTheOldReplica) {
  MemberSlots slots(3);
  slots.take({member("a"), member("b")}, kNoneUp);
  EXPECT_THAT(slots.take({member("b")}, kNoneUp).left, ElementsAre(0));
  const auto changes = slots.take({member("0"), member("a"), member("b")}, {true, true, false});
  EXPECT_THAT(changes.came, ElementsAre(2, 0)) << "the connection to a still stands";
}

TEST(MemberSlots, OneThatGoesIsPutOutWhereThereIsNoRoom) {
  MemberSlots slots(2);
  slots.take({member("a"), member("b")}, kNoneUp);
  slots.take({member("a")}, {true, true});
  EXPECT_THAT(slots.take({member("a"), member("c")}, {true, true}).came, ElementsAre(1));
  const auto full = slots.take({member("a"), member("c"), member("d")}, {true, true});
  EXPECT_THAT(full.left_out, ElementsAre("d"));
  EXPECT_THAT(full.came, IsEmpty());
  EXPECT_THAT(slots.take({member("c"), member("d")}, {true, true}).came, ElementsAre(0));
}

TEST(MemberSlots, AddressesAndRolesAreChangesAndIncarnationsAreNone) {
  MemberSlots slots(3);
  Member a = member("a");
  slots.take({a}, kNoneUp);
  a.incarnation = "2";
  const auto same = slots.take({a}, kNoneUp);
  EXPECT_THAT(same.came, IsEmpty());
  EXPECT_THAT(same.left, IsEmpty());
  EXPECT_EQ(slots.slots()[0].member.incarnation, "2");
  a.address = "h:2";
  EXPECT_THAT(slots.take({a}, kNoneUp).came, ElementsAre(0));
  a.role = Role::kDecode;
  EXPECT_THAT(slots.take({a}, kNoneUp).came, ElementsAre(0));
}

}  // namespace
}  // namespace coxswain::serve
