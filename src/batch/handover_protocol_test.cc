// Every order of events of a small hand-over: messages lost, doubled and overtaking each other, effects that fail,
// sides that reach their deadline or are lost at any point. From each state that can be reached the run is let settle,
// and then nothing is held any more and the sequence has begun exactly where the mover says so.

#include "batch/handover_protocol.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <set>

#include <gtest/gtest.h>

namespace coxswain::batch::handover {
namespace {

constexpr std::uint32_t kPieces = 2;
constexpr TimePoint kDeadline = TimePoint(std::chrono::seconds(10));

enum class Mail : std::uint8_t { kToTaker, kToGiver, kFromTaker, kFromGiver };

struct Letter {
  Mail mail = Mail::kToTaker;
  Message message = {};

  friend auto operator<=>(const Letter&, const Letter&) = default;
};

// Something that a side, or the transport, has been told to do.
struct Work {
  enum class At : std::uint8_t { kTaker, kGiver, kTransport };
  At at = At::kTaker;
  Action::Kind kind = Action::Kind::kCopy;
  std::uint32_t piece = 0;
  std::uint64_t attachment = 0;

  friend auto operator<=>(const Work&, const Work&) = default;
};

// What may still go wrong in this run: each so often, and so often in all.
struct Budget {
  int all = 3;
  int losses = 1;
  int doubles = 1;
  int failures = 1;
  int resends = 1;
  int aborts = 1;
  int late = 1;  // passages that are not waited for
  int ends = 1;  // deadlines and lost sides

  friend auto operator<=>(const Budget&, const Budget&) = default;
};

struct World {
  Giver giver{kPieces, kDeadline};
  Taker taker{kPieces, kDeadline};
  Mover mover{kPieces};
  std::multiset<Letter> letters = {};
  std::multiset<Work> works = {};
  std::set<std::uint64_t> at_giver = {};  // attachments
  std::set<std::uint64_t> at_taker = {};
  bool giver_holds = true;
  bool taker_holds = false;
  std::uint32_t n_there = 0;  // at the front, which need not come
  int n_begun = 0;
  bool giver_late = false;  // its deadline has passed
  bool taker_late = false;
  bool giver_lost = false;
  bool taker_lost = false;
  Budget budget = {};

  friend auto operator<=>(const World&, const World&) = default;

  void send(const Mover::Sends& sends) {
    for (const Mover::Send& each : sends) {
      if (each.to == Mover::To::kTransport) {
        works.insert({.at = Work::At::kTransport,
                      .piece = each.message.piece,
                      .attachment = each.message.attachment});
      } else if (each.to == Mover::To::kTaker && !taker_lost) {
        letters.insert({.mail = Mail::kToTaker, .message = each.message});
      } else if (each.to == Mover::To::kGiver && !giver_lost) {
        letters.insert({.mail = Mail::kToGiver, .message = each.message});
      }
    }
  }

  void act(Work::At at, const Actions& actions) {
    const bool giving = at == Work::At::kGiver;
    for (const Action& action : actions) {
      switch (action.kind) {
        case Action::Kind::kReply:
          letters.insert(
              {.mail = giving ? Mail::kFromGiver : Mail::kFromTaker, .message = action.reply});
          break;
        case Action::Kind::kForget:
          (giving ? at_giver : at_taker).erase(action.attachment);
          break;
        case Action::Kind::kClose:
          EXPECT_TRUE(giving ? giver_holds : taker_holds) << "closed twice";
          (giving ? giver_holds : taker_holds) = false;
          break;
        default:
          works.insert({.at = at,
                        .kind = action.kind,
                        .piece = action.piece,
                        .attachment = action.attachment});
      }
    }
  }

  void deliver(const Letter& letter) {
    const auto now = [](bool late) { return late ? kDeadline : TimePoint{}; };
    switch (letter.mail) {
      case Mail::kToTaker:
        act(Work::At::kTaker, taker.take(letter.message, now(taker_late)));
        break;
      case Mail::kToGiver:
        act(Work::At::kGiver, giver.take(letter.message, now(giver_late)));
        break;
      case Mail::kFromTaker:
        send(mover.from_taker(letter.message));
        break;
      case Mail::kFromGiver:
        send(mover.from_giver(letter.message));
        break;
    }
  }

