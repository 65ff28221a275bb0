#include "serve/parent_watch.h"

#include <array>
#include <cstdlib>
#include <future>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

class ParentWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(ends_.data()), 0);
    setenv(kParentPipeVariable, std::to_string(ends_[0]).c_str(), 1);
  }
  void TearDown() override {
    unsetenv(kParentPipeVariable);
    close(ends_[0]);
    end_parent();
  }
  void end_parent() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
};

TEST_F(ParentWatchTest, TheEndOfTheParentIsNoticed) {
  std::promise<void> gone;
  const ParentWatch watch([&] { gone.set_value(); });
  end_parent();
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(ParentWatchTest, BytesAreNoEnd) {
  std::promise<void> gone;
  std::future<void> noticed = gone.get_future();
  const ParentWatch watch([&] { gone.set_value(); });
  ASSERT_EQ(write(ends_[1], "x", 1), 1);
  EXPECT_EQ(noticed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  end_parent();
  EXPECT_EQ(noticed.wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(ParentWatchTest, AWatchMayEndBeforeTheParent) {
  bool called = false;
  {
    const ParentWatch watch([&] { called = true; });
  }
  end_parent();
  EXPECT_FALSE(called);
}

TEST_F(ParentWatchTest, WithoutAParentNothingIsWatched) {
  for (const char* text : {"", "x", "-1", "99999", "3 "}) {
    setenv(kParentPipeVariable, text, 1);
    const ParentWatch watch([] { FAIL() << "nobody is gone"; });
  }
  unsetenv(kParentPipeVariable);
  const ParentWatch watch([] { FAIL() << "nobody is gone"; });
}

}  // namespace
}  // namespace coxswain::serve
