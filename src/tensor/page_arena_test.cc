#include "tensor/page_arena.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/aligned_buffer.h"
#include "tensor/paged_vector.h"

namespace coxswain::tensor {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Piece {
  std::byte* data;
  std::size_t bytes;
};

Piece allocate(PageArena& arena, std::size_t bytes) {
  return {arena.allocate(bytes), bytes};
}

bool all_are(const Piece& piece, std::byte value) {
  return std::all_of(piece.data, piece.data + piece.bytes, [&](std::byte b) { return b == value; });
}

TEST(PageArena, BuffersLieSideBySideInOneChunk) {
  PageArena arena;
  const Piece first = allocate(arena, 1000);
  const Piece second = allocate(arena, 300'000);
  const Piece third = allocate(arena, 5 * kMiB);
  EXPECT_EQ(arena.n_chunks(), 1U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data) % kHugePageBytes, 0U);
  EXPECT_EQ(second.data - first.data, 4096);
  EXPECT_LT(third.data - second.data, 300'000 + 2 * 4096);
}

// Any order of taking and giving back: what is there is zero at first, and nobody's but its owner's.
TEST(PageArena, NobodyElseWritesIntoABuffer) {
  PageArena arena;
  std::mt19937 random(1);
  std::vector<std::pair<Piece, std::byte>> live;
  for (int i = 0; i < 1000; ++i) {
    if (live.size() < 40 && random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (i % 50 == 0 ? PageArena::kBufferBytesMax : 200'000);
      const Piece piece = allocate(arena, bytes);
      ASSERT_NE(piece.data, nullptr);
      ASSERT_TRUE(all_are(piece, std::byte{0}));
      const auto mark = static_cast<std::byte>(1 + random() % 255);
      std::fill(piece.data, piece.data + bytes, mark);
      live.emplace_back(piece, mark);
    } else if (!live.empty()) {
      const std::size_t at = random() % live.size();
      ASSERT_TRUE(all_are(live[at].first, live[at].second));
      arena.free(live[at].first.data, live[at].first.bytes);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const auto& [piece, mark] : live) {
    EXPECT_TRUE(all_are(piece, mark));
    arena.free(piece.data, piece.bytes);
  }
  EXPECT_EQ(arena.n_chunks(), 1U);  // one is kept
}

TEST(PageArena, RoomOfTheLastBufferIsUsedAgain) {
  PageArena arena;
  const Piece stays = allocate(arena, 100);
  for (int i = 0; i < 20; ++i) {
    const Piece piece = allocate(arena, 20 * kMiB);
    ASSERT_NE(piece.data, nullptr);
    arena.free(piece.data, piece.bytes);
  }
  EXPECT_EQ(arena.n_chunks(), 1U);
  arena.free(stays.data, stays.bytes);
}

TEST(PageArena, LeftoversOfEarlierChunksAreFilled) {
  PageArena arena;
  for (int i = 0; i < 3; ++i) ASSERT_NE(arena.allocate(31 * kMiB), nullptr);
  EXPECT_EQ(arena.n_chunks(), 2U);
  for (int i = 0; i < 20; ++i) ASSERT_NE(arena.allocate(1 * kMiB), nullptr);
  EXPECT_EQ(arena.n_chunks(), 2U);
}

void take_and_fill(std::byte mark) {
  for (std::size_t i = 0; i < 200; ++i) {
    auto buffer = AlignedBuffer::allocate(1 + i * 100).value();
    std::ranges::fill(buffer.bytes(), mark);
    std::this_thread::yield();
    ASSERT_EQ(std::ranges::count(buffer.bytes(), mark), 1 + static_cast<std::ptrdiff_t>(i) * 100);
  }
}

TEST(PageArena, ManyThreadsMayAsk) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back(take_and_fill, static_cast<std::byte>(t));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PagedVector, SmallAndLargeOnesHoldTheirValues) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, 9 * kMiB}) {
    PagedVector<float> values(n);
    EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0.0F; }));
    values.back() = 1.0F;
    values.push_back(2.0F);
    EXPECT_EQ(values[n - 1], 1.0F);
    EXPECT_EQ(values[n], 2.0F);
  }
}

// Small buffers that are all in use lie in huge pages, where the kernel gives any.
TEST(PageArena, SmallBuffersGetHugePages) {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(file, modes);
  if (modes.empty() || modes.find("[never]") != std::string::npos)
    GTEST_SKIP() << "this kernel gives no huge pages: " << modes;
  const std::size_t before = huge_page_bytes();
  std::vector<AlignedBuffer> buffers;
  for (int i = 0; i < 320; ++i) {
    buffers.push_back(AlignedBuffer::allocate(100'000).value());
    std::ranges::fill(buffers.back().bytes(), std::byte{1});
  }
  if (huge_page_bytes() == before) GTEST_SKIP() << "the kernel has no huge page free";
  EXPECT_GE(huge_page_bytes() - before, 16 * kMiB);
}

}  // namespace
}  // namespace coxswain::tensor