  void finish(Work work, bool ok) {  // a copy: the one in `works` goes
    works.erase(works.find(work));
    if (work.at == Work::At::kTransport) {
      const bool there = at_giver.erase(work.attachment) > 0;
      const bool passes = ok && there && !taker_lost;
      if (!mover.waits_for_passage()) return;  // whoever brings it forgets it
      if (passes) at_taker.insert(100 + work.piece);
      send(mover.passed(work.piece, passes ? 100 + work.piece : 0));
    } else if (work.at == Work::At::kGiver) {
      if (ok) at_giver.insert(10 + work.piece);
      act(work.at, giver.copied(work.piece, ok ? 10 + work.piece : 0));
    } else if (work.kind == Action::Kind::kReserve) {
      taker_holds = ok;
      act(work.at, taker.reserved(ok, n_there));
    } else if (work.kind == Action::Kind::kCopy) {
      EXPECT_EQ(at_taker.erase(work.attachment), 1U) << "an import of what is not there";
      act(work.at, taker.copied(work.piece, ok));
    } else {
      if (ok) {
        ++n_begun;
        taker_holds = false;  // the sequence's
      }
      act(work.at, taker.begun(ok));
    }
  }

  void lose_giver() {
    giver_lost = true;
    giver_holds = false;
    at_giver.clear();
    std::erase_if(letters, [](const Letter& l) { return l.mail == Mail::kToGiver; });
    std::erase_if(works, [](const Work& w) { return w.at == Work::At::kGiver; });
    send(mover.lost_giver());
  }
  void lose_taker() {
    taker_lost = true;
    taker_holds = false;
    at_taker.clear();
    std::erase_if(letters, [](const Letter& l) { return l.mail == Mail::kToTaker; });
    std::erase_if(works, [](const Work& w) { return w.at == Work::At::kTaker; });
    send(mover.lost_taker());
  }
};

std::vector<World> successors(const World& world) {
  std::vector<World> out;
  const auto next = [&](int Budget::*what) -> World& {
    World& copy = out.emplace_back(world);
    if (what == nullptr) return copy;
    --(copy.budget.*what);
    if (--copy.budget.all == 0) copy.budget = {0, 0, 0, 0, 0, 0, 0, 0};
    return copy;
  };
  const Budget& budget = world.budget;
  for (auto it = world.letters.begin(); it != world.letters.end();
       it = world.letters.upper_bound(*it)) {
    World& delivered = next(nullptr);
    delivered.letters.erase(delivered.letters.find(*it));
    delivered.deliver(*it);
    if (budget.losses > 0) {
      World& lost = next(&Budget::losses);
      lost.letters.erase(lost.letters.find(*it));
    }
    if (budget.doubles > 0) next(&Budget::doubles).deliver(*it);
  }
  for (auto it = world.works.begin(); it != world.works.end(); it = world.works.upper_bound(*it)) {
    next(nullptr).finish(*it, true);
    if (budget.failures > 0) next(&Budget::failures).finish(*it, false);
  }
  if (budget.resends > 0) {
    World& again = next(&Budget::resends);
    again.send(again.mover.resend());
  }
  if (budget.late > 0 && world.mover.waits_for_passage()) {
    World& late = next(&Budget::late);
    late.send(late.mover.leave_passage());
  }
  if (budget.aborts > 0) {
    World& aborted = next(&Budget::aborts);
    aborted.send(aborted.mover.abort());
  }
  if (budget.ends == 0) return out;
  World& late_giver = next(&Budget::ends);
  late_giver.giver_late = true;
  late_giver.act(Work::At::kGiver, late_giver.giver.end());
  World& late_taker = next(&Budget::ends);
  late_taker.taker_late = true;
  late_taker.act(Work::At::kTaker, late_taker.taker.end());
  next(&Budget::ends).lose_giver();
  next(&Budget::ends).lose_taker();
  return out;
}

// Nothing goes wrong any more; what is lost is sent again, and in the end every deadline passes.
std::string settle(World w) {
  for (int i = 0; i < 200 && !(w.mover.done() && w.letters.empty() && w.works.empty()); ++i) {
    if (!w.letters.empty()) {
      const Letter letter = *w.letters.begin();
      w.letters.erase(w.letters.begin());
      w.deliver(letter);
    } else if (!w.works.empty()) {
      w.finish(*w.works.begin(), true);
    } else if (w.giver_lost && !w.mover.done()) {
      w.send(w.mover.lost_giver());
      w.send(w.mover.resend());
    } else {
      w.send(w.mover.resend());
    }
  }
  if (!w.mover.done()) return "the mover waits for ever";
  if (!w.giver_lost) w.act(Work::At::kGiver, w.giver.end());
  if (!w.taker_lost) w.act(Work::At::kTaker, w.taker.end());
  if (w.giver_holds || w.giver.holds() != w.giver_holds) {
    if (!w.giver_lost) return "the giver holds blocks";
  }
  if (w.taker_holds) return "the taker holds blocks";
  if (!w.at_giver.empty() || !w.at_taker.empty()) return "an attachment is left";
  if (w.n_begun > 1) return "the sequence has begun twice";
  const bool moved = w.mover.phase() == Mover::Phase::kMoved;
  if (!w.taker_lost && moved != (w.n_begun == 1)) return "the mover and the taker disagree";
  if (moved && w.n_begun == 0) return "moved, and nothing has begun";
  return {};
}

// With so many pieces at the front that the taker has before: of a prompt with the same beginning.
class HandoverProtocolOrders : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(HandoverProtocolOrders, EveryOrderOfEvents) {
  World first;
  first.n_there = GetParam();
  first.send(first.mover.start());
  std::set<World> seen{first};
  std::deque<World> open{first};
  std::size_t n_moved = 0;
  while (!open.empty()) {
    const World world = std::move(open.front());
    open.pop_front();
    ASSERT_EQ(settle(world), "") << seen.size() << " states seen";
    n_moved += world.mover.phase() == Mover::Phase::kMoved ? 1 : 0;
    for (World& next : successors(world)) {
      if (seen.insert(next).second) open.push_back(std::move(next));
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(seen.size(), GetParam() < kPieces ? 10'000U : 1'000U);
  EXPECT_GT(n_moved, 100U);
  std::printf("%zu states\n", seen.size());
}

INSTANTIATE_TEST_SUITE_P(There, HandoverProtocolOrders, ::testing::Range(0U, kPieces + 1));

TEST(HandoverProtocol, NothingToMoveIsCommittedAtOnce) {
  Mover mover(0);
  Taker taker(0, kDeadline);
  EXPECT_EQ(taker.take({.kind = Kind::kPrepare}, {}).front().kind, Action::Kind::kReserve);
  const Actions prepared = taker.reserved(true, 0);
  const auto sends = mover.from_taker(prepared.front().reply);
  ASSERT_EQ(sends.size(), 1U);
  EXPECT_EQ(sends.front().message.kind, Kind::kCommit);
}

TEST(HandoverProtocol, PiecesThatAreThereAlreadyDoNotMove) {
  Taker taker(3, kDeadline);
  taker.take({.kind = Kind::kPrepare}, {});
  const Actions prepared = taker.reserved(true, 2);
  Mover mover(3);
  const auto sends = mover.from_taker(prepared.front().reply);
  ASSERT_EQ(sends.size(), 1U);
  EXPECT_EQ(sends.front().message, (Message{.kind = Kind::kExport, .piece = 2}));
  // A commit before the last one has come takes effect behind it.
  EXPECT_EQ(taker.take({.kind = Kind::kCommit}, {}), Actions{});
  taker.take({.kind = Kind::kImport, .piece = 2, .attachment = 7}, {});
  EXPECT_EQ(taker.copied(2, true).back().kind, Action::Kind::kBegin);
}

}  // namespace
}  // namespace coxswain::batch::handover
