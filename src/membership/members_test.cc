#include "membership/members.h"

#include <gtest/gtest.h>

namespace coxswain::membership {
namespace {

TEST(Members, HaveAnAddressThatCanBeDialled) {
  for (const char* good : {"a:1", "shard-0.shards.ns.svc:65535", "10.0.0.1:80", "[::1]:9000"})
    EXPECT_TRUE(check_address(good).ok()) << good;
  for (const char* bad : {"",
                          "a",
                          "a:",
                          ":1",
                          "a:0",
                          "a:65536",
                          "a:1x",
                          "::1:9000",
                          "[]:1",
                          "[g]:1",
                          "a b:1",
                          "http://a:1",
                          "a/b:1",
                          "u@a:1"}) {
    EXPECT_EQ(check_address(bad).code(), Code::kInvalidArgument) << bad;
  }
  EXPECT_NE(check_address("a:70000").message().find("Given: a:70000"), std::string::npos);
}

TEST(Members, HaveARoleOfThree) {
  for (const Role role : {Role::kMixed, Role::kPrefill, Role::kDecode})
    EXPECT_EQ(parse_role(name_of(role)).value(), role);
  EXPECT_EQ(parse_role("Prefill").status().message(),
            "`role` must be mixed, prefill or decode. Given: Prefill");
}

TEST(FixedMembership, TellsItsListOnceSorted) {
  auto made =
      make_fixed_membership({{.name = "b", .address = "b:1"}, {.name = "a", .address = "a:1"}});
  ASSERT_TRUE(made.ok());
  std::vector<Members> told;
  ASSERT_TRUE(made.value()->start([&](const Members& members) { told.push_back(members); }).ok());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0], (Members{{.name = "a", .address = "a:1"}, {.name = "b", .address = "b:1"}}));
  EXPECT_TRUE(made.value()->status().is_known);
}

TEST(FixedMembership, RefusesNamesTwiceAndBadAddresses) {
  EXPECT_EQ(
      make_fixed_membership({{.name = "a", .address = "a:1"}, {.name = "a", .address = "b:1"}})
          .status()
          .message(),
      "`name` must be another one for each member. Twice: a");
  EXPECT_FALSE(make_fixed_membership({{.name = "", .address = "a:1"}}).ok());
  EXPECT_EQ(
      make_fixed_membership({{.name = "a", .address = "a"}}).status().message().find("member a: "),
      0U);
}

}  // namespace
}  // namespace coxswain::membership
