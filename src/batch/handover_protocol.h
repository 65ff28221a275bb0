#pragma once
// The hand-over of what a prompt has left in the KV cache, from one engine to another: a protocol of three machines.
//
//     Mover                      Taker (destination)              Giver (source)
//     Prepare ------------------> reserves blocks, or refuses
//             <------------------ Prepared
//     Export i ---------------------------------------------------> copies a piece out
//             <--------------------------------------------------- Exported i
//       the bytes pass (block_transport.h)
//     Import i -----------------> copies it in
//             <------------------ Imported i                       ... in any order, each as often as it takes
//     Commit -------------------> once all is there it begins
//             <------------------ Committed
//     Release ----------------------------------------------------> gives its blocks back
//
// Abort ends either side at any time. Messages may be lost, come twice and in another order: each side answers a
// repetition as it answered before, and Commit takes effect once. What a side holds is a lease: at its deadline it is
// given back without a word, so nobody waits for a side that is gone. A taker that has been told to abort, or has
// refused, stays so. The phases are those of a two-phase commit whose outcome one side alone decides, the taker.
//
// Pure: a machine takes a message and yields actions. handover.cc executes them; the test does over a modelled network.
//
// Thread rule: values.

#include <compare>
#include <cstdint>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::batch::handover {

enum class Kind : std::uint8_t {
  // to the taker
  kPrepare,
  kImport,
  kCommit,
  // to the giver
  kExport,
  kRelease,
  // to either: the transfer ends here. What the giver holds stays for another one, until Release or the deadline.
  kAbort,
  // from the taker
  kPrepared,
  kRefused,  // of Prepare: nothing is held
  kImported,
  kCommitted,
  // from the giver
  kExported,
  // from either: it does nothing more for this transfer
  kGone,
};

struct Message {
  Kind kind = Kind::kAbort;
  // Export, Import and their answers: which piece. Prepared: how many pieces at the front are there already.
  std::uint32_t piece = 0;
  // Exported, Import: the attachment that has the bytes. Abort to the taker, and its Gone: one that may lie there and
  // that it has forgotten, if it was not imported.
  std::uint64_t attachment = 0;

  friend auto operator<=>(const Message&, const Message&) = default;
};

// What a side is to do. Reserve, Copy and Begin are answered with reserved(), copied() and begun().
struct Action {
  enum class Kind : std::uint8_t {
    kReserve,  // taker: blocks for all pieces
    kCopy,     // a piece out of the engine's runner, or in
    kForget,   // an attachment that nobody asks for any more
    kBegin,    // taker: what came in is published, the sequence is submitted
    kClose,    // what is held is given back
    kReply,
  };
  Kind kind = Kind::kReply;
  std::uint32_t piece = 0;
  std::uint64_t attachment = 0;
  Message reply = {};

  friend bool operator==(const Action&, const Action&) = default;
};
using Actions = std::vector<Action>;

// The side that has the blocks. It begins with them held.
class Giver {
 public:
  Giver(std::uint32_t n_pieces, TimePoint deadline) : pieces_(n_pieces), deadline_(deadline) {}

  Actions take(const Message& message, TimePoint now);
  // A copy that was asked for is done, into `attachment`; 0: it failed.
  Actions copied(std::uint32_t piece, std::uint64_t attachment);
  // The deadline has come, or the runner was lost.
  Actions end();

  bool holds() const { return holds_; }

  friend auto operator<=>(const Giver&, const Giver&) = default;

 private:
  enum class Place : std::uint8_t { kHere, kLeaves, kOut };
  struct Piece {
    Place place = Place::kHere;
    std::uint64_t attachment = 0;

    friend auto operator<=>(const Piece&, const Piece&) = default;
  };
  Actions stop();

  std::vector<Piece> pieces_;
  TimePoint deadline_;
  bool active_ = true;
  bool holds_ = true;
};

