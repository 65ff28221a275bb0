#include "weights/image_store.h"

#include <algorithm>
#include <utility>
#include <xxhash.h>

#include "base/numbers.h"

namespace coxswain::weights {
namespace {

Status not_yet(const char* what) {
  return {Code::kDeadlineExceeded, std::string(what) + " is not there yet"};
}

}  // namespace

std::size_t piece_count(std::size_t image_bytes) {
  return base::ceil_div(image_bytes, ImageFile::kPieceBytes);
}

std::size_t piece_bytes(std::size_t image_bytes, std::size_t piece) {
  return std::min(ImageFile::kPieceBytes, image_bytes - piece * ImageFile::kPieceBytes);
}

std::uint64_t piece_hash(std::span<const std::byte> piece) {
  return XXH3_64bits(piece.data(), piece.size());
}

void ImageStore::describe(Description what) {
  const base::MutexLock lock(mu_);
  description_ = std::move(what);
}

void ImageStore::announce(std::uint64_t identity, std::span<const std::byte> bytes) {
  {
    const base::MutexLock lock(mu_);
    Image& image = images_.emplace_back();
    image.stored = {.identity = identity, .bytes = bytes};
    image.hashes = std::make_unique<std::atomic<std::uint64_t>[]>(piece_count(bytes.size()));
  }
  changed_.notify_all();
}

void ImageStore::arrived(std::size_t image, std::size_t n_bytes) {
  {
    const base::MutexLock lock(mu_);
    images_[image].n_arrived = std::max(images_[image].n_arrived, n_bytes);
  }
  changed_.notify_all();
}

void ImageStore::complete() {
  {
    const base::MutexLock lock(mu_);
    complete_ = true;
  }
  changed_.notify_all();
}

void ImageStore::fail(Status why) {
  {
    const base::MutexLock lock(mu_);
    failure_ = std::move(why);
  }
  changed_.notify_all();
}

std::optional<ImageStore::Description> ImageStore::description() const {
  const base::MutexLock lock(mu_);
  return description_;
}

bool ImageStore::is_complete() const {
  const base::MutexLock lock(mu_);
  return complete_;
}

Result<std::optional<StoredImage>> ImageStore::image(std::size_t index, TimePoint until) const {
  base::MutexLock lock(mu_);
  const auto is_known = [&]() REQUIRES(mu_) {
    return index < images_.size() || complete_ || !failure_.ok();
  };
  if (!changed_.wait_until(lock, until, is_known)) return not_yet("the image");
  if (index < images_.size()) return std::optional(images_[index].stored);
  if (!failure_.ok()) return failure_;
  return std::optional<StoredImage>();
}

Result<std::span<const std::byte>> ImageStore::piece(std::size_t image,
                                                     std::size_t piece,
                                                     TimePoint until) const {
  base::MutexLock lock(mu_);
  const Image& from = images_[image];
  const std::size_t begin = piece * ImageFile::kPieceBytes;
  const std::size_t n = piece_bytes(from.stored.bytes.size(), piece);
  const auto is_there = [&]()
                            REQUIRES(mu_) { return from.n_arrived >= begin + n || !failure_.ok(); };
  if (!changed_.wait_until(lock, until, is_there)) return not_yet("the piece");
  if (from.n_arrived < begin + n) return failure_;
  return from.stored.bytes.subspan(begin, n);
}

std::uint64_t ImageStore::hash(std::size_t image, std::size_t piece) const {
  std::atomic<std::uint64_t>* kept = nullptr;
  std::span<const std::byte> bytes;
  {
    const base::MutexLock lock(mu_);
    kept = &images_[image].hashes[piece];
    bytes = images_[image].stored.bytes;
  }
  if (const std::uint64_t known = *kept; known != 0) return known;
  const std::uint64_t taken =
      piece_hash(bytes.subspan(piece * ImageFile::kPieceBytes, piece_bytes(bytes.size(), piece)));
  *kept = taken;
  return taken;
}

}  // namespace coxswain::weights
