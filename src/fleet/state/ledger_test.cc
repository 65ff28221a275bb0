#include "fleet/state/ledger.h"

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

using std::chrono::seconds;

constexpr RequestId kRequest{7};
constexpr ReplicaLife kA{ReplicaId{0}, 1};
constexpr ReplicaLife kB{ReplicaId{1}, 1};
constexpr ReplicaLife kC{ReplicaId{2}, 1};

class LedgerTest : public ::testing::Test {
 protected:
  ~LedgerTest() override { EXPECT_EQ(ledger_.check(), Status()); }

  void accept(RequestId request = kRequest, std::uint32_t retries_max = 2) {
    ASSERT_TRUE(ledger_.accept(request, TimePoint{}, retries_max).ok());
  }
  Seen seen(RequestId request = kRequest) const { return ledger_.find(request)->seen(); }
  Result<Moved> move(const Owner& to) { return ledger_.move(kRequest, seen(), to); }
  void reserve(ReplicaLife at, Resource resource, std::uint64_t amount) {
    ASSERT_TRUE(ledger_
                    .reserve({.request = kRequest,
                              .at = at,
                              .resource = resource,
                              .amount = amount,
                              .deadline = TimePoint{} + seconds(30)})
                    .ok());
  }

  Ledger ledger_;
};

TEST_F(LedgerTest, GoesThroughPrefillTransferAndDecode) {
  accept();
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  EXPECT_EQ(ledger_.token(kRequest, kA, 0), TokenVerdict::kDeliver);
  ASSERT_TRUE(move(Owner::transfer_of(TransferId{1}, kA, kB)).ok());
  EXPECT_EQ(ledger_.token(kRequest, kC, 1), TokenVerdict::kStale);
  // The destination has begun, and its token is here before the word of it.
  EXPECT_EQ(ledger_.token(kRequest, kB, 1), TokenVerdict::kCommitted);
  ASSERT_TRUE(move(Owner::decode(kB)).ok());
  EXPECT_EQ(ledger_.token(kRequest, kB, 1), TokenVerdict::kDeliver);
  const auto done = ledger_.finish(kRequest, seen(), Outcome::kEnded);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done.value().now.stage, Stage::kDone);
  EXPECT_EQ(ledger_.find(kRequest)->next_index, 2U);
  EXPECT_TRUE(ledger_.forget(kRequest).ok());
  EXPECT_EQ(ledger_.find(kRequest), nullptr);
}

TEST_F(LedgerTest, OneOfTwoMoversIsRefused) {
  accept();
  const Seen both = seen();
  ASSERT_TRUE(ledger_.move(kRequest, both, Owner::prefill(kA)).ok());
  const auto second = ledger_.move(kRequest, both, Owner::prefill(kB));
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(ledger_.find(kRequest)->owner, Owner::prefill(kA));
  EXPECT_EQ(ledger_.counters().moves_refused, 1U);
}

TEST_F(LedgerTest, TheSameStageAgainHasAnotherVersion) {
  accept();
  const Seen first = seen();
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  ASSERT_TRUE(ledger_.requeue(kRequest, seen(), Blame::kNobody).ok());
  EXPECT_FALSE(ledger_.move(kRequest, first, Owner::prefill(kA)).ok());
}

