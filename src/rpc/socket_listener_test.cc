#include "rpc/socket_listener.h"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/bounded_queue.h"
#include "base/testing/temp_folder.h"

namespace coxswain::rpc {
namespace {

using std::chrono::milliseconds;

class Listener : public ::testing::Test {
 protected:
  Result<std::unique_ptr<SocketListener>> start(const std::string& path) {
    return SocketListener::start(
        {.path = path, .check_interval = milliseconds(5)},
        [this](Descriptor fd, char first) {
          accepted_.try_push({std::move(fd), first});
        },
        log_);
  }

  base::TempFolder folder_;
  telemetry::Logger log_{{.level = telemetry::Level::kError, .target = "rpc_test"}};
  struct Accepted {
    Descriptor fd;
    char first;
  };
  static void say(const Descriptor& fd, char what) { ASSERT_EQ(::send(fd.get(), &what, 1, 0), 1); }

  base::BoundedQueue<Accepted> accepted_{16};
};

TEST_F(Listener, MakesAPrivateFolderAndLeavesNothingBehind) {
  const std::string path = folder_.file("run/shard-0");
  {
    auto listener = start(path);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    struct stat found {};
    ASSERT_EQ(::stat(folder_.file("run").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0700U);
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
    auto fd = connect_unix(path, milliseconds(1000));
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    say(*fd, 'x');
    EXPECT_EQ(accepted_.pop()->first, 'x');
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.file("run")));
}

TEST_F(Listener, MakesARemovedSocketAgain) {
  const std::string path = folder_.file("s");
  auto listener = start(path);
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  // Every failed connect() is a moment without a socket; the listener ends the loop.
  auto fd = connect_unix(path, milliseconds(1000));
  while (!fd.ok()) fd = connect_unix(path, milliseconds(1000));
  say(*fd, 'x');
  EXPECT_EQ(accepted_.pop()->first, 'x');
}

TEST_F(Listener, OneThatSaysNothingKeepsNobodyWaiting) {
  const std::string path = folder_.file("s");
  auto listener = start(path);
  ASSERT_TRUE(listener.ok());
  auto silent = connect_unix(path, milliseconds(1000));
  auto gone = connect_unix(path, milliseconds(1000));
  auto speaks = connect_unix(path, milliseconds(1000));
  ASSERT_TRUE(silent.ok() && gone.ok() && speaks.ok());
  gone->reset(-1);
  say(*speaks, 'b');
  EXPECT_EQ(accepted_.pop()->first, 'b');
  say(*silent, 'a');
  const auto last = accepted_.pop();
  EXPECT_EQ(last->first, 'a');
  char read = 0;
  EXPECT_EQ(::recv(last->fd.get(), &read, 1, 0), 1);  // it has only been looked at
  EXPECT_EQ(read, 'a');
  EXPECT_EQ(accepted_.drain().size(), 0U);
}

TEST_F(Listener, ReplacesTheSocketOfADeadServerButNoOtherFile) {
  const std::string path = folder_.file("s");
  {
    auto dead = listen_unix(path);
    ASSERT_TRUE(dead.ok());
  }
  EXPECT_EQ(connect_unix(path, milliseconds(1000)).status().code(), Code::kUnavailable);
  {
    auto listener = start(path);
    EXPECT_TRUE(listener.ok());
  }
  std::ofstream(path) << "precious";
  auto listener = start(path);
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.status().message(), path + " is there and is not a socket");
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(Listener, TellsWhetherAPathIsFree) {
  const std::string path = folder_.file("s");
  EXPECT_TRUE(SocketListener::check_free(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
  auto listener = start(path);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(SocketListener::check_free(path).code(), Code::kFailedPrecondition);
  listener.value().reset();
  EXPECT_TRUE(SocketListener::check_free(path).ok());
}

TEST_F(Listener, RefusesPathsThatCannotBeBound) {
  EXPECT_EQ(start(folder_.file(std::string(200, 'a'))).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(start("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(start(folder_.file("a/b/c")).status().code(), Code::kUnavailable);
}

TEST_F(Listener, TrustsOnlyASocketWithAPeer) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const Descriptor a(pair[0]);
  const Descriptor b(pair[1]);
  EXPECT_TRUE(peer_is_trusted(a.get()));
  const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(peer_is_trusted(file.get()));
}

TEST_F(Listener, UrlsBecomePaths) {
  EXPECT_EQ(path_of_url("unix:///a/b-0"), "/a/b-0");
  EXPECT_EQ(path_of_url("unix:/a"), "/a");
  EXPECT_EQ(path_of_url("/a"), "/a");
}

}  // namespace
}  // namespace coxswain::rpc
