#include "tensor/aligned_buffer.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <sys/mman.h>

namespace coxswain::tensor {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kCacheLineBytes = 64;
// Padding up to a whole huge page may take this share of a buffer. The matrices of an expert may be
// a page and a half each, and there are thousands of them.
constexpr std::size_t kPaddingShare = 32;

Status out_of_memory(std::size_t bytes) {
  return {Code::kResourceExhausted,
          ErrorKind::kInternal,
          "cannot allocate " + std::to_string(bytes) + " bytes"};
}

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Whole huge pages where that adds little; otherwise the end lies on small ones.
std::size_t bytes_to_map(std::size_t bytes) {
  const std::size_t whole = round_up(bytes, kHugePageBytes);
  return whole - bytes <= bytes / kPaddingShare ? whole : round_up(bytes, kPageBytes);
}

// Maps `bytes` (a multiple of a page) at a huge-page boundary; null if the address space or
// memory cannot be had.
std::byte* map_huge(std::size_t bytes) {
  const std::size_t room = bytes + kHugePageBytes;
  void* raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const std::size_t head = round_up(reinterpret_cast<std::uintptr_t>(raw), kHugePageBytes) -
                           reinterpret_cast<std::uintptr_t>(raw);
  const std::size_t tail = kHugePageBytes - head;
  if (head != 0) munmap(begin, head);
  if (tail != 0) munmap(begin + head + bytes, tail);
  // Advice: where it is not taken the pages are small, and nothing else changes.
  madvise(begin + head, bytes, MADV_HUGEPAGE);
  return begin + head;
}

}  // namespace

Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return out_of_memory(bytes);
  if (bytes >= kHugePageBytes) {
    const std::size_t mapped = bytes_to_map(bytes);
    buffer.data_ = map_huge(mapped);
    buffer.mapped_ = mapped;
  } else {
    const std::size_t rounded = round_up(bytes, kCacheLineBytes);
    buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, rounded));
    if (buffer.data_ != nullptr) std::memset(buffer.data_, 0, rounded);
  }
  if (buffer.data_ == nullptr) {
    buffer.mapped_ = 0;
    return out_of_memory(bytes);
  }
  buffer.size_ = bytes;
  return buffer;
}

std::size_t AlignedBuffer::taken() const {
  return mapped_ != 0 ? mapped_ : round_up(size_, kCacheLineBytes);
}

AlignedBuffer::~AlignedBuffer() {
  if (mapped_ != 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  AlignedBuffer taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(mapped_, taken.mapped_);
  return *this;
}

}  // namespace coxswain::tensor
