#include "membership/watched_list.h"

#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "membership/backoff.h"

namespace coxswain::membership {
namespace {

using Clock = std::chrono::steady_clock;

// A watch that stood for less has done no good: the pause goes on growing.
constexpr std::chrono::milliseconds kStoodWell{5'000};

class WatchedList final : public Membership, Finder {
 public:
  explicit WatchedList(std::unique_ptr<ListWatch> watch) : watch_(std::move(watch)) {}
  ~WatchedList() override {
    watch_->stop();
    if (thread_.joinable()) thread_.join();
  }
  WatchedList(const WatchedList&) = delete;
  WatchedList& operator=(const WatchedList&) = delete;

  Status start(OnChange on_change, OnSource on_source) override {
    if (Status status = watch_->check(); !status.ok()) return status;
    on_change_ = std::move(on_change);
    on_source_ = std::move(on_source);
    thread_ = std::thread([this] {
      base::name_thread("members");
      run();
    });
    return {};
  }

  SourceStatus status() const override EXCLUDES(mu_) {
    const base::MutexLock lock(mu_);
    return status_;
  }

 private:
  void run() EXCLUDES(mu_) {
    Backoff backoff;
    std::chrono::milliseconds pause{0};
    while (watch_->pause(pause)) {
      stood_since_.reset();
      const Status end = watch_->follow(*this);
      if (stood_since_ && Clock::now() - *stood_since_ >= kStoodWell) backoff.reset();
      pause = backoff.next();
      const bool failed = !end.ok() && end.code() != Code::kCancelled;
      {
        const base::MutexLock lock(mu_);
        status_.is_current = false;
        if (failed) ++status_.n_failures;
        if (failed) status_.last_failure = end.message();
      }
      if (failed && !std::exchange(is_told_ill_, true) && on_source_) on_source_(end);
    }
  }

  void on_list(Members members, std::uint64_t n_refused, const Status& why) override EXCLUDES(mu_) {
    {
      const base::MutexLock lock(mu_);
      status_.is_known = true;
      status_.n_refused = n_refused;
      if (n_refused > 0) status_.last_failure = why.message();
    }
    if (told_ == members) return;
    told_ = std::move(members);
    on_change_(*told_);
  }

  void on_standing() override EXCLUDES(mu_) {
    if (!stood_since_) stood_since_ = Clock::now();
    {
      const base::MutexLock lock(mu_);
      status_.is_current = true;
    }
    if (std::exchange(is_told_ill_, false) && on_source_) on_source_({});
  }

  const std::unique_ptr<ListWatch> watch_;
  OnChange on_change_;
  OnSource on_source_;
  // The thread's own.
  std::optional<Members> told_;
  std::optional<Clock::time_point> stood_since_;
  bool is_told_ill_ = false;

  mutable base::Mutex mu_;
  SourceStatus status_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Membership> make_watched_list(std::unique_ptr<ListWatch> watch) {
  return std::make_unique<WatchedList>(std::move(watch));
}

}  // namespace coxswain::membership
