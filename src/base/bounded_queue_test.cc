#include "base/bounded_queue.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

TEST(BoundedQueue, RefusesPastItsCapacityAndLeavesTheValue) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(second));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
  EXPECT_EQ(**queue.pop(), 1);
}

TEST(BoundedQueue, ClosedQueueHandsOutWhatIsLeft) {
  BoundedQueue<int> queue(4);
  queue.try_push(7);
  queue.close();
  EXPECT_FALSE(queue.try_push(8));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, ReaderWakesForAValueFromAnotherThread) {
  BoundedQueue<int> queue(4);
  std::thread writer([&] { queue.try_push(5); });
  EXPECT_EQ(queue.pop(), 5);
  writer.join();
}

TEST(BoundedQueue, DrainTakesAllInOrderAndMakesRoom) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.drain().empty());
  queue.try_push(1);
  queue.try_push(2);
  EXPECT_EQ(queue.drain(), (std::vector<int>{1, 2}));
  EXPECT_TRUE(queue.try_push(3));
  EXPECT_EQ(queue.pop(), 3);
}

}  // namespace
}  // namespace coxswain::base
