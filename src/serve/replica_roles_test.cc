#include "serve/replica_roles.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kMixed = fleet::Role::kMixed;
constexpr auto kPrefill = fleet::Role::kPrefill;
constexpr auto kDecode = fleet::Role::kDecode;

std::string refusal(std::string_view text, std::size_t n_replicas) {
  return parse_roles(text, n_replicas).status().message();
}

TEST(ReplicaRoles, ThoseThatAreNotNamedAreMixed) {
  EXPECT_THAT(parse_roles("", 2).value(), ElementsAre(kMixed, kMixed));
  EXPECT_THAT(parse_roles("decode=1", 3).value(), ElementsAre(kDecode, kMixed, kMixed));
  EXPECT_THAT(parse_roles("prefill=1,decode=2", 3).value(),
              ElementsAre(kPrefill, kDecode, kDecode));
  EXPECT_THAT(parse_roles("mixed=0,prefill=1", 2).value(), ElementsAre(kPrefill, kMixed));
  EXPECT_THAT(parse_roles("", 1).value(), ElementsAre(kMixed));
}

TEST(ReplicaRoles, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal("prefil=1", 2), HasSubstr("`prefil=1` names no role"));
  EXPECT_EQ(refusal("prefill=1,", 2), "");
  EXPECT_THAT(refusal(",prefill=1", 2), HasSubstr("`` names no role"));
  for (const char* text : {"prefill", "prefill=", "prefill=x", "prefill=-1", "prefill=1x"})
    EXPECT_THAT(refusal(text, 2), HasSubstr(std::string("`") + text + "` should be a role"));
  EXPECT_THAT(refusal("prefill=1,decode=2", 2), HasSubstr("`replicas` is 2"));
  EXPECT_THAT(refusal("prefill=18446744073709551615,decode=1", 2), HasSubstr("`replicas` is 2"));
}

TEST(ReplicaRoles, EachHasItsName) {
  for (const fleet::Role role : {kMixed, kPrefill, kDecode}) {
    EXPECT_THAT(parse_roles(std::string(name_of(role)) + "=1", 2).value(),
                ElementsAre(role, kMixed));
  }
}

TEST(ReplicaRoles, SomebodyDoesEither) {
  EXPECT_THAT(refusal("prefill=2", 2), HasSubstr("no replica that generates"));
  EXPECT_THAT(refusal("decode=2", 2), HasSubstr("no replica that computes prompts"));
  EXPECT_EQ(refusal("decode=2", 3), "");
  for (const char* text : {"mixed=1", "prefill=1", "decode=1"})
    EXPECT_THAT(refusal(text, 1), HasSubstr("`replicas` is 1"));
}

TEST(ReplicaRoles, MixedOnesHandNothingOver) {
  EXPECT_FALSE(any_hands_over({kMixed, kMixed}));
  EXPECT_TRUE(any_hands_over({kMixed, kDecode}));
}

}  // namespace
}  // namespace coxswain::serve