// Every pair of stages, with replicas that fit and that do not.
TEST_F(LedgerTest, HasTheEdgesOfTheDrawingAndNoOther) {
  const std::map<Stage, Owner> places{{Stage::kPrefill, Owner::prefill(kA)},
                                      {Stage::kTransfer, Owner::transfer_of(TransferId{1}, kA, kB)},
                                      {Stage::kDecode, Owner::decode(kA)}};
  const std::vector<Owner> targets{
      Owner{},
      Owner::prefill(kA),
      Owner::prefill(kB),
      Owner::transfer_of(TransferId{2}, kA, kC),
      Owner::transfer_of(TransferId{3}, kB, kC),
      Owner::transfer_of(TransferId{4}, kA, kA),
      Owner::decode(kA),
      Owner::decode(kB),
      Owner{.stage = Stage::kDone},
      Owner{.stage = Stage::kDecode, .replica = kA, .destination = kB}};
  const std::map<Stage, std::set<std::size_t>> allowed{{Stage::kQueue, {1, 2}},
                                                       {Stage::kPrefill, {3, 6}},
                                                       {Stage::kTransfer, {7}},
                                                       {Stage::kDecode, {3}},
                                                       {Stage::kDone, {}}};
  for (const auto& [stage, edges] : allowed) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      Ledger ledger;
      ASSERT_TRUE(ledger.accept(kRequest, TimePoint{}, 2).ok());
      const auto step = [&](const Owner& to) {
        return ledger.move(kRequest, ledger.find(kRequest)->seen(), to).ok();
      };
      if (stage == Stage::kDone) {
        ASSERT_TRUE(ledger.finish(kRequest, ledger.find(kRequest)->seen(), Outcome::kEnded).ok());
      } else if (stage != Stage::kQueue) {
        ASSERT_TRUE(step(Owner::prefill(kA)));
        ASSERT_TRUE(stage == Stage::kPrefill || step(places.at(stage)));
      }
      const Ledger before = ledger;
      EXPECT_EQ(step(targets[i]), edges.contains(i)) << name_of(stage) << " to target " << i;
      if (!edges.contains(i)) {
        EXPECT_EQ(ledger.entries(), before.entries()) << name_of(stage) << " to target " << i;
      }
      EXPECT_EQ(ledger.check(), Status());
    }
  }
}

TEST_F(LedgerTest, TokensComeOnceAndInOrder) {
  accept();
  EXPECT_EQ(ledger_.token(kRequest, kA, 0), TokenVerdict::kStale);
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  EXPECT_EQ(ledger_.token(kRequest, kA, 0), TokenVerdict::kDeliver);
  EXPECT_EQ(ledger_.token(kRequest, kA, 0), TokenVerdict::kRepeated);
  EXPECT_EQ(ledger_.token(kRequest, kA, 2), TokenVerdict::kGap);
  EXPECT_EQ(ledger_.token(kRequest, kB, 1), TokenVerdict::kStale);
  EXPECT_EQ(ledger_.token(kRequest, {kA.replica, 2}, 1), TokenVerdict::kStale);
  EXPECT_EQ(ledger_.token(kRequest, kA, 1), TokenVerdict::kDeliver);
  EXPECT_EQ(ledger_.token(RequestId{8}, kA, 0), TokenVerdict::kStale);
}

TEST_F(LedgerTest, ALostOwnerGivesItsRequestsBackToTheQueue) {
  accept();
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  EXPECT_EQ(ledger_.token(kRequest, kA, 0), TokenVerdict::kDeliver);
  const auto moved = ledger_.lose(kA);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].now.stage, Stage::kQueue);
  // What the lost life still says does not count, and nothing goes there again.
  EXPECT_EQ(ledger_.token(kRequest, kA, 1), TokenVerdict::kStale);
  EXPECT_FALSE(move(Owner::prefill(kA)).ok());
  ASSERT_TRUE(move(Owner::prefill({kA.replica, 2})).ok());
  EXPECT_EQ(ledger_.token(kRequest, {kA.replica, 2}, 0), TokenVerdict::kRepeated);
  EXPECT_EQ(ledger_.token(kRequest, {kA.replica, 2}, 1), TokenVerdict::kDeliver);
}

TEST_F(LedgerTest, ALostDestinationLeavesTheRequestAtItsSource) {
  accept();
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  ASSERT_TRUE(move(Owner::transfer_of(TransferId{1}, kA, kB)).ok());
  const auto moved = ledger_.lose(kB);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(ledger_.find(kRequest)->owner, Owner::prefill(kA));
  EXPECT_EQ(ledger_.find(kRequest)->retries_used, 0U);
  EXPECT_TRUE(move(Owner::transfer_of(TransferId{2}, kA, kC)).ok());
}

