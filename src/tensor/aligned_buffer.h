#pragma once
// AlignedBuffer: owned bytes for weights, caches and scratch, at least 64-byte-aligned, in memory that huge pages are
// asked for: above 32 MiB in a mapping of their own, otherwise side by side (page_arena.h). Move-only. A mapped file
// has 4 KiB pages; huge pages read 13-43 % faster on the machines measured. A buffer may also be part of memory that
// somebody else keeps, such as weights that processes share.
//
// Thread rule: none of its own; whoever shares it orders writes and reads.

#include <cstddef>
#include <memory>
#include <span>

#include <coxswain/status.h>

namespace coxswain::tensor {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Zero-filled. Errors: kResourceExhausted with the size, if the memory cannot be had.
  static Result<AlignedBuffer> allocate(std::size_t bytes);
  // Of memory that lives as long as `keeper`, and may be read-only.
  static AlignedBuffer part_of(std::shared_ptr<const void> keeper, std::span<std::byte> bytes);

  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Of memory, padding included: at most a 32nd or a small page more.
  std::size_t taken() const;
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;                // as asked for
  std::size_t mapped_ = 0;              // > 0: bytes mapped with mmap
  std::shared_ptr<const void> keeper_;  // null: the bytes are owned
};

}  // namespace coxswain::tensor
