// What a tier refuses, and what refuses it: files that are not right, disks, folders and memory without room, runners
// that hand out no blocks. Nothing is lost by it but time, and one line says why.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "batch/testing/fake_runner.h"
#include "kvspill/testing/spill_tier_test.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::testing::FakeRunnerOptions;
using testing::fake_options;
using testing::Replica;
using testing::request;
using testing::SpillTierTest;

// A byte of each class: magic, version, key, length, checksum, tokens, frame; cut off, longer, empty, gone.
TEST_F(SpillTierTest, AFileThatIsNotRightIsRemovedCountedAndComputed) {
  {
    const Replica first(fake_options(), open());
    first.run(request(1, 1, 60, 1));
  }
  const std::vector<fs::path> used = files();
  ASSERT_EQ(used.size(), 15U);
  const std::vector<std::size_t> places{0, 8, 12, 16, 32, 40, 48, 56, 64, 80, 90, 110};
  for (std::size_t i = 0; i < places.size() + 4; ++i) {
    const fs::path& file = used[i % used.size()];
    const auto size = fs::file_size(file);
    if (i < places.size()) {
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekg(static_cast<std::streamoff>(places[i]));
      const char c = static_cast<char>(out.get() ^ 4);
      out.seekp(static_cast<std::streamoff>(places[i]));
      out.put(c);
    } else if (i == places.size()) {
      fs::resize_file(file, size - 1);
    } else if (i == places.size() + 1) {
      fs::resize_file(file, size + 1);
    } else if (i == places.size() + 2) {
      fs::resize_file(file, 0);
    }
    const auto tier = open();
    if (i == places.size() + 3) fs::remove(file);
    const Replica replica(fake_options(), tier);
    replica.run(request(1, 1, 64));  // compares the tokens
    EXPECT_EQ(tier->stats().blocks_refused, 1U) << i;
  }
  EXPECT_EQ(warnings().size(), places.size() + 4);
}

// How many writes a disk that fills up still takes. FileCalls are plain functions and have nothing of their own.
int& n_writes_left() {
  static int n = 0;
  return n;
}

TEST_F(SpillTierTest, AFullDiskEndsTheTakingWithOneLine) {
  n_writes_left() = 5;
  base::FileCalls full = base::FileCalls::system();
  full.write = [](int fd, const void* bytes, std::size_t n) -> ssize_t {
    if (--n_writes_left() < 0) {
      errno = ENOSPC;
      return -1;
    }
    return ::write(fd, bytes, n);
  };
  const auto tier = open(fake_options(), 1 << 20, full);
  {
    const Replica replica(fake_options(), tier);
    for (std::uint64_t id = 1; id < 6; ++id) replica.run(request(id, id));
  }
  EXPECT_FALSE(tier->takes());
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("No space left"), std::string::npos) << warnings()[0];
  EXPECT_EQ(files().size(), 4U);  // and the secret
  EXPECT_GT(tier->stats().blocks_skipped, 0U);
}

TEST_F(SpillTierTest, AFolderThatCannotBeUsedKeepsNothing) {
  std::ofstream(path_.string()) << "a file";
  {
    const Replica replica(fake_options(), open());
    replica.run(request(1, 1));
  }
  fs::remove(path_);
  EXPECT_EQ(warnings().size(), 1U);
  const auto first = open();
  const auto second = open();  // in use
  EXPECT_TRUE(first->takes());
  EXPECT_FALSE(second->takes());
  EXPECT_EQ(warnings().size(), 2U);
  base::FileCalls no_rename = base::FileCalls::system();
  no_rename.rename = [](const char*, const char*) {
    errno = EACCES;
    return -1;
  };
  FakeRunnerOptions other = fake_options();
  other.about.model_fingerprint = 8;
  EXPECT_FALSE(open(other, 1 << 20, no_rename)->takes());
  EXPECT_EQ(warnings().size(), 3U);
}

TEST_F(SpillTierTest, AMemoryWithoutRoomForABlockSaysSo) {
  const auto tier = open({.memory_bytes_max = 300});
  {
    const Replica replica(fake_options(), tier);
    for (std::uint64_t id = 1; id < 4; ++id) replica.run(request(id, id));
  }
  EXPECT_FALSE(tier->takes());
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("`kv_host_bytes_max` is 300"), std::string::npos) << warnings()[0];
}

TEST_F(SpillTierTest, ARunnerWhoseBlocksCannotBeKeptIsToldOf) {
  FakeRunnerOptions closed = fake_options();
  closed.capabilities.attachment_bytes_max = 0;
  EXPECT_FALSE(open(closed)->takes());
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("hands out no blocks"), std::string::npos) << warnings()[0];
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace coxswain::kvspill
