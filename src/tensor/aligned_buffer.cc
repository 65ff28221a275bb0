#include "tensor/aligned_buffer.h"

#include <limits>
#include <string>
#include <utility>

#include "base/numbers.h"
#include "tensor/page_arena.h"

namespace coxswain::tensor {
namespace {

constexpr std::size_t kPageBytes = 4096;
// Padding up to a whole huge page may take this share of a buffer.
constexpr std::size_t kPaddingShare = 32;

Status out_of_memory(std::size_t bytes) {
  return {Code::kResourceExhausted,
          ErrorKind::kInternal,
          "cannot allocate " + std::to_string(bytes) + " bytes"};
}

// Whole huge pages where that adds little; otherwise the end lies on small ones.
std::size_t bytes_to_map(std::size_t bytes) {
  const std::size_t whole = base::round_up(bytes, kHugePageBytes);
  return whole - bytes <= bytes / kPaddingShare ? whole : base::round_up(bytes, kPageBytes);
}

}  // namespace

Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return out_of_memory(bytes);
  if (bytes > PageArena::kBufferBytesMax) {
    buffer.mapped_ = bytes_to_map(bytes);
    buffer.data_ = map_huge(buffer.mapped_);
  } else {
    buffer.data_ = PageArena::instance().allocate(bytes);
  }
  if (buffer.data_ == nullptr) {
    buffer.mapped_ = 0;
    return out_of_memory(bytes);
  }
  buffer.size_ = bytes;
  return buffer;
}

AlignedBuffer AlignedBuffer::part_of(std::shared_ptr<const void> keeper,
                                     std::span<std::byte> bytes) {
  AlignedBuffer buffer;
  buffer.data_ = bytes.data();
  buffer.size_ = bytes.size();
  buffer.keeper_ = std::move(keeper);
  return buffer;
}

std::size_t AlignedBuffer::taken() const {
  if (size_ == 0 || keeper_ != nullptr) return size_;
  return mapped_ != 0 ? mapped_ : PageArena::room_for(size_);
}

AlignedBuffer::~AlignedBuffer() {
  if (keeper_ != nullptr) return;
  if (mapped_ != 0) {
    unmap(data_, mapped_);
  } else if (data_ != nullptr) {
    PageArena::instance().free(data_, size_);
  }
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)),
      keeper_(std::move(other.keeper_)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  AlignedBuffer taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(mapped_, taken.mapped_);
  std::swap(keeper_, taken.keeper_);
  return *this;
}

}  // namespace coxswain::tensor
