#pragma once
// ImageStore: the packed weights of this process as others may copy them: images in execution order, each as far as it
// is there. A loader adds them; readers go behind it, so that who is still loading can hand on what it has.
//
// Thread rule: one loader; readers from any thread. The bytes must outlive the readers.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "weights/image_file.h"

namespace coxswain::weights {

// Images go from hand to hand in pieces of ImageFile::kPieceBytes, the last one less.
std::size_t piece_count(std::size_t image_bytes);
// Bytes of a piece. REQUIRES: there is one of that number.
std::size_t piece_bytes(std::size_t image_bytes, std::size_t piece);
std::uint64_t piece_hash(std::span<const std::byte> piece);

class ImageStore {
 public:
  // What the images are made of: before describe() nobody is told of any.
  struct Description {
    std::string key;
    std::uint64_t fingerprint = 0;  // of the stored weights
  };

  // --- the loader
  void describe(Description what);
  // The next image, of which nothing is there yet.
  void announce(std::uint64_t identity, std::span<const std::byte> bytes);
  // Its first bytes are there, and will not change.
  void arrived(std::size_t image, std::size_t n_bytes);
  // No image will be announced any more.
  void complete();
  // What is not there yet will not come.
  void fail(Status why);

  // --- readers
  // Empty: not known yet.
  std::optional<Description> description() const;
  bool is_complete() const;
  // Waits until an image is announced. Empty: there are no more. Errors: kDeadlineExceeded; those of fail().
  Result<std::optional<StoredImage>> image(std::size_t index, TimePoint until) const;
  // Waits until a piece is there. REQUIRES: its image was announced. Errors: as image().
  Result<std::span<const std::byte>> piece(std::size_t image,
                                           std::size_t piece,
                                           TimePoint until) const;
  // Taken once, so that memory which goes bad later is found by who copies it. REQUIRES: the piece is there.
  std::uint64_t hash(std::size_t image, std::size_t piece) const;

 private:
  struct Image {
    StoredImage stored;
    std::size_t n_arrived = 0;
    std::unique_ptr<std::atomic<std::uint64_t>[]> hashes;  // of pieces; 0: not taken yet
  };

  mutable base::Mutex mu_;
  mutable base::CondVar changed_;
  std::optional<Description> description_ GUARDED_BY(mu_);
  std::deque<Image> images_ GUARDED_BY(mu_);  // but for the hashes, which anybody may set
  bool complete_ GUARDED_BY(mu_) = false;
  Status failure_ GUARDED_BY(mu_);
};

}  // namespace coxswain::weights
