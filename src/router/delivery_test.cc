#include "router/delivery.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"

namespace coxswain::router {
namespace {

// What was delivered, in order, and by whom. Events are told apart by the number of their sequence.
class Log {
 public:
  struct Entry {
    std::uint32_t event;
    std::thread::id by;
  };

  void add(std::uint32_t event) {
    {
      const base::MutexLock lock(mu_);
      entries_.push_back({event, std::this_thread::get_id()});
    }
    changed_.notify_all();
  }
  std::vector<Entry> wait_for(std::size_t n) const {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return entries_.size() >= n; });
    return entries_;
  }

 private:
  mutable base::Mutex mu_;
  mutable base::CondVar changed_;
  std::vector<Entry> entries_ GUARDED_BY(mu_);
};

class LoggingSink final : public DeliverySink {
 public:
  explicit LoggingSink(Log& log) : log_(log) {}

  void on_event(batch::TokenEvent) override { ADD_FAILURE() << "it has an outlet"; }
  bool queues(batch::TokenEvent&) override { return true; }
  bool begins() const override { return !begun_; }
  void deliver(batch::TokenEvent event) override {
    begun_ = true;
    during(event.sequence);
    log_.add(event.sequence);
  }

  std::function<void(std::uint32_t event)> during = [](std::uint32_t) {};

 private:
  Log& log_;
  bool begun_ = false;
};

batch::SinkEvent event_of(std::shared_ptr<LoggingSink> sink, std::uint32_t id, bool final = false) {
  batch::SinkEvent out{.sink = std::move(sink), .event = {}};
  out.event.sequence = id;
  out.event.final = final;
  return out;
}

std::vector<std::uint32_t> ids(const std::vector<Log::Entry>& entries) {
  std::vector<std::uint32_t> out;
  out.reserve(entries.size());
  for (const Log::Entry& entry : entries) out.push_back(entry.event);
  return out;
}

class DeliveryTest : public ::testing::Test {
 protected:
  std::shared_ptr<LoggingSink> sink() { return std::make_shared<LoggingSink>(log_); }
  void hand_over(std::vector<batch::SinkEvent> events) { delivery_.on_events(events); }
  bool was_here(const Log::Entry& entry) const { return entry.by == std::this_thread::get_id(); }
  // The thread has nothing to do, so that the next event may be delivered here.
  void wait_until_idle() {
    for (bool here = false; !here;) {
      const std::size_t n = n_delivered_;
      hand_over({event_of(sink(), 0)});
      here = was_here(log_.wait_for(n + 1).back());
      n_delivered_ = n + 1;
    }
  }

  Log log_;
  std::size_t n_delivered_ = 0;  // by wait_until_idle()
  Delivery delivery_{std::chrono::milliseconds(10'000)};
};

TEST_F(DeliveryTest, OfAFewEventsThoseThatBeginAreDeliveredByWhoHandsThemOver) {
  wait_until_idle();
  const auto first = sink();
  const auto second = sink();
  hand_over(
      {event_of(first, 1), event_of(first, 2), event_of(second, 3), event_of(sink(), 4, true)});
  const auto entries = log_.wait_for(n_delivered_ + 4);
  const std::vector<Log::Entry> ours(entries.begin() + static_cast<std::ptrdiff_t>(n_delivered_),
                                     entries.end());
  EXPECT_EQ(ids(ours), (std::vector<std::uint32_t>{1, 3, 4, 2}));
  for (const Log::Entry& entry : ours)
    EXPECT_EQ(was_here(entry), entry.event == 1 || entry.event == 3) << entry.event;
}

TEST_F(DeliveryTest, ManyEventsAreTheThreads) {
  wait_until_idle();
  std::vector<batch::SinkEvent> events;
  for (std::uint32_t i = 1; i <= 9; ++i) events.push_back(event_of(sink(), i));
  hand_over(std::move(events));
  const auto entries = log_.wait_for(n_delivered_ + 9);
  for (std::size_t i = n_delivered_; i < entries.size(); ++i) EXPECT_FALSE(was_here(entries[i]));
}

TEST_F(DeliveryTest, WhatWasHandedOverBeforeIsNotOvertaken) {
  wait_until_idle();
  std::promise<void> entered;
  std::promise<void> goes_on;
  const auto slow = sink();
  slow->during = [&](std::uint32_t event) {
    if (event != 2) return;
    entered.set_value();
    goes_on.get_future().wait();
  };
  const auto other = sink();
  hand_over({event_of(slow, 1), event_of(slow, 2)});  // the second one is the thread's
  entered.get_future().wait();
  hand_over({event_of(other, 3)});
  hand_over({event_of(other, 4)});
  EXPECT_EQ(delivery_.n_queued(), 2U);
  goes_on.set_value();
  const auto entries = log_.wait_for(n_delivered_ + 4);
  const auto all = ids(entries);
  EXPECT_EQ(std::vector<std::uint32_t>(all.end() - 4, all.end()),
            (std::vector<std::uint32_t>{1, 2, 3, 4}));
  EXPECT_FALSE(was_here(entries.back()));
}

// While another thread delivers in the place of the delivery's own: that one is woken behind it.
TEST_F(DeliveryTest, WhatComesWhileSomebodyElseDeliversWaitsForHim) {
  wait_until_idle();
  std::promise<void> entered;
  std::promise<void> goes_on;
  const auto slow = sink();
  slow->during = [&](std::uint32_t) {
    entered.set_value();
    goes_on.get_future().wait();
  };
  std::thread engine([&] { hand_over({event_of(slow, 1)}); });
  entered.get_future().wait();
  hand_over({event_of(sink(), 2)});
  EXPECT_EQ(delivery_.n_queued(), 1U);
  goes_on.set_value();
  const auto all = ids(log_.wait_for(n_delivered_ + 2));
  EXPECT_EQ(std::vector<std::uint32_t>(all.end() - 2, all.end()),
            (std::vector<std::uint32_t>{1, 2}));
  engine.join();
}

TEST_F(DeliveryTest, EventsOfManyThreadsArriveOnceAndThoseOfAnAnswerInOrder) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kEvents = 501;
  constexpr std::uint32_t kAnswer = 3;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::shared_ptr<LoggingSink> answer = sink();
      for (std::uint32_t i = 0; i < kEvents; ++i) {
        if (i % kAnswer == 0) answer = sink();
        hand_over({event_of(answer, t * kEvents + i)});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  delivery_.stop();  // all that was queued is delivered
  const auto all = ids(log_.wait_for(std::size_t{kThreads} * kEvents));
  std::vector<std::size_t> place(all.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(std::exchange(place.at(all[i]), i), all.size()) << all[i] << " came twice";
  }
  for (std::uint32_t event = 1; event < all.size(); ++event) {
    if (event % kEvents % kAnswer != 0) {
      EXPECT_LT(place[event - 1], place[event]) << event;
    }
  }
}

}  // namespace
}  // namespace coxswain::router
