#include "rpc/hangup_watch.h"

#include <array>
#include <atomic>
#include <future>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace coxswain::rpc {
namespace {

class HangupWatchTest : public ::testing::Test {
 protected:
  HangupWatchTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    ours_.reset(pair[0]);
    theirs_.reset(pair[1]);
  }
  Descriptor ours_;
  Descriptor theirs_;
};

TEST_F(HangupWatchTest, SaysThatThePeerIsGone) {
  std::promise<void> gone;
  const HangupWatch watch(ours_, [&] { gone.set_value(); });
  ours_.reset(-1);  // whoever uses the connection may have closed it
  theirs_.reset(-1);
  gone.get_future().wait();
}

TEST_F(HangupWatchTest, BytesAreNoHangup) {
  std::atomic<int> n_calls{0};
  {
    const HangupWatch watch(ours_, [&] { ++n_calls; });
    const char byte = 'x';
    EXPECT_EQ(::write(theirs_.get(), &byte, 1), 1);
    char read = 0;
    EXPECT_EQ(::read(ours_.get(), &read, 1), 1);
  }
  theirs_.reset(-1);
  EXPECT_EQ(n_calls.load(), 0);
}

}  // namespace
}  // namespace coxswain::rpc
