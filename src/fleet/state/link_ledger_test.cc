#include "fleet/state/link_ledger.h"

#include <chrono>
#include <set>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

using std::chrono::seconds;

constexpr Link kSend{ReplicaId{1}, LinkMedium::kNetwork, LinkDirection::kSend};
constexpr Link kReceive{ReplicaId{1}, LinkMedium::kNetwork, LinkDirection::kReceive};

LinkUse use_of(std::uint64_t transfer) {
  return {.owner = {ReplicaId{1}, 3},
          .transfer = TransferId{transfer},
          .deadline = TimePoint{} + seconds(9)};
}

TEST(LinkLedger, ALinkCarriesOneTransferInEachDirection) {
  LinkLedger links;
  EXPECT_TRUE(links.reserve(kSend, use_of(1)).ok());
  EXPECT_EQ(links.reserve(kSend, use_of(2)).code(), Code::kResourceExhausted);
  EXPECT_TRUE(links.reserve(kReceive, use_of(2)).ok());
  EXPECT_EQ(links.release(TransferId{1}).size(), 1U);
  EXPECT_FALSE(links.busy(kSend));
  EXPECT_TRUE(links.busy(kReceive));
}

TEST(LinkLedger, LeasesEndWithTimeAndWithTheirOwner) {
  LinkLedger links;
  ASSERT_TRUE(links.reserve(kSend, use_of(1)).ok());
  ASSERT_TRUE(links.reserve(kReceive, use_of(2)).ok());
  EXPECT_EQ(links.extend(kSend, TransferId{2}, {}).code(), Code::kNotFound);
  EXPECT_TRUE(links.extend(kSend, TransferId{1}, TimePoint{} + seconds(20)).ok());
  EXPECT_TRUE(links.expire(TimePoint{} + seconds(9)).empty());
  EXPECT_EQ(links.expire(TimePoint{} + seconds(10)), std::vector{kReceive});
  EXPECT_TRUE(links.lose({ReplicaId{1}, 2}).empty());
  EXPECT_EQ(links.lose({ReplicaId{1}, 3}), std::vector{kSend});
}

TEST(LinkLedger, ShowsTheSixMarks) {
  std::set<LinkMark> marks;
  for (const LinkUse use : {LinkUse{.n_receivers = 1, .n_lanes = 1},
                            LinkUse{.n_receivers = 1, .n_lanes = 2},
                            LinkUse{.n_receivers = 3, .n_lanes = 1},
                            LinkUse{.n_receivers = 3, .n_lanes = 2}}) {
    for (const auto medium : {LinkMedium::kNetwork, LinkMedium::kScaleUp}) {
      for (const auto direction : {LinkDirection::kSend, LinkDirection::kReceive})
        marks.insert(blitz_mark({ReplicaId{0}, medium, direction}, use));
    }
  }
  EXPECT_EQ(marks.size(), 6U);
  EXPECT_EQ(name_of(blitz_mark(kReceive, {})), "RdmaLoading");
  EXPECT_EQ(name_of(blitz_mark(kSend, {.n_receivers = 4})), "RdmaCasting");
}

}  // namespace
}  // namespace coxswain::fleet
