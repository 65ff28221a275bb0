#pragma once
// ImageFile: packed weights of one model in a file, in the order in which a loader made them.
//
// Little-endian:
//
//   "CXWIMG1\n"  u64 fingerprint  u32 bytes of the key  u32 images
//   the key: text that names all that decides the bytes of the images
//   of each image: u64 identity  u64 bytes
//   of each piece of each image, 1 MiB, its last one less: u64 xxh3
//   u64 xxh3 of everything before
//   the images, one after the other
//
// Thread rule: const methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "weights/tensor_file.h"

namespace coxswain::weights {

struct StoredImage {
  std::uint64_t identity = 0;  // of its format, layout and shape
  std::span<const std::byte> bytes;
};

class ImageFile {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

  // Nothing of the images is read, everything else is checked. Errors: kNotFound: no such file; kDataLoss: damaged, cut
  // off or of another kind; kInvalidArgument: of another key.
  static Result<ImageFile> open(const std::string& path, std::string_view key);
  // Readable by the owner alone, and there as a whole or not at all. Errors: those of base::AtomicFile.
  static Status write(const std::string& path,
                      std::string_view key,
                      std::uint64_t fingerprint,
                      std::span<const StoredImage> images);
  // What write() makes of images of so many bytes together.
  static std::uint64_t bytes_for(std::string_view key, std::span<const StoredImage> images);

  std::uint64_t fingerprint() const { return fingerprint_; }
  // Whether the image at `index` is of that identity and size.
  bool has(std::size_t index, std::uint64_t identity, std::uint64_t bytes) const;
  // The bytes [piece * kPieceBytes, ...) of an image; `out` has their size. Errors: kDataLoss.
  Status read_piece(std::size_t index, std::size_t piece, std::span<std::byte> out) const;

 private:
  struct Image {
    std::uint64_t identity = 0;
    std::uint64_t bytes = 0;
    std::uint64_t begin = 0;  // in the file
    std::size_t first_piece = 0;
  };

  explicit ImageFile(TensorFile file) : file_(std::move(file)) {}
  Status read_head(std::string_view key);
  Status damaged(std::string_view what) const;

  TensorFile file_;
  std::uint64_t fingerprint_ = 0;
  std::vector<Image> images_;
  std::vector<std::uint64_t> hashes_;  // of all pieces
};

}  // namespace coxswain::weights
