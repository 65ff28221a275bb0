#pragma once
// PermitPool counts how much work may be in the house at once. A permit is never waited for.
//
// Thread rule: any thread. The pool must outlive its permits.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace coxswain::router {

class PermitPool;

// Some permits; given back on destruction.
class Permits {
 public:
  Permits() = default;
  Permits(Permits&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        n_(std::exchange(other.n_, 0)),
        companion_(std::move(other.companion_)) {}
  Permits& operator=(Permits&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(n_, other.n_);
    std::swap(companion_, other.companion_);
    return *this;
  }
  ~Permits();

  std::size_t size() const { return n_; }
  // Takes `n` more. False if that many are not free; nothing is then taken.
  bool grow(std::size_t n);
  // Takes more up to `n` in all, or all there are if `n` is above that.
  bool grow_to(std::size_t n);
  // Let go together with the permits.
  void accompany(std::shared_ptr<const void> companion) { companion_ = std::move(companion); }

 private:
  friend class PermitPool;
  Permits(PermitPool* pool, std::size_t n) : pool_(pool), n_(n) {}

  PermitPool* pool_ = nullptr;
  std::size_t n_ = 0;
  std::shared_ptr<const void> companion_;
};

class PermitPool {
 public:
  explicit PermitPool(std::size_t n_permits) : n_permits_(n_permits), free_(n_permits) {}

  std::optional<Permits> try_acquire(std::size_t n) {
    if (!take(n)) return std::nullopt;
    return Permits(this, n);
  }
  // All there are, taken or not.
  std::size_t size() const { return n_permits_; }
  std::size_t free() const { return free_.load(std::memory_order_relaxed); }

 private:
  friend class Permits;
  bool take(std::size_t n) {
    std::size_t free = free_.load(std::memory_order_relaxed);
    while (free >= n) {
      if (free_.compare_exchange_weak(free, free - n, std::memory_order_acquire)) return true;
    }
    return false;
  }
  void give(std::size_t n) { free_.fetch_add(n, std::memory_order_release); }

  const std::size_t n_permits_;
  std::atomic<std::size_t> free_;
};

inline Permits::~Permits() {
  if (pool_ != nullptr) pool_->give(n_);
}

inline bool Permits::grow(std::size_t n) {
  if (pool_ == nullptr || !pool_->take(n)) return false;
  n_ += n;
  return true;
}

inline bool Permits::grow_to(std::size_t n) {
  if (pool_ == nullptr) return false;
  const std::size_t wanted = std::min(n, pool_->n_permits_);
  return wanted <= n_ || grow(wanted - n_);
}

}  // namespace coxswain::router
