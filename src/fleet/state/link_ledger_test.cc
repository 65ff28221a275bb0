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
  for (const auto medium : {LinkMedium::kNetwork, LinkMedium::kScaleUp}) {
    for (const auto direction : {LinkDirection::kSend, LinkDirection::kReceive}) {
      for (const std::uint32_t n_receivers : {1U, 3U}) {
        for (const std::uint32_t n_lanes : {1U, 2U}) {
          marks.insert(blitz_mark({ReplicaId{0}, medium, direction},
                                  {.n_receivers = n_receivers, .n_lanes = n_lanes}));
        }
      }
    }
  }
  EXPECT_EQ(marks.size(), 6U);
  EXPECT_EQ(name_of(blitz_mark(kReceive, {})), "RdmaLoading");
  EXPECT_EQ(name_of(blitz_mark(kSend, {.n_receivers = 4})), "RdmaCasting");
}

}  // namespace
}  // namespace coxswain::fleet
