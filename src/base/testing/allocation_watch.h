#pragma once
// AllocationWatch: what operator new handed out in the whole test program while one lived.
//
// Include it in one file of a program: it replaces the global operators of single objects, those
// that do not throw too, because sanitizers take a pair of ours and theirs for an error.
//
// Thread rule: one watch at a time; allocations of any thread count.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace coxswain::base {

class AllocationWatch {
 public:
  AllocationWatch() {
    seen().n = 0;
    seen().bytes = 0;
    seen().largest = 0;
  }
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  std::size_t n() const { return seen().n; }
  std::size_t bytes() const { return seen().bytes; }
  std::size_t largest() const { return seen().largest; }

  static void note(std::size_t size) {
    seen().n.fetch_add(1, std::memory_order_relaxed);
    seen().bytes.fetch_add(size, std::memory_order_relaxed);
    std::size_t largest = seen().largest.load(std::memory_order_relaxed);
    while (largest < size && !seen().largest.compare_exchange_weak(largest, size)) {
    }
  }

 private:
  struct Seen {
    std::atomic<std::size_t> n{0};
    std::atomic<std::size_t> bytes{0};
    std::atomic<std::size_t> largest{0};
  };

  // Of the program: operator new has no other place for it.
  static Seen& seen() {
    static constinit Seen all;
    return all;
  }
};

}  // namespace coxswain::base

// NOLINTBEGIN(misc-definitions-in-headers): for one file of a program
// Not inlined, or g++ takes malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  coxswain::base::AllocationWatch::note(size);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  coxswain::base::AllocationWatch::note(size);
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
// NOLINTEND(misc-definitions-in-headers)
