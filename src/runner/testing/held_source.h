#pragma once
// HeldSource: weights that arrive as far as a test lets them.
//
// Thread rule: any thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "runner/local_runner.h"

namespace coxswain::runner::testing {

// Gives the images of a store, as many as it was told to.
class HeldSource final : public weights::ImageSource {
 public:
  explicit HeldSource(std::shared_ptr<weights::ImageStore> store) : store_(std::move(store)) {
    while (*store_->image(n_images_, TimePoint::min())) ++n_images_;
  }

  Result<std::uint64_t> open(const std::string& key) override {
    const auto what = store_->description();
    if (what->key != key) return Status(Code::kUnavailable, "other weights");
    return what->fingerprint;
  }
  Status read(std::uint64_t, std::span<std::byte> out, Arrived arrived) override {
    base::MutexLock lock(mu_);
    ++n_asked_;
    changed_.notify_all();
    changed_.wait(lock, [&]() REQUIRES(mu_) { return n_asked_ <= n_given_ || fails_; });
    if (n_asked_ > n_given_) return {Code::kUnavailable, "the source is gone"};
    const auto image = *store_->image(n_asked_ - 1, TimePoint::min());
    std::ranges::copy(image->bytes, out.begin());
    arrived(out.size());
    return {};
  }
  void stop() override { fail(); }

  // Returns when they are there, and the next is asked for, if there is one.
  void give(std::size_t n) {
    base::MutexLock lock(mu_);
    n_given_ += n;
    changed_.notify_all();
    changed_.wait(lock, [&]() REQUIRES(mu_) {
      return n_asked_ > n_given_ || n_given_ >= n_images_ || fails_;
    });
  }
  void give_all() {
    const base::MutexLock lock(mu_);
    n_given_ = std::size_t{1} << 20;
    changed_.notify_all();
  }
  void fail() {
    const base::MutexLock lock(mu_);
    fails_ = true;
    changed_.notify_all();
  }

 private:
  std::shared_ptr<weights::ImageStore> store_;
  std::size_t n_images_ = 0;
  base::Mutex mu_;
  base::CondVar changed_;
  std::size_t n_asked_ GUARDED_BY(mu_) = 0;
  std::size_t n_given_ GUARDED_BY(mu_) = 0;
  bool fails_ GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::runner::testing
