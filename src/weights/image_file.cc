#include "weights/image_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <xxhash.h>

#include "base/atomic_file.h"
#include "base/numbers.h"

namespace coxswain::weights {
namespace {

constexpr std::string_view kMagic = "CXWIMG1\n";
constexpr std::uint32_t kKeyBytesMax = 1U << 20;
constexpr std::uint32_t kImagesMax = 1U << 20;

struct Fixed {
  std::array<char, 8> magic{};
  std::uint64_t fingerprint = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t n_images = 0;
};
static_assert(sizeof(Fixed) == 24);

template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T value_at(std::string_view bytes, std::size_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

std::uint64_t n_pieces(std::uint64_t bytes) {
  return base::ceil_div(bytes, std::uint64_t{ImageFile::kPieceBytes});
}

}  // namespace

Status ImageFile::damaged(std::string_view what) const {
  return {Code::kDataLoss, file_.path() + ": " + std::string(what)};
}

Result<ImageFile> ImageFile::open(const std::string& path, std::string_view key) {
  COXSWAIN_ASSIGN_OR_RETURN(TensorFile file, TensorFile::open(path));
  ImageFile out(std::move(file));
  COXSWAIN_RETURN_IF_ERROR(out.read_head(key));
  return out;
}

// No memory is taken for more than the file has.
Status ImageFile::read_head(std::string_view key) {
  std::string head(sizeof(Fixed), '\0');
  const auto read_more = [&](std::uint64_t n) {
    const std::size_t at = head.size();
    if (n > file_.n_bytes() - std::min<std::uint64_t>(at, file_.n_bytes())) return false;
    head.resize(at + n);
    return file_.read_at(at, std::as_writable_bytes(std::span(head)).subspan(at));
  };
  if (file_.n_bytes() < head.size() || !file_.read_at(0, std::as_writable_bytes(std::span(head))))
    return damaged("is too short");
  const auto fixed = value_at<Fixed>(head, 0);
  if (std::string_view(fixed.magic.data(), fixed.magic.size()) != kMagic)
    return damaged("is no file of packed weights, or of another version");
  if (fixed.key_bytes > kKeyBytesMax || fixed.n_images > kImagesMax)
    return damaged("has a header that is too large");
  const std::size_t table = sizeof(Fixed) + fixed.key_bytes;
  if (!read_more(fixed.key_bytes + std::uint64_t{fixed.n_images} * 16))
    return damaged("is too short");
  std::uint64_t bytes = 0;
  std::uint64_t pieces = 0;
  for (std::uint32_t i = 0; i < fixed.n_images; ++i) {
    const std::size_t at = table + i * std::size_t{16};
    Image image{.identity = value_at<std::uint64_t>(head, at),
                .bytes = value_at<std::uint64_t>(head, at + 8),
                .begin = bytes,
                .first_piece = pieces};
    if (image.bytes > file_.n_bytes() - bytes) return damaged("is too short");
    bytes += image.bytes;
    pieces += n_pieces(image.bytes);
    images_.push_back(image);
  }
  const std::size_t hashes = head.size();
  if (!read_more(pieces * 8 + 8)) return damaged("is too short");
  const std::size_t checked = head.size() - 8;
  if (XXH3_64bits(head.data(), checked) != value_at<std::uint64_t>(head, checked))
    return damaged("has a damaged header");
  if (file_.n_bytes() - head.size() != bytes) return damaged("has another size than it says");
  if (std::string_view(head).substr(sizeof(Fixed), fixed.key_bytes) != key)
    return invalid_argument(file_.path() + ": is of other weights or another build");
  for (std::uint64_t i = 0; i < pieces; ++i)
    hashes_.push_back(value_at<std::uint64_t>(head, hashes + i * 8));
  for (Image& image : images_) image.begin += head.size();
  fingerprint_ = fixed.fingerprint;
  return {};
}

bool ImageFile::has(std::size_t index, std::uint64_t identity, std::uint64_t bytes) const {
  return index < images_.size() && images_[index].identity == identity &&
         images_[index].bytes == bytes;
}

Status ImageFile::read_piece(std::size_t index, std::size_t piece, std::span<std::byte> out) const {
  const Image& image = images_[index];
  if (!file_.read_at(image.begin + piece * kPieceBytes, out))
    return damaged("became shorter or cannot be read");
  if (XXH3_64bits(out.data(), out.size()) != hashes_[image.first_piece + piece])
    return damaged("holds other bytes than were written");
  return {};
}

std::uint64_t ImageFile::bytes_for(std::string_view key, std::span<const StoredImage> images) {
  std::uint64_t out = sizeof(Fixed) + key.size() + 8;
  for (const StoredImage& image : images)
    out += 16 + n_pieces(image.bytes.size()) * 8 + image.bytes.size();
  return out;
}

Status ImageFile::write(const std::string& path,
                        std::string_view key,
                        std::uint64_t fingerprint,
                        std::span<const StoredImage> images) {
  if (key.size() > kKeyBytesMax || images.size() > kImagesMax)
    return invalid_argument(path + ": too many packed weights for one file");
  Fixed fixed{.fingerprint = fingerprint,
              .key_bytes = static_cast<std::uint32_t>(key.size()),
              .n_images = static_cast<std::uint32_t>(images.size())};
  std::ranges::copy(kMagic, fixed.magic.begin());
  std::string head;
  append(head, fixed);
  head += key;
  for (const StoredImage& image : images) {
    append(head, image.identity);
    append(head, std::uint64_t{image.bytes.size()});
  }
  for (const StoredImage& image : images) {
    for (std::size_t at = 0; at < image.bytes.size(); at += kPieceBytes)
      append(head,
             XXH3_64bits(image.bytes.data() + at, std::min(kPieceBytes, image.bytes.size() - at)));
  }
  append(head, XXH3_64bits(head.data(), head.size()));
  COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::create(path));
  COXSWAIN_RETURN_IF_ERROR(file.write(head));
  for (const StoredImage& image : images)
    COXSWAIN_RETURN_IF_ERROR(
        file.write({reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()}));
  // What a power failure takes away is found by the checksums.
  return file.commit(/*synced=*/false);
}

}  // namespace coxswain::weights
