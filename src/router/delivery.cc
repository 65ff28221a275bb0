#include "router/delivery.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/thread_name.h"
#include "router/call.h"

namespace coxswain::router {
namespace {

constexpr std::size_t kCallsMin = 64;  // that may be kept in mind, ended ones among them

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
  const std::size_t n = events.size() - dealt_with.size();
  if (n == 0) return;
  {
    base::MutexLock lock(mu_);
    items_.insert(items_.end(),
                  std::make_move_iterator(events.begin()),
                  std::make_move_iterator(events.begin() + static_cast<std::ptrdiff_t>(n)));
    if (items_.size() > n) return;  // the thread is awake or about to be
  }
  ready_.notify_one();
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

void Delivery::loop() {
  std::optional<TimePoint> next_look;
  std::size_t n_calls_max = kCallsMin;
  std::vector<batch::SinkEvent> items;  // changes places with items_, so that both keep their room
  while (true) {
    std::optional<Status> failure;
    {
      base::MutexLock lock(mu_);
      const auto awake = [&]() REQUIRES(mu_) {
        return stop_ || fail_all_ || !items_.empty() || !new_calls_.empty();
      };
      if (next_look) {
        ready_.wait_until(lock, *next_look, awake);
      } else {
        ready_.wait(lock, awake);
      }
      items.swap(items_);
      failure = std::exchange(fail_all_, std::nullopt);
      std::move(new_calls_.begin(), new_calls_.end(), std::back_inserter(calls_));
      new_calls_.clear();
      if (stop_ && items.empty() && !failure) return;
    }
    for (const bool all : {false, true}) {
      for (batch::SinkEvent& item : items) {
        if (item.sink == nullptr) continue;
        auto& sink = static_cast<DeliverySink&>(*item.sink);
        if (!all && !sink.begins()) continue;
        sink.deliver(std::move(item.event));
        item.sink.reset();
      }
    }
    items.clear();
    if (failure) {
      for (const auto& weak : calls_) {
        if (const auto call = weak.lock()) call->fail(*failure);
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
