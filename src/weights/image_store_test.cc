#include "weights/image_store.h"

#include <chrono>
#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::weights {
namespace {

constexpr std::size_t kPiece = ImageFile::kPieceBytes;

TimePoint now() {
  return Clock::now();
}

TEST(ImageStore, PiecesAreThereInOrder) {
  const std::vector<std::byte> bytes(2 * kPiece + 3, std::byte{7});
  ImageStore store;
  EXPECT_FALSE(store.description());
  EXPECT_EQ(store.image(0, now()).status().code(), Code::kDeadlineExceeded);
  store.describe({.key = "k", .fingerprint = 5});
  EXPECT_EQ(store.description()->fingerprint, 5U);
  store.announce(9, bytes);
  ASSERT_TRUE(store.image(0, now()).ok());
  EXPECT_EQ((*store.image(0, now()))->identity, 9U);
  EXPECT_EQ(store.piece(0, 0, now()).status().code(), Code::kDeadlineExceeded);
  store.arrived(0, kPiece);
  EXPECT_EQ(store.piece(0, 0, now())->size(), kPiece);
  EXPECT_EQ(store.piece(0, 1, now()).status().code(), Code::kDeadlineExceeded);
  store.arrived(0, bytes.size());
  EXPECT_EQ(store.piece(0, 2, now())->size(), 3U);
  EXPECT_EQ(store.hash(0, 2), piece_hash(std::span(bytes).last(3)));
  store.arrived(0, kPiece);  // nothing becomes less
  EXPECT_TRUE(store.piece(0, 2, now()).ok());
  store.complete();
  ASSERT_TRUE(store.image(1, now()).ok());
  EXPECT_FALSE(*store.image(1, now()));
}

TEST(ImageStore, AReaderWaitsForTheLoader) {
  const std::vector<std::byte> bytes(10);
  ImageStore store;
  auto read = std::async(std::launch::async, [&] {
    const auto image = store.image(0, TimePoint::max());
    return image.ok() && *image && store.piece(0, 0, TimePoint::max()).ok();
  });
  store.announce(1, bytes);
  store.arrived(0, bytes.size());
  EXPECT_TRUE(read.get());
}

TEST(ImageStore, AFailedLoadIsKnownToThoseWhoWait) {
  const std::vector<std::byte> bytes(2 * kPiece);
  ImageStore store;
  store.announce(1, bytes);
  store.arrived(0, kPiece);
  auto waits = std::async(std::launch::async,
                          [&] { return store.piece(0, 1, TimePoint::max()).status().code(); });
  store.fail({Code::kUnavailable, "no disk"});
  EXPECT_EQ(waits.get(), Code::kUnavailable);
  EXPECT_TRUE(store.piece(0, 0, now()).ok());
  EXPECT_EQ(store.image(1, now()).status().message(), "no disk");
}

// What went bad in memory since then does not fit what is sent with it.
TEST(ImageStore, AHashIsTakenOnce) {
  std::vector<std::byte> bytes(10);
  ImageStore store;
  store.announce(1, bytes);
  store.arrived(0, bytes.size());
  const std::uint64_t first = store.hash(0, 0);
  bytes[3] = std::byte{1};
  EXPECT_EQ(store.hash(0, 0), first);
  EXPECT_NE(piece_hash(bytes), first);
}

}  // namespace
}  // namespace coxswain::weights
