#pragma once
// Delivery: the one thread that turns token events into answers, so that the engine thread only
// hands values over.
//
// It also writes keep-alive comments into streams that are silent. Its queue is bounded by the
// sequences that are open: one that streams gets no further rows once 64 of its events wait, so
// those of the steps in flight come on top; of any other the final event alone is queued.
//
// Thread rule: push(), open(), fail_all() and n_queued() from any thread. stop() delivers what is queued and joins.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::router {

class Call;

class Delivery {
 public:
  struct Item {
    std::shared_ptr<Call> call;
    std::size_t sequence = 0;
    batch::TokenEvent event;
    // Counted down once delivered; may be null.
    std::shared_ptr<std::atomic<std::uint32_t>> n_pending;
  };

  explicit Delivery(std::chrono::milliseconds keep_alive_interval);
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  void push(Item item);
  // From now on the call gets keep-alive comments and fail_all().
  void open(std::weak_ptr<Call> call);
  // Ends every open call with `status`.
  void fail_all(Status status);
  void stop();
  std::size_t n_queued() const;  // events

 private:
  void loop();
  std::optional<TimePoint> look();

  const std::chrono::milliseconds keep_alive_interval_;
  mutable base::Mutex mu_;
  base::CondVar ready_;
  std::vector<Item> items_ GUARDED_BY(mu_);
  std::vector<std::weak_ptr<Call>> new_calls_ GUARDED_BY(mu_);
  std::optional<Status> fail_all_ GUARDED_BY(mu_);
  bool stop_ GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<Call>> calls_;  // of the thread
  std::thread thread_;
};

}  // namespace coxswain::router
