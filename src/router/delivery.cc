#include "router/delivery.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/thread_name.h"
#include "router/call.h"

namespace coxswain::router {
namespace {

constexpr std::size_t kCallsMin = 64;  // that may be kept in mind, ended ones among them
// Events that are looked at for first tokens where they are handed over; each may take 25 us of the engine's time.
constexpr std::size_t kAtOnceMax = 8;
// When whoever delivers in the thread's place will have finished.
constexpr std::chrono::milliseconds kTurn{1};

}  // namespace

Delivery::Delivery(std::chrono::milliseconds keep_alive_interval)
    : keep_alive_interval_(keep_alive_interval), thread_([this] {
        base::name_thread("delivery");
        loop();
      }) {}

Delivery::~Delivery() {
  stop();
}

void Delivery::on_events(std::span<batch::SinkEvent> events) {
  const auto dealt_with = std::ranges::remove_if(events, [](batch::SinkEvent& e) {
    return !static_cast<DeliverySink&>(*e.sink).queues(e.event);
  });
  events = events.first(events.size() - dealt_with.size());
  if (events.empty()) return;
  base::MutexLock lock(mu_);
  // The thread is not awake, nor about to be. Nothing that was handed over before may be overtaken.
  const bool asleep = !delivering_ && !has_work();
  if (asleep && events.size() <= kAtOnceMax) {
    delivering_ = true;
    lock.unlock();
    events = deliver_first(events);
    lock.lock();
    delivering_ = false;
  }
  items_.insert(
      items_.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  const bool wake = asleep && has_work();
  lock.unlock();
  if (wake) ready_.notify_one();
}

// Those that begin an answer and do not end it. Returns the others.
std::span<batch::SinkEvent> Delivery::deliver_first(std::span<batch::SinkEvent> events) {
  const auto delivered = std::ranges::remove_if(events, [](batch::SinkEvent& e) {
    auto& sink = static_cast<DeliverySink&>(*e.sink);
    if (e.event.final || !sink.begins()) return false;
    sink.deliver(std::move(e.event));
    return true;
  });
  return events.first(events.size() - delivered.size());
}

bool Delivery::has_work() const {
  return stop_ || fail_all_ || !items_.empty() || !new_calls_.empty();
}

void Delivery::push(std::shared_ptr<DeliverySink> sink, batch::TokenEvent event) {
  batch::SinkEvent one{std::move(sink), std::move(event)};
  on_events({&one, 1});
}

void Delivery::open(std::weak_ptr<Call> call) {
  {
    base::MutexLock lock(mu_);
    new_calls_.push_back(std::move(call));
  }
  ready_.notify_one();
}

void Delivery::fail_all(Status status) {
  {
    base::MutexLock lock(mu_);
    fail_all_ = std::move(status);
  }
  ready_.notify_one();
}

void Delivery::stop() {
  {
    base::MutexLock lock(mu_);
    stop_ = true;
  }
  ready_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::size_t Delivery::n_queued() const {
  base::MutexLock lock(mu_);
  return items_.size();
}

// Ends the turn that the thread has and waits for work, or for `look_at`, and a turn. False: there will be no more.
bool Delivery::next_turn(Work& work, std::optional<TimePoint> look_at) {
  base::MutexLock lock(mu_);
  delivering_ = false;
  const auto awake = [&]() REQUIRES(mu_) { return !delivering_ && has_work(); };
  if (!look_at) ready_.wait(lock, awake);
  while (look_at && !ready_.wait_until(lock, *look_at, awake) && delivering_)
    look_at = Clock::now() + kTurn;
  delivering_ = true;
  work.events.swap(items_);
  work.failure = std::exchange(fail_all_, std::nullopt);
  std::move(new_calls_.begin(), new_calls_.end(), std::back_inserter(calls_));
  new_calls_.clear();
  return !stop_ || !work.events.empty() || work.failure;
}

void Delivery::loop() {
  std::optional<TimePoint> next_look;
  std::size_t n_calls_max = kCallsMin;
  Work work;
  while (next_turn(work, next_look)) {
    for (const bool all : {false, true}) {
      for (batch::SinkEvent& item : work.events) {
        if (item.sink == nullptr) continue;
        auto& sink = static_cast<DeliverySink&>(*item.sink);
        if (!all && !sink.begins()) continue;
        sink.deliver(std::move(item.event));
        item.sink.reset();
      }
    }
    work.events.clear();
    if (work.failure) {
      for (const auto& weak : calls_) {
        if (const auto call = weak.lock()) call->fail(*work.failure);
      }
    }
    // A look walks over all calls, so it is not worth taking for every event.
    if (next_look && Clock::now() < *next_look && calls_.size() <= n_calls_max) continue;
    next_look = look();
    n_calls_max = std::max(kCallsMin, 2 * calls_.size());
  }
}

// Drops calls that have ended and writes the comments that are due. Returns when to look again:
// not after the first open stream may need a comment; empty without calls.
std::optional<TimePoint> Delivery::look() {
  const TimePoint now = Clock::now();
  std::optional<TimePoint> next;
  if (!calls_.empty()) next = now + keep_alive_interval_;
  std::erase_if(calls_, [&](const std::weak_ptr<Call>& weak) {
    const auto call = weak.lock();
    if (!call || call->ended()) return true;
    if (!call->streams()) return false;
    next = std::min(*next, call->keep_alive(now, keep_alive_interval_));
    return false;
  });
  return next;
}

}  // namespace coxswain::router
