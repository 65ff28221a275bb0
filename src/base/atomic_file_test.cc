#include "base/atomic_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() { fs::create_directories(folder_); }
  ~AtomicFileTest() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ / "file"; }
  std::string content() const {
    std::ifstream in(path(), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  std::size_t n_files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }
  static Status save(const std::string& path, std::string_view bytes, const FileCalls& calls) {
    COXSWAIN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, calls));
    COXSWAIN_RETURN_IF_ERROR(file.write(bytes));
    return file.commit();
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("atomic_file_" + std::to_string(::getpid()));
};

// Some bytes go out before the disk is full.
ssize_t write_some(int fd, const void* bytes, std::size_t n) {
  static int n_calls = 0;
  if (++n_calls % 2 == 0) {
    errno = ENOSPC;
    return -1;
  }
  return ::write(fd, bytes, std::min<std::size_t>(n, 3));
}

TEST_F(AtomicFileTest, IsThereAsAWholeAndReplacesTheFormer) {
  ASSERT_TRUE(save(path(), "first", FileCalls::system()).ok());
  EXPECT_EQ(content(), "first");
  {
    auto file = AtomicFile::create(path());
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("second, ").ok());
    EXPECT_EQ(content(), "first");
    ASSERT_TRUE(file->write("whole").ok());
    ASSERT_TRUE(file->commit().ok());
  }
  EXPECT_EQ(content(), "second, whole");
  EXPECT_EQ(n_files(), 1U);
}

TEST_F(AtomicFileTest, WhatFailsLeavesTheFormerAndNothingElse) {
  ASSERT_TRUE(save(path(), "former", FileCalls::system()).ok());
  FileCalls full = FileCalls::system();
  full.write = write_some;
  const Status status = save(path(), "a longer text", full);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find(path()), std::string::npos) << status.message();
  FileCalls no_sync = FileCalls::system();
  no_sync.fsync = [](int) {
    errno = EIO;
    return -1;
  };
  EXPECT_EQ(save(path(), "text", no_sync).code(), Code::kUnavailable);
  FileCalls no_rename = FileCalls::system();
  no_rename.rename = [](const char*, const char*) {
    errno = EACCES;
    return -1;
  };
  EXPECT_EQ(save(path(), "text", no_rename).code(), Code::kUnavailable);
  EXPECT_EQ(content(), "former");
  EXPECT_EQ(n_files(), 1U);
}

TEST_F(AtomicFileTest, AFolderThatIsNotThereIsNamed) {
  const std::string where = (folder_ / "none" / "file").string();
  const auto file = AtomicFile::create(where);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find(where), std::string::npos);
}

}  // namespace
}  // namespace coxswain::base
