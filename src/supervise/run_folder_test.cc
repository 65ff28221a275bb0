#include "supervise/run_folder.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/testing/temp_folder.h"

namespace coxswain::supervise {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  const base::TempFolder temp_;
  const std::string& parent_ = temp_.path();
};

TEST_F(RunFolderTest, IsPrivateAndRemovedWithItsOwner) {
  std::string path;
  {
    auto folder = RunFolder::create(parent_);
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    path = folder->path();
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    std::ofstream(path + "/shard-0") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(RunFolderTest, RemovesStaleFoldersAndLeavesLiveOnes) {
  fs::create_directory(parent_ + "/coxswain-stale1");
  std::ofstream(parent_ + "/coxswain-stale1/launcher.lock") << "";
  fs::create_directory(parent_ + "/coxswain-unlocked");  // no lock file: not known to be ours
  fs::create_directory(parent_ + "/other");
  auto first = RunFolder::create(parent_);
  ASSERT_TRUE(first.ok());
  auto second = RunFolder::create(parent_);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(fs::exists(parent_ + "/coxswain-stale1"));
  EXPECT_TRUE(fs::exists(parent_ + "/coxswain-unlocked"));
  EXPECT_TRUE(fs::exists(parent_ + "/other"));
  EXPECT_TRUE(fs::exists(first->path()));
  EXPECT_NE(first->path(), second->path());
}

// Each looks for stale folders while the others are between making a folder and locking it.
TEST_F(RunFolderTest, LaunchersThatStartTogetherKeepTheirFolders) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        const auto folder = RunFolder::create(parent_);
        ASSERT_TRUE(folder.ok()) << folder.status().message();
        ASSERT_TRUE(fs::exists(folder->path()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(RunFolderTest, SaysWhichFolderCannotBeMade) {
  const auto folder = RunFolder::create(parent_ + "/missing");
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find(parent_ + "/missing"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::supervise