// The side that will go on.
class Taker {
 public:
  enum class Phase : std::uint8_t { kNone, kReserving, kReserved, kBeginning, kBegun, kGone };

  Taker(std::uint32_t n_pieces, TimePoint deadline)
      : pieces_(n_pieces, Piece::kMissing), deadline_(deadline) {}

  Actions take(const Message& message, TimePoint now);
  // Whether blocks are leased; of the pieces, so many at the front need not come.
  Actions reserved(bool ok, std::uint32_t n_there);
  Actions copied(std::uint32_t piece, bool ok);
  Actions begun(bool ok);
  Actions end();

  Phase phase() const { return phase_; }
  // Blocks are leased for the transfer; once the sequence has begun they are the sequence's.
  bool holds() const { return phase_ == Phase::kReserved || phase_ == Phase::kBeginning; }

  friend auto operator<=>(const Taker&, const Taker&) = default;

 private:
  enum class Piece : std::uint8_t { kMissing, kComes, kThere };
  Actions prepare();
  Actions import(const Message& message);
  Actions commit();
  Actions begin_if_whole();
  Actions abort(std::uint32_t piece = 0, std::uint64_t attachment = 0);
  Actions stop();

  Phase phase_ = Phase::kNone;
  bool abort_wanted_ = false;   // as soon as the effect in progress is known
  bool commit_wanted_ = false;  // as soon as all is there
  std::uint32_t n_there_ = 0;   // at the front, as it was prepared
  std::vector<Piece> pieces_;
  TimePoint deadline_;
};

// Who has the request and its ledger entry, and moves the pieces one after the other.
class Mover {
 public:
  enum class Phase : std::uint8_t {
    kPreparing,
    kExporting,  // piece next()
    kPassing,    // its bytes are on their way
    kImporting,
    kCommitting,
    kAborting,   // the taker has not said yet that it holds nothing
    kReleasing,  // the sequence has begun; the giver has not heard
    kMoved,      // the sequence has begun at the taker
    kFailed,     // it has not and will not
  };
  enum class To : std::uint8_t { kTaker, kGiver, kTransport };
  struct Send {
    To to = To::kTaker;
    Message message = {};  // to the transport: Exported, whose bytes are to pass
  };
  using Sends = std::vector<Send>;

  explicit Mover(std::uint32_t n_pieces) : n_pieces_(n_pieces) {}

  Sends start() const { return resend(); }
  Sends from_taker(const Message& message);
  Sends from_giver(const Message& message);
  // The bytes of the piece are an attachment of the taker's runner; 0: they are not.
  Sends passed(std::uint32_t piece, std::uint64_t attachment);
  // They have not passed in time and are not waited for: it is given up. What comes later is not told here, but
  // forgotten by whoever brings it.
  Sends leave_passage();
  // Nothing has come for a while: what was asked last is asked again.
  Sends resend() const;
  // It is given up, unless the sequence has begun.
  Sends abort();
  // The side is gone with its engine and all that it held. Whether a sequence had begun at a taker that is lost while
  // Commit was under way only its events say.
  Sends lost_taker();
  Sends lost_giver();

  Phase phase() const { return phase_; }
  bool done() const { return phase_ == Phase::kMoved || phase_ == Phase::kFailed; }
  bool begun() const { return phase_ == Phase::kMoved || phase_ == Phase::kReleasing; }
  bool waits_for_passage() const { return passing_; }
  friend auto operator<=>(const Mover&, const Mover&) = default;

 private:
  Sends next_piece();
  Sends taker_gone(const Message& message);
  Sends fail();

  Phase phase_ = Phase::kPreparing;
  std::uint32_t n_pieces_;
  std::uint32_t next_ = 0;
  bool passing_ = false;  // until the transport has answered, or is not waited for
  // At the taker, which has not said that it is imported or forgotten.
  std::uint64_t attachment_ = 0;
};

}  // namespace coxswain::batch::handover
