#include "serve/router/replica_group.h"

#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

TEST(HealthOfAll, OneThatIsWellIsEnough) {
  const Status lost(Code::kUnavailable, "lost");
  const Status late(Code::kDeadlineExceeded, "late");
  EXPECT_TRUE(health_of_all({lost, Status(), late}).ok());
  EXPECT_EQ(health_of_all({lost, late}), late) << "requests are still taken";
  EXPECT_EQ(health_of_all({lost, Status(Code::kUnavailable, "too")}), lost);
}

}  // namespace
}  // namespace coxswain::serve
