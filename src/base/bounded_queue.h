#pragma once
// BoundedQueue: hands values from any number of threads to one or more readers; never grows past its capacity.
//
// Thread rule: all methods may be called from any thread. A closed queue refuses new values and
// still hands out the old ones.

#include <cstddef>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace coxswain::base {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False if the queue is full or closed; `value` is then unchanged.
  bool try_push(T& value) {
    {
      base::MutexLock lock(mu_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(value));
    }
    ready_.notify_one();
    return true;
  }
  bool try_push(T&& value) { return try_push(value); }

  // Everything that is there now, oldest first; does not wait.
  std::vector<T> drain() {
    base::MutexLock lock(mu_);
    std::vector<T> out(std::make_move_iterator(items_.begin()),
                       std::make_move_iterator(items_.end()));
    items_.clear();
    return out;
  }

  // Waits for a value. Empty after close() once all values are taken.
  std::optional<T> pop() {
    base::MutexLock lock(mu_);
    ready_.wait(lock, [&]() REQUIRES(mu_) { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> out(std::move(items_.front()));
    items_.pop_front();
    return out;
  }

  void close() {
    {
      base::MutexLock lock(mu_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  const std::size_t capacity_;
  base::Mutex mu_;
  base::CondVar ready_;
  std::deque<T> items_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::base
