#include "tensor/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/page_arena.h"

namespace coxswain::tensor {
namespace {

TEST(AlignedBuffer, SmallAndLargeAreAlignedAndZero) {
  for (const std::size_t bytes :
       {1UL, 63UL, 64UL, 4097UL, 2UL << 20, (4UL << 20) + 5, 32UL << 20, (32UL << 20) + 1}) {
    auto buffer = AlignedBuffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), bytes);
    const std::size_t alignment = bytes > PageArena::kBufferBytesMax ? kHugePageBytes
                                  : bytes >= (256UL << 10)           ? 4096
                                                                     : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % alignment, 0U);
    const auto all = std::as_const(*buffer).bytes();
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](std::byte b) { return b == std::byte{0}; }));
    std::fill(buffer.value().bytes().begin(), buffer.value().bytes().end(), std::byte{0x5A});
  }
}

TEST(AlignedBuffer, TakesLittleMoreThanAskedFor) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  for (const std::size_t bytes :
       {std::size_t{100}, 2 * kMiB, 2 * kMiB + 1, 3 * kMiB, 5 * kMiB - 7, 31 * kMiB, 127 * kMiB}) {
    const auto buffer = AlignedBuffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_GE(buffer->taken(), bytes);
    EXPECT_LE(buffer->taken() - bytes, std::max<std::size_t>(bytes / 32, 4096)) << bytes;
  }
  EXPECT_EQ(AlignedBuffer::allocate(127 * kMiB)->taken(), 128 * kMiB);
  EXPECT_EQ(AlignedBuffer().taken(), 0U);
}

TEST(AlignedBuffer, EmptyHoldsNothing) {
  auto buffer = AlignedBuffer::allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->size(), 0U);
}

TEST(AlignedBuffer, TooMuchIsAnErrorWithTheSize) {
  for (const std::size_t bytes : {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60}) {
    const auto buffer = AlignedBuffer::allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), Code::kResourceExhausted);
    EXPECT_NE(buffer.status().message().find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(AlignedBuffer, MovesLeaveTheSourceEmpty) {
  AlignedBuffer a = AlignedBuffer::allocate(100).value();
  a.data()[99] = std::byte{7};
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): documented
  EXPECT_EQ(a.size(), 0U);
  AlignedBuffer c = AlignedBuffer::allocate(3UL << 20).value();
  c = std::move(b);
  ASSERT_EQ(c.size(), 100U);
  EXPECT_EQ(c.data()[99], std::byte{7});
}

TEST(AlignedBuffer, APartKeepsWhatItBelongsTo) {
  auto whole = std::make_shared<std::vector<std::byte>>(100, std::byte{3});
  const std::weak_ptr<const void> kept = whole;
  std::byte* const begin = whole->data() + 10;
  AlignedBuffer a = AlignedBuffer::part_of(std::move(whole), {begin, 20});
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): documented
  EXPECT_EQ(b.data(), begin);
  EXPECT_EQ(b.size(), 20U);
  EXPECT_EQ(b.taken(), 20U);
  EXPECT_FALSE(kept.expired());
  b = AlignedBuffer::allocate(5).value();
  EXPECT_TRUE(kept.expired());
  EXPECT_EQ(b.data()[4], std::byte{0});
}

}  // namespace
}  // namespace coxswain::tensor
