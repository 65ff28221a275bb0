#include "weights/shared_image.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/numbers.h"
#include "base/thread_pool.h"
#include "tensor/page_arena.h"

namespace coxswain::weights {
namespace {

using tensor::kHugePageBytes;

// Newer than the headers of some systems.
constexpr int kCollapse = 25;      // MADV_COLLAPSE, Linux 6.1
constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, Linux 5.14
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
constexpr std::array<char, 8> kMagic{'C', 'X', 'W', 'S', 'H', 'M', '1', '\n'};
// As buffers of their own are aligned (page_arena.h).
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kAlignedToPages = std::size_t{256} << 10;
constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kPieceBytes = 16 * kHugePageBytes;  // of one call for pages

struct Tail {
  std::uint64_t fingerprint = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t n_images = 0;
  std::array<char, 8> magic = kMagic;
};
static_assert(sizeof(Tail) == 32);

Status failed(Code code, const char* what) {
  return {
      code,
      ErrorKind::kInternal,
      "memory for weights that replicas share: " + std::string(what) + ": " + std::strerror(errno)};
}

Status unusable(const char* what) {
  return {Code::kUnavailable, "memory for weights that replicas share: " + std::string(what)};
}

// The kernel makes a page of 2 MiB of one that has something in it. Advice: where it is not taken pages are small.
void collapse(std::byte* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kHugePageBytes) {
    auto* const byte = reinterpret_cast<volatile std::byte*>(begin + at);
    *byte = std::byte{0};
  }
  madvise(begin, bytes, kCollapse);
}

}  // namespace

