#include "serve/weights_file.h"

#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace coxswain::serve {
namespace {

ino_t inode_of(int fd) {
  struct stat about {};
  EXPECT_EQ(fstat(fd, &about), 0);
  return about.st_ino;
}

TEST(WeightsFile, AShardFindsWhatTheLauncherHandsDown) {
  const auto file = WeightsFile::make();
  ASSERT_TRUE(file.ok()) << file.status().message();
  const int inherited = dup(file->fd());  // not closed on exec
  const auto found = inherited_weights((std::to_string(inherited) + ":3").c_str());
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->fd, inherited);
  EXPECT_EQ((*found)->sharers, 3U);
  EXPECT_EQ(fcntl(inherited, F_GETFD), FD_CLOEXEC);
  close(inherited);
  EXPECT_FALSE(inherited_weights(nullptr).value().has_value());
}

TEST(WeightsFile, OtherValuesAreRefused) {
  const auto file = WeightsFile::make();
  ASSERT_TRUE(file.ok());
  const std::string fd = std::to_string(file->fd());
  const std::vector<std::string> all{
      fd, fd + ":", fd + ":0", fd + ":2x", ":2", "x:2", "-1:2", "0:2"};
  for (const std::string& wrong : all)
    EXPECT_EQ(inherited_weights(wrong.c_str()).status().code(), Code::kInvalidArgument) << wrong;
}

TEST(WeightsFile, ANewOneHasTheNumberOfTheOld) {
  auto file = WeightsFile::make();
  ASSERT_TRUE(file.ok());
  const int fd = file->fd();
  const ino_t old = inode_of(fd);
  ASSERT_EQ(write(fd, "x", 1), 1);
  ASSERT_TRUE(file->renew().ok());
  EXPECT_EQ(file->fd(), fd);
  EXPECT_NE(inode_of(fd), old);
  EXPECT_EQ(lseek(fd, 0, SEEK_END), 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), 0);
}

}  // namespace
}  // namespace coxswain::serve
