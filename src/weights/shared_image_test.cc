// One process fills the memory that several share, whoever it is and whenever it ends.

#include "weights/shared_image.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/thread_pool.h"
#include "tensor/page_arena.h"

namespace coxswain::weights {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
constexpr std::size_t kSizes[] = {1, 100, 300'000, std::size_t{5} << 20, 70};

std::byte value_of(std::size_t image) {
  return static_cast<std::byte>(image + 1);
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == value; });
}

class SharedImageTest : public testing::Test {
 protected:
  ~SharedImageTest() override { close(fd_); }

  Result<std::shared_ptr<SharedImage>> open(std::string_view key = "key",
                                            std::uint64_t bytes_max = kBytesMax) {
    return SharedImage::open(fd_, key, bytes_max);
  }
  static void place(SharedImage& image) {
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      const auto bytes = image.next(i, kSizes[i]);
      ASSERT_TRUE(bytes.ok()) << bytes.status().message();
      ASSERT_EQ(bytes->size(), kSizes[i]);
      EXPECT_TRUE(all_are(*bytes, std::byte{0}));
      EXPECT_EQ(
          reinterpret_cast<std::uintptr_t>(bytes->data()) % (kSizes[i] >= 262'144 ? 4096U : 64U),
          0U);
      std::ranges::fill(*bytes, value_of(i));
    }
  }
  static void expect_filled(SharedImage& image) {
    ASSERT_TRUE(image.filled());
    EXPECT_EQ(image.fingerprint(), 77U);
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      const auto bytes = image.next(i, kSizes[i]);
      ASSERT_TRUE(bytes.ok()) << bytes.status().message();
      EXPECT_TRUE(all_are(*bytes, value_of(i)));
    }
  }
  void fill() {
    auto image = open();
    ASSERT_TRUE(image.ok()) << image.status().message();
    ASSERT_FALSE((*image)->filled());
    place(**image);
    ASSERT_TRUE((*image)->finish(77).ok());
  }
  std::uint64_t blocks() const {
    struct stat about {};
    EXPECT_EQ(fstat(fd_, &about), 0);
    return static_cast<std::uint64_t>(about.st_blocks);
  }

  const int fd_ = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
};

TEST_F(SharedImageTest, WhatOneFillsAllSee) {
  fill();
  const auto first = open();
  const auto second = open();
  ASSERT_TRUE(first.ok() && second.ok());
  expect_filled(**first);
  expect_filled(**second);
  EXPECT_EQ((*first)->bytes(), (*second)->bytes());
  EXPECT_FALSE((*first)->next(9, 1).ok());  // none is left
}

TEST_F(SharedImageTest, ItsOwnImagesStayWhereTheyAre) {
  auto image = open();
  ASSERT_TRUE(image.ok());
  const auto bytes = (*image)->next(1, 1000);
  ASSERT_TRUE(bytes.ok());
  std::ranges::fill(*bytes, std::byte{9});
  ASSERT_TRUE((*image)->finish(1).ok());
  EXPECT_TRUE(all_are(*bytes, std::byte{9}));
  EXPECT_TRUE((*image)->finish(2).ok());  // once is enough
  EXPECT_EQ((*image)->fingerprint(), 1U);
}

TEST_F(SharedImageTest, NobodyCanWriteWhatIsFilled) {
  fill();
  EXPECT_EQ(pwrite(fd_, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(fd_, 0), 0);
  EXPECT_NE(ftruncate(fd_, off_t{1} << 30), 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0), MAP_FAILED);
  auto image = open();
  ASSERT_TRUE(image.ok());
  const auto bytes = (*image)->next(0, kSizes[0]);
  ASSERT_TRUE(bytes.ok());
  // The system finds out whether the page can be written to.
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  ASSERT_EQ(write(pipe_fds[1], "x", 1), 1);
  EXPECT_EQ(read(pipe_fds[0], bytes->data(), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST_F(SharedImageTest, WhatAKilledProcessHasLeftIsBegunAgain) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto image = open();
    const auto bytes = (*image)->next(123, std::size_t{9} << 20);
    std::memset(bytes->data(), 0x55, bytes->size());
    [[maybe_unused]] const auto n = write(told[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  EXPECT_GT(blocks(), 0U);
  Result<std::shared_ptr<SharedImage>> next = Status(Code::kInternal, "not yet");
  std::thread waits([&] { next = open(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(next.ok());  // it waits for the lock
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  waits.join();
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_FALSE((*next)->filled());
  EXPECT_EQ(blocks(), 0U);
  place(**next);
  ASSERT_TRUE((*next)->finish(77).ok());
  const auto other = open();
  ASSERT_TRUE(other.ok());
  expect_filled(**other);
  close(told[0]);
  close(told[1]);
}

TEST_F(SharedImageTest, AnotherProcessMapsItAndItsEndHurtsNobody) {
  const pid_t pid = fork();
  if (pid == 0) {
    fill();
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto image = open();
  ASSERT_TRUE(image.ok()) << image.status().message();
  expect_filled(**image);
}

TEST_F(SharedImageTest, WeightsOfAnotherKeyAreNotTaken) {
  fill();
  for (const char* key : {"", "kez", "key2"}) {
    const auto image = open(key);
    EXPECT_EQ(image.status().code(), Code::kInvalidArgument) << key;
  }
  // The lock is free, and the right one is served.
  EXPECT_TRUE(open().ok());
}

TEST_F(SharedImageTest, ImagesOfAnotherOrderOrSizeAreNotTaken) {
  fill();
  const auto image = open();
  ASSERT_TRUE(image.ok());
  EXPECT_EQ((*image)->next(1, kSizes[0]).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ((*image)->next(0, kSizes[0] + 1).status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE((*image)->next(0, kSizes[0]).ok());
}

TEST_F(SharedImageTest, WhatIsSealedAndHoldsNoImagesIsRefused) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, tensor::kHugePageBytes}) {
    const int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    EXPECT_EQ(SharedImage::open(fd, "key", kBytesMax).status().code(), Code::kUnavailable) << bytes;
    close(fd);
  }
  EXPECT_THAT(SharedImage::open(-1, "key", kBytesMax).status().message(), HasSubstr("open"));
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(SharedImage::open(null, "key", kBytesMax).status().code(), Code::kUnavailable);
  close(null);
}

TEST_F(SharedImageTest, ThereIsALimit) {
  const auto image = open("key", 1);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ((*image)->next(0, kBytesMax * 2).status().code(), Code::kResourceExhausted);
}

TEST_F(SharedImageTest, ThreadsOfAPoolTakeThePages) {
  base::ThreadPool pool(3);
  const auto image = SharedImage::open(fd_, "key", kBytesMax * 4, &pool);
  ASSERT_TRUE(image.ok());
  const auto bytes = (*image)->next(0, kBytesMax * 3 + 5);
  ASSERT_TRUE(bytes.ok());
  EXPECT_TRUE(all_are(*bytes, std::byte{0}));
}

TEST_F(SharedImageTest, ItLiesInPagesOf2MiBWhereThereAreAny) {
  if (!shared_memory_is_huge()) GTEST_SKIP() << "the kernel gives shared memory none";
  const std::size_t before = tensor::shared_huge_page_bytes();
  fill();
  const auto image = open();
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(tensor::shared_huge_page_bytes() - before, (*image)->bytes());
}

}  // namespace
}  // namespace coxswain::weights
