#pragma once
// PageArena: where buffers lie that are too small for huge pages of their own. Each would otherwise take the 4 KiB
// pages of the heap; side by side in mappings that begin and end at 2 MiB they share huge pages.
//
// Made for buffers that live as long as a model: room is taken from the end of a chunk, and a chunk is used anew when
// all of its buffers are gone (the last one's room at once). Memory is only touched where a buffer is used.
//
// Thread rule: any thread.

#include <cstddef>
#include <vector>

#include "base/mutex.h"

namespace coxswain::tensor {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Maps `bytes` (a multiple of a small page) at a huge-page boundary and asks for huge pages; null if address space or
// memory cannot be had. Zero-filled.
std::byte* map_huge(std::size_t bytes);
void unmap(std::byte* begin, std::size_t bytes);

class PageArena {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{64} << 20;
  static constexpr std::size_t kBufferBytesMax = kChunkBytes / 2;

  // The one of this process.
  static PageArena& instance();

  PageArena() = default;
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  // Zero-filled; 4 KiB-aligned from 256 KiB on, 64-byte-aligned below. Null if memory cannot be had.
  // REQUIRES: 0 < bytes <= kBufferBytesMax.
  std::byte* allocate(std::size_t bytes);
  // `bytes` as allocated.
  void free(std::byte* data, std::size_t bytes);

  // What a buffer of this size takes of a chunk at most.
  static std::size_t room_for(std::size_t bytes);

  std::size_t n_chunks() const;

 private:
  struct Chunk {
    std::byte* begin = nullptr;
    std::size_t used = 0;       // from here on there is room
    std::size_t dirty = 0;      // from here on pages are as they were mapped: zero
    std::size_t n_buffers = 0;  // that lie in it
  };
  Chunk* chunk_with_room(std::size_t bytes) REQUIRES(mu_);
  void empty(std::vector<Chunk>::iterator chunk) REQUIRES(mu_);

  mutable base::Mutex mu_;
  std::vector<Chunk> chunks_ GUARDED_BY(mu_);
};

// Anonymous memory of this process that lies in huge pages now; 0 if the kernel does not say. Walks the page tables:
// milliseconds for gigabytes in small pages.
std::size_t huge_page_bytes();
// The same of memory that it shares with other processes.
std::size_t shared_huge_page_bytes();

}  // namespace coxswain::tensor
