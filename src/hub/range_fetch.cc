#include "hub/range_fetch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread_name.h"

namespace coxswain::hub {
namespace {

class Ranges {
 public:
  explicit Ranges(const RangeFetch& fetch)
      : fetch_(fetch),
        tries_(fetch.tries),
        n_ranges_((fetch.request.end - fetch.request.offset + fetch.range_bytes - 1) /
                  fetch.range_bytes) {
    tries_.wait = [this](Tries::Pause time) { pause(time); };
  }

  Status run() {
    std::vector<std::jthread> threads;
    const std::uint64_t n = std::min<std::uint64_t>(fetch_.n_connections, n_ranges_);
    for (std::uint64_t i = 0; i < n; ++i)
      threads.emplace_back([this] {
        base::name_thread("fetch");
        bring_some();
      });
    hand_on();
    threads.clear();
    const base::MutexLock lock(mu_);
    return status_;
  }

 private:
  // Of one thread: ranges not too far ahead of what was handed on, until there are no more.
  void bring_some() EXCLUDES(mu_) {
    const auto fetcher = fetch_.fetchers();
    for (;;) {
      std::uint64_t range = 0;
      {
        base::MutexLock lock(mu_);
        changed_.wait(lock, [&]() REQUIRES(mu_) {
          const bool is_near = next_ < n_taken_ + 2 * fetch_.n_connections;
          return ended_ || next_ == n_ranges_ || (is_near && may_fetch());
        });
        if (ended_ || next_ == n_ranges_) return;
        range = next_++;
        ++n_fetching_;
      }
      std::string bytes;
      const Status status = bring(*fetcher, range, bytes);
      if (!status.ok()) return end(status);
      const base::MutexLock lock(mu_);
      here_[range] = std::move(bytes);
      --n_fetching_;
      changed_.notify_all();
    }
  }

  bool may_fetch() const REQUIRES(mu_) { return !is_crowded_ || n_fetching_ == 0; }

  void note_crowd() EXCLUDES(mu_) {
    const base::MutexLock lock(mu_);
    is_crowded_ = true;
  }

  // Before a range is tried again, in its turn where only one may be.
  void pause(Tries::Pause time) EXCLUDES(mu_) {
    const auto until = std::chrono::steady_clock::now() + time;
    base::MutexLock lock(mu_);
    if (is_crowded_ && n_fetching_ > 1) {
      --n_fetching_;
      changed_.notify_all();
      changed_.wait(lock, [&]() REQUIRES(mu_) { return ended_ || n_fetching_ == 0; });
      ++n_fetching_;
    }
    changed_.wait_until(lock, until, [&]() REQUIRES(mu_) { return ended_.load(); });
  }

  Status bring(Fetcher& fetcher, std::uint64_t range, std::string& bytes) {
    FetchRequest request = fetch_.request;
    const std::uint64_t begin = request.offset + range * fetch_.range_bytes;
    request.end = std::min(request.end, begin + fetch_.range_bytes);
    const std::uint64_t size = request.end - begin;
    bytes.reserve(size);
    std::uint64_t came = 0;
    return tries_.run(came, [&](Tries::Pause& asked) -> Status {
      if (ended_) return {Code::kCancelled, "another range has failed"};
      request.offset = begin + came;
      const auto sink = [&](const FetchHead& head, std::string_view piece) -> Status {
        if (head.status != 206) return {Code::kUnimplemented, "the hub sends no ranges"};
        if (head.offset != request.offset || piece.size() > size - came)
          return {Code::kDataLoss, "the hub sent another range than asked for"};
        COXSWAIN_RETURN_IF_ERROR(check_total(head, fetch_.file_bytes));
        bytes += piece;
        came += piece.size();
        return ended_ ? Status(Code::kCancelled, "another range has failed") : Status();
      };
      COXSWAIN_ASSIGN_OR_RETURN(const FetchHead head, fetcher.get(request, sink));
      asked = head.retry_after;
      if (head.status == 429 || head.status == 503) note_crowd();
      if (head.status != 200 && head.status != 206) return fetch_.refusal(head);
      if (came == size) return {};
      return {Code::kUnavailable,
              "the hub sent " + std::to_string(came) + " of " + std::to_string(size) + " bytes"};
    });
  }

  void hand_on() EXCLUDES(mu_) {
    for (std::uint64_t range = 0; range < n_ranges_; ++range) {
      std::string bytes;
      {
        base::MutexLock lock(mu_);
        changed_.wait(lock, [&]() REQUIRES(mu_) { return ended_ || here_.contains(range); });
        if (ended_) return;
        bytes = std::move(here_.extract(range).mapped());
      }
      if (const Status taken = fetch_.take(bytes); !taken.ok()) return end(taken);
      const base::MutexLock lock(mu_);
      n_taken_ = range + 1;
      changed_.notify_all();
    }
  }

  // The first failure is the one that counts.
  void end(const Status& status) EXCLUDES(mu_) {
    const base::MutexLock lock(mu_);
    if (!ended_.exchange(true)) status_ = status;
    changed_.notify_all();
  }

  const RangeFetch& fetch_;
  Tries tries_;
  const std::uint64_t n_ranges_;
  std::atomic<bool> ended_{false};  // written with mu_
  base::Mutex mu_;
  base::CondVar changed_;
  // Ranges that wait for those before them.
  std::map<std::uint64_t, std::string> here_ GUARDED_BY(mu_);
  std::uint64_t next_ GUARDED_BY(mu_) = 0;  // to be fetched
  std::uint64_t n_taken_ GUARDED_BY(mu_) = 0;
  std::size_t n_fetching_ GUARDED_BY(mu_) = 0;  // ranges, tried or to be tried again
  bool is_crowded_ GUARDED_BY(mu_) = false;     // one at a time
  Status status_ GUARDED_BY(mu_);
};

}  // namespace

Status check_total(const FetchHead& head, std::uint64_t file_bytes) {
  if (!head.total || *head.total == file_bytes) return {};
  return {Code::kDataLoss,
          "the hub sends a file of " + std::to_string(*head.total) + " bytes, and listed " +
              std::to_string(file_bytes)};
}

Status fetch_ranges(const RangeFetch& fetch) {
  return Ranges(fetch).run();
}

}  // namespace coxswain::hub
