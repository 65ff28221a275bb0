#pragma once
// PagedVector: a std::vector in memory that huge pages are asked for, as AlignedBuffer's.
//
// Thread rule: as std::vector.

#include <cstddef>
#include <new>
#include <vector>

#include "base/numbers.h"
#include "tensor/page_arena.h"

namespace coxswain::tensor {

template <typename T>
struct PageAllocator {
  using value_type = T;

  PageAllocator() = default;
  template <typename U>
  explicit PageAllocator(const PageAllocator<U>&) {}

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    std::byte* const data =
        has_own_mapping(bytes) ? map_huge(mapped(bytes)) : PageArena::instance().allocate(bytes);
    if (data == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    auto* const begin = reinterpret_cast<std::byte*>(data);
    if (has_own_mapping(bytes)) {
      unmap(begin, mapped(bytes));
    } else {
      PageArena::instance().free(begin, bytes);
    }
  }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }

 private:
  static bool has_own_mapping(std::size_t bytes) { return bytes > PageArena::kBufferBytesMax; }
  static std::size_t mapped(std::size_t bytes) { return base::round_up(bytes, kHugePageBytes); }
};

template <typename T>
using PagedVector = std::vector<T, PageAllocator<T>>;

}  // namespace coxswain::tensor