TEST_F(LedgerTest, AnAbortedTransferOfADecodingRequestGoesOnDecoding) {
  accept();
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  ASSERT_TRUE(move(Owner::decode(kA)).ok());
  ASSERT_TRUE(move(Owner::transfer_of(TransferId{1}, kA, kB)).ok());
  ASSERT_TRUE(ledger_.abort_transfer(kRequest, seen()).ok());
  EXPECT_EQ(ledger_.find(kRequest)->owner, Owner::decode(kA));
  EXPECT_FALSE(ledger_.abort_transfer(kRequest, seen()).ok());
}

TEST_F(LedgerTest, RetriesAreCountedWhereAReplicaIsToBlame) {
  accept(kRequest, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(move(Owner::prefill(kA)).ok());
    ASSERT_TRUE(ledger_.requeue(kRequest, seen(), Blame::kNobody).ok());
  }
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  ASSERT_TRUE(ledger_.requeue(kRequest, seen(), Blame::kReplica).ok());
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  const auto moved = ledger_.lose(kA);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].now.stage, Stage::kDone);
  EXPECT_EQ(ledger_.find(kRequest)->outcome, Outcome::kFailed);
}

TEST_F(LedgerTest, EndsOnce) {
  accept();
  ASSERT_TRUE(ledger_.finish(kRequest, seen(), Outcome::kCancelled).ok());
  EXPECT_FALSE(ledger_.finish(kRequest, seen(), Outcome::kEnded).ok());
  EXPECT_FALSE(move(Owner::prefill(kA)).ok());
  EXPECT_EQ(ledger_.find(kRequest)->outcome, Outcome::kCancelled);
  EXPECT_EQ(ledger_.accept(kRequest, TimePoint{}, 0).status().code(), Code::kInvalidArgument);
}

TEST_F(LedgerTest, AMoveGivesBackWhatReplicasWithoutAPartHold) {
  accept();
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  reserve(kA, Resource::kPages, 5);
  reserve(kB, Resource::kCredits, 2);
  reserve(kC, Resource::kCredits, 3);
  const auto moved = move(Owner::transfer_of(TransferId{1}, kA, kB));
  ASSERT_TRUE(moved.ok());
  ASSERT_EQ(moved.value().released.size(), 1U);
  EXPECT_EQ(moved.value().released[0].at, kC);
  EXPECT_EQ(ledger_.reserved(kA, Resource::kPages), 5U);
  EXPECT_EQ(ledger_.reserved(kB, Resource::kCredits), 2U);
  const auto committed = move(Owner::decode(kB));
  ASSERT_EQ(committed.value().released.size(), 1U);
  EXPECT_EQ(committed.value().released[0].at, kA);
  EXPECT_EQ(ledger_.finish(kRequest, seen(), Outcome::kEnded).value().released.size(), 1U);
  EXPECT_TRUE(ledger_.reservations().empty());
}

TEST_F(LedgerTest, ReservationsHaveAnOwnerAndADeadline) {
  accept();
  Reservation wanted{
      .request = kRequest, .at = kA, .amount = 1, .deadline = TimePoint{} + seconds(1)};
  EXPECT_FALSE(ledger_.reserve(wanted).ok());  // queued
  ASSERT_TRUE(move(Owner::prefill(kA)).ok());
  wanted.amount = 0;
  EXPECT_EQ(ledger_.reserve(wanted).status().code(), Code::kInvalidArgument);
  wanted.amount = 1;
  const auto first = ledger_.reserve(wanted);
  const auto second = ledger_.reserve(wanted);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(ledger_.extend(second.value(), TimePoint{} + seconds(3)).ok());
  EXPECT_TRUE(ledger_.expire(TimePoint{} + seconds(1)).empty());
  EXPECT_EQ(ledger_.expire(TimePoint{} + seconds(2)).size(), 1U);
  EXPECT_EQ(ledger_.release(first.value()).status().code(), Code::kNotFound);
  EXPECT_EQ(ledger_.release(second.value()).value().amount, 1U);
}