bool shared_memory_is_huge() {
  const std::size_t before = tensor::shared_huge_page_bytes();
  const int fd = memfd_create("coxswain-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return false;
  const auto image = SharedImage::open(fd, "", kHugePageBytes);
  close(fd);
  return image.ok() && (*image)->next(0, 1).ok() && tensor::shared_huge_page_bytes() > before;
}

bool own_memory_is_huge() {
  const std::size_t before = tensor::huge_page_bytes();
  std::byte* const page = tensor::map_huge(kHugePageBytes);
  if (page == nullptr) return false;
  *reinterpret_cast<volatile std::byte*>(page) = std::byte{1};
  const bool out = tensor::huge_page_bytes() > before;
  tensor::unmap(page, kHugePageBytes);
  return out;
}

Result<std::shared_ptr<SharedImage>> SharedImage::open(int fd,
                                                       std::string_view key,
                                                       std::uint64_t bytes_max,
                                                       base::ThreadPool* pool) {
  const std::shared_ptr<SharedImage> out(new SharedImage());
  // The processes share one opening of the file, on which a lock would be everybody's.
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  out->fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (out->fd_ < 0) return failed(Code::kUnavailable, "open");
  if (fcntl(out->fd_, F_GET_SEALS) < 0) return failed(Code::kUnavailable, "F_GET_SEALS");
  out->key_ = key;
  out->pool_ = pool;
  while (flock(out->fd_, LOCK_EX) != 0) {
    if (errno != EINTR) return failed(Code::kUnavailable, "flock");
  }
  out->filled_ = (fcntl(out->fd_, F_GET_SEALS) & F_SEAL_WRITE) != 0;
  COXSWAIN_RETURN_IF_ERROR(out->filled_ ? out->map_filled(key) : out->begin(bytes_max));
  if (out->filled_) flock(out->fd_, LOCK_UN);
  return out;
}

SharedImage::~SharedImage() {
  if (base_ != nullptr) tensor::unmap(base_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);
}

// Addresses without memory, that begin at a page of 2 MiB.
Status SharedImage::reserve(std::uint64_t bytes) {
  const std::uint64_t room = bytes + kHugePageBytes;
  void* const raw =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return failed(Code::kUnavailable, "mmap");
  auto* const begin = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::size_t head = base::round_up(address, kHugePageBytes) - address;
  if (head != 0) munmap(begin, head);
  munmap(begin + head + bytes, kHugePageBytes - head);
  base_ = begin + head;
  mapped_bytes_ = bytes;
  return {};
}

// What a process has left that ended while it filled it is dropped.
Status SharedImage::begin(std::uint64_t bytes_max) {
  COXSWAIN_RETURN_IF_ERROR(reserve(base::round_up(bytes_max, kHugePageBytes) + kPieceBytes));
  if (ftruncate(fd_, 0) != 0) return failed(Code::kUnavailable, "ftruncate");
  const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  if (mmap(base_, mapped_bytes_, PROT_READ | PROT_WRITE, flags, fd_, 0) == MAP_FAILED)
    return failed(Code::kUnavailable, "mmap");
  madvise(base_, mapped_bytes_, MADV_HUGEPAGE);
  return {};
}

Status SharedImage::grow(std::uint64_t end) {
  const std::uint64_t wanted = base::round_up(end, std::uint64_t{kHugePageBytes});
  if (wanted <= file_bytes_) return {};
  if (wanted > mapped_bytes_) {
    errno = EFBIG;
    return failed(Code::kResourceExhausted, "mmap");
  }
  if (ftruncate(fd_, static_cast<off_t>(wanted)) != 0)
    return failed(Code::kResourceExhausted, "ftruncate");
  std::byte* const begin = base_ + file_bytes_;
  const std::uint64_t bytes = wanted - file_bytes_;
  const auto take_piece = [&](std::size_t piece, std::size_t) {
    const std::size_t at = piece * kPieceBytes;
    collapse(begin + at, std::min<std::size_t>(kPieceBytes, bytes - at));
  };
  const std::size_t n_pieces = base::ceil_div<std::size_t>(bytes, kPieceBytes);
  if (pool_ != nullptr) {
    pool_->run(n_pieces, take_piece);
  } else {
    for (std::size_t piece = 0; piece < n_pieces; ++piece) take_piece(piece, 0);
  }
  file_bytes_ = wanted;
  return {};
}

// Private and read-only: of a sealed file older kernels give no other mapping, and it keeps nobody from sealing.
Status SharedImage::map_filled(std::string_view key) {
  struct stat about {};
  if (fstat(fd_, &about) != 0) return failed(Code::kUnavailable, "fstat");
  file_bytes_ = static_cast<std::uint64_t>(about.st_size);
  Tail tail;
  if (file_bytes_ % kHugePageBytes != 0 || file_bytes_ == 0 ||
      pread(fd_, &tail, sizeof tail, static_cast<off_t>(file_bytes_ - sizeof tail)) !=
          ssize_t{sizeof tail} ||
      tail.magic != kMagic || tail.key_bytes > file_bytes_ ||
      tail.n_images > file_bytes_ / sizeof(Image) ||
      tail.key_bytes + tail.n_images * sizeof(Image) + sizeof tail > file_bytes_)
    return unusable("it holds none");
  COXSWAIN_RETURN_IF_ERROR(reserve(file_bytes_));
  if (mmap(base_, file_bytes_, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd_, 0) == MAP_FAILED)
    return failed(Code::kUnavailable, "mmap");
  madvise(base_, file_bytes_, kPopulateRead);  // else pages come with their first use
  const std::byte* const images = base_ + file_bytes_ - sizeof tail - tail.n_images * sizeof(Image);
  const auto* const text = reinterpret_cast<const char*>(images - tail.key_bytes);
  if (std::string_view(text, tail.key_bytes) != key)
    return invalid_argument("the weights that replicas share are of other files or another build");
  images_.resize(tail.n_images);
  std::memcpy(images_.data(), images, tail.n_images * sizeof(Image));
  for (const Image& image : images_) {
    if (image.begin > file_bytes_ || image.bytes > file_bytes_ - image.begin)
      return unusable("it holds none");
  }
  fingerprint_ = tail.fingerprint;
  return {};
}

Result<std::span<std::byte>> SharedImage::next(std::uint64_t identity, std::size_t bytes) {
  if (filled_) {
    if (n_given_ == images_.size() || images_[n_given_].identity != identity ||
        images_[n_given_].bytes != bytes)
      return Status(Code::kFailedPrecondition,
                    "the weights that replicas share are others than this build asks for");
    return std::span(base_ + images_[n_given_++].begin, bytes);
  }
  const std::uint64_t begin =
      base::round_up(used_bytes_, bytes >= kAlignedToPages ? kPageBytes : kCacheLineBytes);
  COXSWAIN_RETURN_IF_ERROR(grow(begin + bytes));
  used_bytes_ = begin + bytes;
  images_.push_back({.identity = identity, .begin = begin, .bytes = bytes});
  return std::span(base_ + begin, bytes);
}

Status SharedImage::finish(std::uint64_t fingerprint) {
  if (filled_) return {};
  const Tail tail{.fingerprint = fingerprint, .key_bytes = key_.size(), .n_images = images_.size()};
  const std::size_t table_bytes = images_.size() * sizeof(Image);
  COXSWAIN_RETURN_IF_ERROR(grow(used_bytes_ + key_.size() + table_bytes + sizeof tail));
  std::byte* const end = base_ + file_bytes_ - sizeof tail;
  std::memcpy(end, &tail, sizeof tail);
  std::memcpy(end - table_bytes, images_.data(), table_bytes);
  std::memcpy(end - table_bytes - key_.size(), key_.data(), key_.size());
  // No mapping may be left that could write.
  if (mmap(base_, file_bytes_, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd_, 0) == MAP_FAILED)
    return failed(Code::kUnavailable, "mmap");
  munmap(base_ + file_bytes_, mapped_bytes_ - file_bytes_);
  mapped_bytes_ = file_bytes_;
  if (fcntl(fd_, F_ADD_SEALS, kSeals) != 0) return failed(Code::kUnavailable, "F_ADD_SEALS");
  madvise(base_, file_bytes_, kPopulateRead);
  fingerprint_ = fingerprint;
  filled_ = true;
  n_given_ = images_.size();
  flock(fd_, LOCK_UN);
  return {};
}

}  // namespace coxswain::weights
