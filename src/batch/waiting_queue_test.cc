#include "batch/waiting_queue.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include <gtest/gtest.h>

namespace coxswain::batch {
namespace {

// What the queue promises, by walking over everything.
class Model {
 public:
  Model(std::uint32_t overtakes_max, bool short_first)
      : overtakes_max_(overtakes_max), by_length_max_(short_first ? overtakes_max / 2 : 0) {}

  void insert(Sequence& s) { waiting_.push_back(&s); }
  void erase(Sequence& s) { std::erase(waiting_, &s); }
  void note_admission(std::uint64_t arrival) {
    for (const Sequence* s : waiting_) n_overtaken_[s->arrival] += s->arrival < arrival ? 1 : 0;
  }
  std::uint32_t overtaken(const Sequence& s) { return n_overtaken_[s.arrival]; }
  std::vector<Sequence*> in_order() {
    std::vector<Sequence*> out = waiting_;
    std::ranges::sort(out, {}, [this](const Sequence* s) {
      const bool often = overtaken(*s) >= overtakes_max_;
      const bool by_length =
          !often && s->state == SequenceState::kWaiting && overtaken(*s) < by_length_max_;
      const double length = by_length ? 1 + std::floor(std::log2(s->n_prompt)) : 0;
      return std::tuple(!often, often ? 0 : -s->request.priority, length, s->arrival);
    });
    return out;
  }

 private:
  const std::uint32_t overtakes_max_;
  const std::uint32_t by_length_max_;
  std::vector<Sequence*> waiting_;
  std::map<std::uint64_t, std::uint32_t> n_overtaken_;
};

struct RandomRun {
  RandomRun(std::uint64_t seed, std::uint32_t overtakes_max, bool short_first)
      : rng(seed),
        limit(overtakes_max),
        queue(overtakes_max, short_first),
        model(overtakes_max, short_first) {}

  std::size_t pick(std::size_t n) { return rng() % n; }
  void wait(Sequence& s) {
    queue.insert(s);
    model.insert(s);
  }
  Sequence& leave(std::size_t place) {
    Sequence& s = *model.in_order()[place];
    queue.erase(s);
    model.erase(s);
    return s;
  }
  void arrive() {
    all.push_back(std::make_unique<Sequence>());
    all.back()->arrival = all.size();
    all.back()->request.priority = static_cast<std::int32_t>(pick(3)) - 1;
    all.back()->n_prompt = 1U << (all.size() * 7 % 12);
    wait(*all.back());
  }
  void admit(Sequence& s) {
    s.state = SequenceState::kRunning;
    queue.note_admission(s.arrival);
    model.note_admission(s.arrival);
    running.push_back(&s);
  }
  void act() {
    const std::size_t n = queue.size();
    switch (pick(7)) {
      case 0:
      case 1:
        return arrive();
      case 2:  // the head, or one that fits where others do not
      case 3:
      case 4:
        if (n > 0) admit(leave(std::min(n - 1, pick(2) * pick(9))));
        return;
      case 5:
        if (n > 0 && pick(3) == 0) leave(pick(n)).state = SequenceState::kEnding;
        return;
      default:
        if (running.empty()) return;
        std::swap(running[pick(running.size())], running.back());
        running.back()->state = SequenceState::kPaused;
        wait(*running.back());
        running.pop_back();
    }
  }
  void expect_same() {
    const std::vector<Sequence*> expected = model.in_order();
    ASSERT_EQ(queue.check(), "");
    ASSERT_EQ(queue.size(), expected.size());
    std::size_t i = 0;
    QueuedByPriority by_priority;
    std::uint32_t n_next = 0;
    for (const auto& [rank, s] : queue.in_order()) {
      ASSERT_EQ(s, expected[i++]);
      ++by_priority.of(s->request.priority);
      ASSERT_EQ(std::min(queue.overtaken(*s), limit), std::min(model.overtaken(*s), limit));
      n_next += s->turn == Turn::kNext ? 1 : 0;
      n_by_length += s->turn == Turn::kByLength ? 1 : 0;
    }
    ASSERT_EQ(queue.by_priority(), by_priority);
    n_next_max = std::max(n_next_max, n_next);
    n_paused_max = std::max(n_paused_max, queue.paused().size());
  }

  std::mt19937_64 rng;
  const std::uint32_t limit;
  WaitingQueue queue;
  Model model;
  std::vector<std::unique_ptr<Sequence>> all;
  std::vector<Sequence*> running;
  std::uint32_t n_next_max = 0;
  std::uint64_t n_by_length = 0;
  std::size_t n_paused_max = 0;
};

TEST(WaitingQueue, OrderAndOvertakesAreThoseOfAWalk) {
  for (const bool short_first : {false, true}) {
    for (const std::uint32_t overtakes_max : {0U, 1U, 4U, 32U}) {
      RandomRun run(overtakes_max + 1, overtakes_max, short_first);
      for (int i = 0; i < 3000; ++i) {
        run.act();
        run.expect_same();
        if (::testing::Test::HasFatalFailure()) return;
      }
      EXPECT_GT(run.n_next_max, 1U) << "nobody was overtaken " << overtakes_max << " times";
      EXPECT_GT(run.n_paused_max, 1U);
      EXPECT_EQ(run.n_by_length > 0, short_first && overtakes_max > 1);
    }
  }
}

}  // namespace
}  // namespace coxswain::batch
