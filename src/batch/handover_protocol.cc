#include "batch/handover_protocol.h"

#include <algorithm>

namespace coxswain::batch::handover {
namespace {

Action reply(Kind kind, std::uint32_t piece = 0, std::uint64_t attachment = 0) {
  return {.kind = Action::Kind::kReply,
          .reply = {.kind = kind, .piece = piece, .attachment = attachment}};
}
Action forget(std::uint64_t attachment) {
  return {.kind = Action::Kind::kForget, .attachment = attachment};
}
constexpr Action kCloseHold{.kind = Action::Kind::kClose};

Mover::Send to_taker(Kind kind, std::uint32_t piece = 0, std::uint64_t attachment = 0) {
  return {.to = Mover::To::kTaker,
          .message = {.kind = kind, .piece = piece, .attachment = attachment}};
}
Mover::Send to_giver(Kind kind, std::uint32_t piece = 0) {
  return {.to = Mover::To::kGiver, .message = {.kind = kind, .piece = piece}};
}

}  // namespace

Actions Giver::take(const Message& message, TimePoint now) {
  Actions out;
  if (now >= deadline_) out = end();
  if (message.kind == Kind::kExport) {
    if (!active_ || message.piece >= pieces_.size()) {
      out.push_back(reply(Kind::kGone));
      return out;
    }
    Piece& piece = pieces_[message.piece];
    if (piece.place == Place::kOut)
      return {reply(Kind::kExported, message.piece, piece.attachment)};
    if (piece.place == Place::kLeaves) return {};
    piece.place = Place::kLeaves;
    return {{.kind = Action::Kind::kCopy, .piece = message.piece}};
  }
  if (message.kind == Kind::kRelease) {
    const Actions more = end();
    out.insert(out.end(), more.begin(), more.end());
  } else {
    const Actions more = stop();
    out.insert(out.end(), more.begin(), more.end());
  }
  out.push_back(reply(Kind::kGone));
  return out;
}

Actions Giver::copied(std::uint32_t piece, std::uint64_t attachment) {
  if (!active_) return attachment == 0 ? Actions{} : Actions{forget(attachment)};
  if (attachment == 0) {
    Actions out = stop();
    out.push_back(reply(Kind::kGone));
    return out;
  }
  pieces_[piece] = {.place = Place::kOut, .attachment = attachment};
  return {reply(Kind::kExported, piece, attachment)};
}

// The bytes of an earlier piece have passed: who asked for a later one had them.
Actions Giver::stop() {
  if (!active_) return {};
  active_ = false;
  const auto last = std::find_if(pieces_.rbegin(), pieces_.rend(), [](const Piece& piece) {
    return piece.place == Place::kOut;
  });
  return last == pieces_.rend() ? Actions{} : Actions{forget(last->attachment)};
}

Actions Giver::end() {
  Actions out = stop();
  if (holds_) out.push_back(kCloseHold);
  holds_ = false;
  return out;
}

Actions Taker::take(const Message& message, TimePoint now) {
  Actions out;
  if (now >= deadline_) out = end();
  Actions more;
  switch (message.kind) {
    case Kind::kPrepare:
      more = prepare();
      break;
    case Kind::kImport:
      more = import(message);
      break;
    case Kind::kCommit:
      more = commit();
      break;
    default:
      more = abort(message.piece, message.attachment);
  }
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Actions Taker::prepare() {
  switch (phase_) {
    case Phase::kNone:
      phase_ = Phase::kReserving;
      return {{.kind = Action::Kind::kReserve}};
    case Phase::kReserving:
    case Phase::kBeginning:
      return {};
    case Phase::kReserved:
      return {reply(Kind::kPrepared, n_there_)};
    case Phase::kBegun:
      return {reply(Kind::kCommitted)};
    case Phase::kGone:
      break;
  }
  return {reply(Kind::kGone)};
}

Actions Taker::import(const Message& message) {
  if (phase_ == Phase::kBeginning || phase_ == Phase::kBegun)
    return {forget(message.attachment), reply(Kind::kImported, message.piece)};
  if (phase_ != Phase::kReserved || message.piece >= pieces_.size())
    return abort(message.piece, message.attachment);
  Piece& piece = pieces_[message.piece];
  if (piece == Piece::kComes) return {};
  if (piece == Piece::kThere)
    return {forget(message.attachment), reply(Kind::kImported, message.piece)};
  piece = Piece::kComes;
  return {{.kind = Action::Kind::kCopy, .piece = message.piece, .attachment = message.attachment}};
}

Actions Taker::commit() {
  if (phase_ == Phase::kBeginning) return {};
  if (phase_ == Phase::kBegun) return {reply(Kind::kCommitted)};
  if (phase_ != Phase::kReserved) return abort();
  commit_wanted_ = true;
  return begin_if_whole();
}

Actions Taker::begin_if_whole() {
  const bool whole =
      std::ranges::all_of(pieces_, [](Piece piece) { return piece == Piece::kThere; });
  if (!commit_wanted_ || !whole) return {};
  phase_ = Phase::kBeginning;
  return {{.kind = Action::Kind::kBegin}};
}

// What is being done is answered when it is done. An import that is under way uses its attachment up.
Actions Taker::abort(std::uint32_t piece, std::uint64_t attachment) {
  if (phase_ == Phase::kBegun) return {reply(Kind::kCommitted)};
  if (phase_ == Phase::kBeginning) return {};
  if (phase_ == Phase::kReserving) {
    abort_wanted_ = true;
    return {};
  }
  Actions out = stop();
  const bool comes = piece < pieces_.size() && pieces_[piece] == Piece::kComes;
  if (attachment != 0 && !comes) out.push_back(forget(attachment));
  out.push_back(reply(Kind::kGone, piece, attachment));
  return out;
}

Actions Taker::stop() {
  const bool held = holds();
  phase_ = Phase::kGone;
  return held ? Actions{kCloseHold} : Actions{};
}

Actions Taker::reserved(bool ok, std::uint32_t n_there) {
  if (!ok) {
    phase_ = Phase::kGone;
    return {reply(Kind::kRefused)};
  }
  phase_ = Phase::kReserved;
  if (abort_wanted_) return abort();
  n_there_ = std::min(n_there, static_cast<std::uint32_t>(pieces_.size()));
  std::fill_n(pieces_.begin(), n_there_, Piece::kThere);
  return {reply(Kind::kPrepared, n_there_)};
}

Actions Taker::copied(std::uint32_t piece, bool ok) {
  if (phase_ != Phase::kReserved) return {};
  if (!ok) return abort();
  pieces_[piece] = Piece::kThere;
  Actions out{reply(Kind::kImported, piece)};
  const Actions more = begin_if_whole();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Actions Taker::begun(bool ok) {
  if (ok) {
    phase_ = Phase::kBegun;
    return {reply(Kind::kCommitted)};
  }
  Actions out = stop();
  out.push_back(reply(Kind::kGone));
  return out;
}

Actions Taker::end() {
  if (phase_ == Phase::kBeginning || phase_ == Phase::kBegun) return {};
  if (phase_ != Phase::kReserving) return stop();
  abort_wanted_ = true;
  return {};
}

Mover::Sends Mover::from_taker(const Message& message) {
  switch (message.kind) {
    case Kind::kPrepared:
      if (phase_ != Phase::kPreparing) return {};
      next_ = message.piece;
      return next_piece();
    case Kind::kImported:
      if (phase_ != Phase::kImporting || message.piece != next_) return {};
      ++next_;
      attachment_ = 0;
      if (next_ < n_pieces_) return next_piece();
      phase_ = Phase::kCommitting;  // which was asked for with the piece
      return {};
    case Kind::kCommitted:
      if (begun() || phase_ == Phase::kFailed) return {};
      phase_ = Phase::kReleasing;
      return resend();
    default:
      return taker_gone(message);
  }
}

// Done only when nothing lies there any more.
Mover::Sends Mover::taker_gone(const Message& message) {
  if (begun() || phase_ == Phase::kFailed) return {};
  if (!passing_ && message.attachment == attachment_) return fail();
  const bool knew = phase_ == Phase::kAborting;
  phase_ = Phase::kAborting;
  return knew ? Sends{} : resend();
}

Mover::Sends Mover::from_giver(const Message& message) {
  if (message.kind == Kind::kExported) {
    if (phase_ != Phase::kExporting || message.piece != next_) return {};
    phase_ = Phase::kPassing;
    passing_ = true;
    return {{.to = To::kTransport, .message = message}};
  }
  return lost_giver();
}

Mover::Sends Mover::passed(std::uint32_t piece, std::uint64_t attachment) {
  if (!passing_ || piece != next_) return {};
  passing_ = false;
  attachment_ = attachment;
  if (phase_ != Phase::kPassing) return resend();  // it was given up meanwhile
  if (attachment == 0) return abort();
  phase_ = Phase::kImporting;
  return resend();
}

Mover::Sends Mover::leave_passage() {
  if (!passing_) return {};
  passing_ = false;
  return abort();
}

Mover::Sends Mover::next_piece() {
  phase_ = next_ < n_pieces_ ? Phase::kExporting : Phase::kCommitting;
  return resend();
}

Mover::Sends Mover::resend() const {
  switch (phase_) {
    case Phase::kPreparing:
      return {to_taker(Kind::kPrepare)};
    case Phase::kExporting:
      return {to_giver(Kind::kExport, next_)};
    case Phase::kImporting: {
      Sends out{to_taker(Kind::kImport, next_, attachment_)};
      if (next_ + 1 == n_pieces_) out.push_back(to_taker(Kind::kCommit));
      return out;
    }
    case Phase::kCommitting:
      return {to_taker(Kind::kCommit)};
    case Phase::kAborting:
      return {to_taker(Kind::kAbort, next_, attachment_), to_giver(Kind::kAbort)};
    case Phase::kReleasing:
      return {to_giver(Kind::kRelease)};
    case Phase::kPassing:
    case Phase::kMoved:
    case Phase::kFailed:
      break;
  }
  return {};
}

Mover::Sends Mover::fail() {
  phase_ = Phase::kFailed;
  return {to_giver(Kind::kAbort)};
}

Mover::Sends Mover::abort() {
  if (begun() || phase_ == Phase::kFailed) return {};
  phase_ = Phase::kAborting;
  return resend();
}

Mover::Sends Mover::lost_taker() {
  return begun() || phase_ == Phase::kFailed ? Sends{} : fail();
}

// What has left it is not lost with it.
Mover::Sends Mover::lost_giver() {
  if (phase_ == Phase::kReleasing) phase_ = Phase::kMoved;
  return phase_ == Phase::kPreparing || phase_ == Phase::kExporting ? abort() : Sends{};
}

}  // namespace coxswain::batch::handover