// Random operations beside a model that knows only how many tokens each client has and who may still speak.
class RandomLedger {
 public:
  // One operation on a request of the newest twelve.
  void run(std::uint64_t i) {
    const RequestId request{below(12) + (i / 1000) * 12};
    const Ledger::Entry* entry = ledger_.find(request);
    if (entry == nullptr) {
      ASSERT_TRUE(ledger_.accept(request, TimePoint{}, 3).ok());
      return;
    }
    Seen seen = entry->seen();
    if (below(10) == 0) seen.version -= 1;
    if (const std::uint32_t what = below(8); what < 4) {
      move(i, what, request, seen);
    } else if (what == 4) {
      (void)ledger_.reserve({.request = request, .at = life(), .amount = 1});
    } else if (what == 5) {
      if (below(20) == 0) lose(below(3));
    } else {
      speak(request);
    }
    ASSERT_EQ(ledger_.check(), Status()) << "step " << i;
    ASSERT_EQ(ledger_.find(request)->next_index, delivered_[request]);
    ASSERT_EQ(ends_[request], ledger_.find(request)->owner.stage == Stage::kDone ? 1 : 0);
  }

  const Ledger& ledger() const { return ledger_; }
  std::uint64_t n_moves() const { return n_moves_; }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(draw_() % n); }
  ReplicaLife life() {
    const std::uint32_t i = below(3);
    return {ReplicaId{i}, incarnation_[i] - (below(8) == 0 ? 1 : 0)};
  }
  void note_end(const Moved& moved) {
    ends_[moved.request] += moved.now.stage == Stage::kDone ? 1 : 0;
  }

  Result<Moved> try_move(std::uint64_t i, std::uint32_t what, RequestId request, const Seen& seen) {
    if (what == 0) return ledger_.move(request, seen, Owner::prefill(life()));
    if (what == 1) {
      const ReplicaLife from = ledger_.find(request)->owner.replica;
      return ledger_.move(request, seen, Owner::transfer_of(TransferId{i}, from, life()));
    }
    if (what == 2) return ledger_.move(request, seen, Owner::decode(life()));
    if (below(4) == 0) return ledger_.finish(request, seen, Outcome::kEnded);
    return ledger_.abort_transfer(request, seen);
  }
  void move(std::uint64_t i, std::uint32_t what, RequestId request, const Seen& seen) {
    const Result<Moved> moved = try_move(i, what, request, seen);
    if (!moved.ok()) return;
    ++n_moves_;
    note_end(moved.value());
    ASSERT_NE(seen, ledger_.find(request)->seen());
  }
  void lose(std::uint32_t replica) {
    for (const Moved& each : ledger_.lose({ReplicaId{replica}, incarnation_[replica]}))
      note_end(each);
    ++incarnation_[replica];
  }
  void speak(RequestId request) {
    std::uint64_t& delivered = delivered_[request];
    const std::uint64_t index = delivered + below(3) - (delivered > 0 ? 1 : 0);
    if (ledger_.token(request, life(), index) != TokenVerdict::kDeliver) return;
    ASSERT_EQ(index, delivered);
    ++delivered;
  }

  std::mt19937 draw_{20};
  Ledger ledger_;
  std::vector<std::uint64_t> incarnation_{1, 1, 1};
  std::map<RequestId, std::uint64_t> delivered_;
  std::map<RequestId, int> ends_;
  std::uint64_t n_moves_ = 0;
};

TEST(LedgerRandom, KeepsItsPromisesUnderRandomOperations) {
  RandomLedger random;
  for (std::uint64_t i = 0; i < 20'000 && !::testing::Test::HasFatalFailure(); ++i) random.run(i);
  EXPECT_GT(random.n_moves(), 500U);
  EXPECT_GT(random.ledger().counters().tokens_delivered, 100U);
}

}  // namespace
}  // namespace coxswain::fleet
