#include "tensor/page_arena.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include "base/numbers.h"

namespace coxswain::tensor {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kAlignedToPages = std::size_t{256} << 10;
// Behind each buffer, so that the address sanitizer sees overruns.
constexpr std::size_t kGapBytes = 64;

std::size_t alignment_of(std::size_t bytes) {
  return bytes >= kAlignedToPages ? kPageBytes : kCacheLineBytes;
}

}  // namespace

std::byte* map_huge(std::size_t bytes) {
  const std::size_t room = bytes + kHugePageBytes;
  void* raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::size_t head = base::round_up(address, kHugePageBytes) - address;
  const std::size_t tail = kHugePageBytes - head;
  if (head != 0) munmap(begin, head);
  if (tail != 0) munmap(begin + head + bytes, tail);
  // Advice: where it is not taken the pages are small, and nothing else changes.
  madvise(begin + head, bytes, MADV_HUGEPAGE);
  return begin + head;
}

void unmap(std::byte* begin, std::size_t bytes) {
  munmap(begin, bytes);
}

PageArena& PageArena::instance() {
  // Outlives every buffer: it is never destroyed.
  union Forever {
    Forever() : arena() {}
    ~Forever() {}
    PageArena arena;
  };
  static Forever forever;
  return forever.arena;
}

PageArena::~PageArena() {
  const base::MutexLock lock(mu_);
  for (const Chunk& chunk : chunks_) {
    ASAN_UNPOISON_MEMORY_REGION(chunk.begin, kChunkBytes);
    unmap(chunk.begin, kChunkBytes);
  }
}

std::size_t PageArena::room_for(std::size_t bytes) {
  return base::round_up(bytes + kGapBytes, alignment_of(bytes));
}

std::size_t PageArena::n_chunks() const {
  const base::MutexLock lock(mu_);
  return chunks_.size();
}

PageArena::Chunk* PageArena::chunk_with_room(std::size_t bytes) {
  for (Chunk& chunk : chunks_) {
    const std::size_t at = base::round_up(chunk.used, alignment_of(bytes));
    if (at + room_for(bytes) <= kChunkBytes) return &chunk;
  }
  std::byte* const begin = map_huge(kChunkBytes);
  if (begin == nullptr) return nullptr;
  ASAN_POISON_MEMORY_REGION(begin, kChunkBytes);
  chunks_.push_back({.begin = begin});
  return &chunks_.back();
}

std::byte* PageArena::allocate(std::size_t bytes) {
  const base::MutexLock lock(mu_);
  Chunk* const chunk = chunk_with_room(bytes);
  if (chunk == nullptr) return nullptr;
  const std::size_t at = base::round_up(chunk->used, alignment_of(bytes));
  std::byte* const data = chunk->begin + at;
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  if (at < chunk->dirty) std::memset(data, 0, std::min(bytes, chunk->dirty - at));
  chunk->used = at + room_for(bytes);
  chunk->dirty = std::max(chunk->dirty, chunk->used);
  ++chunk->n_buffers;
  return data;
}

void PageArena::free(std::byte* data, std::size_t bytes) {
  const base::MutexLock lock(mu_);
  const auto chunk = std::ranges::find_if(chunks_, [&](const Chunk& each) {
    return data >= each.begin && data < each.begin + kChunkBytes;
  });
  ASAN_POISON_MEMORY_REGION(data, bytes);
  const auto at = static_cast<std::size_t>(data - chunk->begin);
  if (at + room_for(bytes) == chunk->used) chunk->used = at;
  if (--chunk->n_buffers == 0) empty(chunk);
}

// One chunk without buffers is kept, with the memory of one huge page.
void PageArena::empty(std::vector<Chunk>::iterator chunk) {
  const auto n_empty =
      std::ranges::count_if(chunks_, [](const Chunk& each) { return each.n_buffers == 0; });
  if (n_empty > 1) {
    ASAN_UNPOISON_MEMORY_REGION(chunk->begin, kChunkBytes);
    unmap(chunk->begin, kChunkBytes);
    chunks_.erase(chunk);
    return;
  }
  chunk->used = 0;
  if (chunk->dirty <= kHugePageBytes) return;
  madvise(chunk->begin + kHugePageBytes, kChunkBytes - kHugePageBytes, MADV_DONTNEED);
  chunk->dirty = kHugePageBytes;
}

namespace {

std::size_t bytes_of_all_mappings(std::string_view name) {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t digits = line.find_first_not_of(' ', name.size());
    if (digits == std::string::npos) return 0;
    std::size_t kib = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib * 1024;
  }
  return 0;
}

}  // namespace

std::size_t huge_page_bytes() {
  return bytes_of_all_mappings("AnonHugePages:");
}

std::size_t shared_huge_page_bytes() {
  return bytes_of_all_mappings("ShmemPmdMapped:");
}

}  // namespace coxswain::tensor
