#pragma once
// Delivery: the one thread that turns token events into answers, so that the engine thread only hands values over,
// those of a step under one lock. The few events with which answers begin, behind which somebody waits, are not worth
// the way to another thread: while it has nothing to do, whoever hands them over delivers them in its place.
//
// It also writes keep-alive comments into streams that are silent. Its queue is bounded by the sequences that are open:
// one that streams gets no further rows once 64 of its events wait, so those of the steps in flight come on top; of any
// other the final event alone is queued.
//
// Thread rule: all but stop() from any thread. stop() delivers what is queued and joins.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::router {

class Call;

// A sink whose events go through a delivery, which is its outlet().
class DeliverySink : public batch::TokenSink {
 public:
  // On the engine's thread: whether the event is to be queued, or has been dealt with.
  virtual bool queues(batch::TokenEvent& event) = 0;
  // Of whoever delivers: somebody waits for the first of its events, which go before those of answers that run.
  virtual bool begins() const = 0;
  // Of whoever delivers, of an event that was queued.
  virtual void deliver(batch::TokenEvent event) = 0;
};

class Delivery final : public batch::EventOutlet {
 public:
  explicit Delivery(std::chrono::milliseconds keep_alive_interval);
  ~Delivery() override;
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // REQUIRES: this is the outlet of every sink, a DeliverySink.
  void on_events(std::span<batch::SinkEvent> events) override;
  void push(std::shared_ptr<DeliverySink> sink, batch::TokenEvent event);
  // From now on the call gets keep-alive comments and fail_all().
  void open(std::weak_ptr<Call> call);
  // Ends every open call with `status`.
  void fail_all(Status status);
  void stop();
  std::size_t n_queued() const;  // events

 private:
  // Of one turn of the thread.
  struct Work {
    std::vector<batch::SinkEvent> events;  // changes places with items_: both keep their room
    std::optional<Status> failure;
  };

  static std::span<batch::SinkEvent> deliver_first(std::span<batch::SinkEvent> events);
  bool has_work() const REQUIRES(mu_);
  bool next_turn(Work& work, std::optional<TimePoint> look_at);
  void loop();
  std::optional<TimePoint> look();

  const std::chrono::milliseconds keep_alive_interval_;
  mutable base::Mutex mu_;
  base::CondVar ready_;
  std::vector<batch::SinkEvent> items_ GUARDED_BY(mu_);
  std::vector<std::weak_ptr<Call>> new_calls_ GUARDED_BY(mu_);
  std::optional<Status> fail_all_ GUARDED_BY(mu_);
  // The thread does, which begins with that, or somebody in its place.
  bool delivering_ GUARDED_BY(mu_) = true;
  bool stop_ GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<Call>> calls_;  // of the thread
  std::thread thread_;
};

}  // namespace coxswain::router
