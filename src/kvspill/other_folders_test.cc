// Folders of models that are not served now: they share the bound, and go first.

#include "kvspill/other_folders.h"

#include <chrono>
#include <fstream>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "kvspill/block_name.h"
#include "kvspill/file_store.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;

class OtherFoldersTest : public ::testing::Test {
 protected:
  OtherFoldersTest() { fs::remove_all(path_); }
  ~OtherFoldersTest() override { fs::remove_all(path_); }

  // A folder of `n` blocks of 100 bytes: the first was used `age` hours ago, the next ones each an hour later.
  fs::path make(const std::string& model, std::size_t n, int age) {
    fs::path folder = path_ / folder_name(model);
    fs::create_directories(folder);
    std::ofstream(folder / kLockName) << "";
    std::ofstream(folder / kSecretName) << "secret";
    for (std::size_t i = 0; i < n; ++i) {
      const fs::path file = folder / block_name({.high = i, .low = 7}, {.groups = 1});
      std::ofstream(file) << std::string(100, 'x');
      fs::last_write_time(file,
                          now_ - std::chrono::hours(age) + std::chrono::hours(static_cast<int>(i)));
    }
    return folder;
  }
  static std::size_t n_blocks(const fs::path& folder) {
    std::size_t n = 0;
    if (!fs::exists(folder)) return n;
    for (const auto& file : fs::directory_iterator(folder))
      n += file.path().extension() == ".kvblock" ? 1 : 0;
    return n;
  }

  const fs::file_time_type now_ = fs::file_time_type::clock::now();
  const fs::path path_ =
      fs::path(::testing::TempDir()) / ("other_folders_" + std::to_string(::getpid()));
};

TEST_F(OtherFoldersTest, TheOneUsedLongestAgoGoesFirst) {
  const fs::path own = make("own", 4, 999);
  const fs::path old = make("old", 5, 100);
  const fs::path late = make("late", 5, 50);
  OtherFolders others(path_, own);
  EXPECT_EQ(others.n_bytes(), 1000U);
  others.shrink_to(1000);
  EXPECT_EQ(n_blocks(old) + n_blocks(late), 10U);
  others.shrink_to(799);
  EXPECT_EQ(others.n_bytes(), 700U);
  EXPECT_EQ(n_blocks(old), 2U);
  EXPECT_TRUE(fs::exists(old / block_name({.high = 4, .low = 7}, {.groups = 1})));
  others.shrink_to(450);
  EXPECT_FALSE(fs::exists(old)) << "with its secret and its lock";
  EXPECT_EQ(n_blocks(late), 4U);
  others.shrink_to(0);
  EXPECT_FALSE(fs::exists(late));
  EXPECT_EQ(others.n_bytes(), 0U);
  EXPECT_EQ(n_blocks(own), 4U);
}

TEST_F(OtherFoldersTest, WhatIsInUseIsNeitherTouchedNorCounted) {
  const fs::path used = make("used", 5, 100);
  const fs::path later = make("later", 5, 90);
  const fs::path free = make("free", 5, 50);
  const int lock = lock_folder(used, false);
  ASSERT_GE(lock, 0);
  EXPECT_EQ(lock_folder(used, true), -1);
  OtherFolders others(path_, path_ / "own");
  EXPECT_EQ(others.n_bytes(), 1000U);
  const int lock_later = lock_folder(later, false);  // when the others are known
  others.shrink_to(200);
  EXPECT_EQ(n_blocks(used), 5U);
  EXPECT_EQ(n_blocks(later), 5U);
  EXPECT_EQ(n_blocks(free), 2U);
  EXPECT_EQ(others.n_bytes(), 200U);
  ::close(lock);
  ::close(lock_later);
}

TEST_F(OtherFoldersTest, WhatNobodyOfUsHasNamedStays) {
  const fs::path folder = make("other", 3, 10);
  std::ofstream(folder / "notes") << "mine";
  fs::create_directories(path_ / "sessions");
  std::ofstream(path_ / "sessions" / block_name({.high = 1}, {.groups = 1})) << "a session";
  const fs::path no_lock = make("no lock", 3, 10);
  fs::remove(no_lock / kLockName);
  fs::create_directory_symlink(path_ / "sessions", path_ / folder_name("a link"));
  OtherFolders others(path_, path_ / "own");
  EXPECT_EQ(others.n_bytes(), 300U);
  others.shrink_to(0);
  EXPECT_TRUE(fs::exists(folder / "notes"));
  EXPECT_EQ(n_blocks(folder), 0U);
  EXPECT_EQ(n_blocks(no_lock), 3U);
  EXPECT_EQ(n_blocks(path_ / "sessions"), 1U);
}

// A lock that was removed with its folder is none.
TEST_F(OtherFoldersTest, AFolderThatGoesWhileItIsOpenedIsMadeAnew) {
  const fs::path folder = make("old", 1, 10);
  OtherFolders others(path_, path_ / "own");
  others.shrink_to(0);
  ASSERT_FALSE(fs::exists(folder));
  EXPECT_EQ(lock_folder(folder, false), -1);
  fs::create_directories(folder);
  const int lock = lock_folder(folder, true);
  EXPECT_GE(lock, 0);
  EXPECT_TRUE(fs::exists(folder / kLockName));
  ::close(lock);
}

}  // namespace
}  // namespace coxswain::kvspill
