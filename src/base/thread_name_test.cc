#include "base/thread_name.h"

#include <array>
#include <pthread.h>
#include <thread>

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

TEST(ThreadName, IsCutToWhatTheSystemKeeps) {
  std::thread([] {
    std::array<char, 16> kept{};
    for (const auto& [name, wanted] :
         {std::pair{"compute", "cx-compute"}, {"fourteen-bytes", "cx-fourteen-byt"}}) {
      name_thread(name);
      ASSERT_EQ(pthread_getname_np(pthread_self(), kept.data(), kept.size()), 0);
      EXPECT_STREQ(kept.data(), wanted);
    }
  }).join();
}

}  // namespace
}  // namespace coxswain::base
