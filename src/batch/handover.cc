// One file, as it is one conversation: what the service's thread says, and what both engines do and answer.

#include "batch/handover.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/numbers.h"
#include "base/thread_name.h"
#include "batch/block_transfers.h"
#include "batch/carriers.h"
#include "batch/engine_admission.h"
#include "batch/engine_core.h"
#include "batch/handover_passage.h"
#include "batch/handover_protocol.h"
#include "batch/handover_transfer.h"
#include "batch/layer_steps.h"

namespace coxswain::batch {
namespace {

using handover::Action;
using handover::Actions;
using handover::Export;
using handover::is_hidden;
using handover::Kind;
using handover::Message;
using handover::Mover;
using handover::n_block_pieces;
using handover::n_pieces_of;
using handover::Passage;
using handover::Transfer;
using handover::TransferPtr;

// How soon a transfer that found no slots for an attachment looks again.
constexpr std::chrono::milliseconds kSlotPoll{1};

// Ids of attachments of a piece are in a row; those of which there is none are unknown to the runner.
void forget(EngineCore& core, const Transfer& t, std::uint64_t first) {
  for (std::uint32_t i = 0; i < t.job.parked->attachments_max; ++i)
    static_cast<void>(core.runner()->detach(first + i));
}

// What has begun ends, and so does what is given up already.
bool may_be_late(const Mover& mover) {
  return !mover.done() && !mover.begun() && mover.phase() != Mover::Phase::kAborting;
}

// Of the attachments of a piece: how many are under way, and the first failure.
struct Copies {
  std::size_t n_left = 0;
  Status why = {};
};

// `done`, once, behind all of them. What fails goes on in a post: the engine may be in the middle of losing its runner.
// All else goes on at once: a post waits until the engine looks again.
void move_all(EngineCore& core,
              Engine& engine,
              std::vector<BlockPiece> all,
              const std::function<void(EngineCore&, const Status&)>& done) {
  const auto copies = std::make_shared<Copies>(all.size());
  for (BlockPiece& each : all) {
    each.done = [&core, &engine, copies, done](const Status& status) {
      if (copies->why.ok()) copies->why = status;
      if (--copies->n_left > 0) return;
      if (copies->why.ok()) return done(core, {});
      engine.post([done, why = copies->why](EngineCore& again) { done(again, why); });
    };
    core.transfers().move(std::move(each));
  }
}

Status unavailable(std::string message) {
  return {Code::kUnavailable, ErrorKind::kUnavailable, std::move(message)};
}

}  // namespace

class HandoverService::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(HandoverOptions options, std::unique_ptr<BlockTransport> transport)
      : options_(options),
        transport_(transport != nullptr ? std::move(transport)
                                        : std::make_unique<RouterTransport>()) {}

  void run() {
    thread_ = std::thread([this] {
      base::name_thread("handover");
      loop();
    });
  }
  void stop();
  std::uint64_t start(HandoverJob job, Done done);
  void cancel(std::uint64_t id);
  void limit(std::uint64_t id, TimePoint until);
  HandoverStats stats() const {
    HandoverStats out;
    {
      base::MutexLock lock(mu_);
      out = stats_;
    }
    out.transport = transport_->name();
    return out;
  }

 private:
  using Work = std::function<void()>;
  // To the service's thread, from any. False: it has ended, and what comes is nobody's.
  bool post(Work work);
  void loop();
  TimePoint next_wake() const;
  void look_at_clock(TimePoint now);

  // the service's thread
  void begin(const TransferPtr& t);
  void send(const TransferPtr& t, const Mover::Sends& sends);
  void send_one(const TransferPtr& t, const Mover::Send& each);
  static bool take_slots(Transfer& t);
  void export_beside(const TransferPtr& t, const std::shared_ptr<const Export>& out);
  void exported(const TransferPtr& t,
                const std::shared_ptr<const Export>& out,
                const Status& status);
  void pass(const TransferPtr& t, const Message& exported);
  void passed(const TransferPtr& t, const Passage& passage, const Result<std::uint64_t>& n_bytes);
  void leave_passage(const TransferPtr& t);
  void heard(const TransferPtr& t, bool from_giver, const Message& message, const Status& why);
  void give_up(const TransferPtr& t, Status why);
  void settle(const TransferPtr& t);
  void compute_again(const TransferPtr& t);
  void finish(const TransferPtr& t, Status status, bool moved);

  // an engine's thread
  void ask_giver(EngineCore& core, const TransferPtr& t, const Message& message);
  void act_giver(EngineCore& core, const TransferPtr& t, const Actions& actions, const Status& why);
  void act_taker(EngineCore& core, const TransferPtr& t, const Actions& actions, const Status& why);
  void copy_out(EngineCore& core, const TransferPtr& t, std::uint32_t piece);
  void copy_in(EngineCore& core,
               const TransferPtr& t,
               std::uint32_t piece,
               std::uint64_t attachment);
  void compute_rest(EngineCore& core,
                    const TransferPtr& t,
                    std::uint32_t piece,
                    std::uint64_t hidden);
  static Result<HeldPrefix> hold_split(EngineCore& core, Transfer& t);
  Status reserve(EngineCore& core, const TransferPtr& t, std::uint32_t& n_there);
  Status begin_sequence(EngineCore& core, const TransferPtr& t);

  const HandoverOptions options_;
  const std::unique_ptr<BlockTransport> transport_;
  std::thread thread_;
  std::map<std::uint64_t, TransferPtr> transfers_;  // the service's thread
  Carriers carriers_;                               // the service's thread

  mutable base::Mutex mu_;
  base::CondVar news_;
  std::deque<Work> work_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  bool ended_ GUARDED_BY(mu_) = false;  // nobody does work any more
  std::uint64_t next_id_ GUARDED_BY(mu_) = 1;
  HandoverStats stats_ GUARDED_BY(mu_);
};

// ---- any thread ----

bool HandoverService::Impl::post(Work work) {
  {
    base::MutexLock lock(mu_);
    if (ended_) return false;  // it names the service, which would hold itself
    work_.push_back(std::move(work));
  }
  news_.notify_one();
  return true;
}

std::uint64_t HandoverService::Impl::start(HandoverJob job, Done done) {
  std::uint64_t id = 0;
  {
    base::MutexLock lock(mu_);
    id = next_id_++;
    ++stats_.n_running;
  }
  if (job.parked == nullptr) job.parked = std::make_shared<const ParkedContext>();
  TimePoint until = Clock::now() + options_.timeout;
  if (job.parked->hidden != 0 || job.ahead) until = job.parked->until;  // computing counts, too
  if (job.parked->hold != 0) until = std::min(until, job.parked->until);
  if (job.request.deadline) until = std::min(until, *job.request.deadline);
  auto t = std::make_shared<Transfer>(id, std::move(job), std::move(done), until);
  post([this, t] { begin(t); });
  return id;
}

void HandoverService::Impl::cancel(std::uint64_t id) {
  post([this, id] {
    const auto found = transfers_.find(id);
    if (found == transfers_.end() || found->second->mover.begun()) return;
    found->second->cancelled = true;
    give_up(TransferPtr(found->second), {Code::kCancelled, "the hand-over was cancelled"});
  });
}

void HandoverService::Impl::limit(std::uint64_t id, TimePoint until) {
  post([this, id, until] {
    const auto found = transfers_.find(id);
    if (found == transfers_.end()) return;
    found->second->deadline = std::min(found->second->deadline, until);
  });
}

void HandoverService::Impl::stop() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
  }
  post([this] {
    const auto all = transfers_;
    for (const auto& [id, t] : all) {
      t->cancelled = true;
      give_up(t, {Code::kCancelled, "the hand-over service ends"});
    }
  });
  thread_.join();
  carriers_.stop();
}

// ---- the service's thread ----

void HandoverService::Impl::loop() {
  while (true) {
    std::deque<Work> work;
    {
      base::MutexLock lock(mu_);
      const auto any = [&]() REQUIRES(mu_) { return !work_.empty(); };
      if (stopping_ && work_.empty() && transfers_.empty()) {
        ended_ = true;
        return;
      }
      const TimePoint wake = next_wake();
      if (wake == TimePoint::max()) {
        news_.wait(lock, any);
      } else {
        news_.wait_until(lock, wake, any);
      }
      work.swap(work_);
    }
    for (const Work& each : work) each();
    look_at_clock(Clock::now());
  }
}

TimePoint HandoverService::Impl::next_wake() const {
  TimePoint out = TimePoint::max();
  for (const auto& [id, t] : transfers_) {
    const bool passes = t->mover.waits_for_passage();
    if (passes) out = std::min(out, t->passage_until);
    if (passes || may_be_late(t->mover)) out = std::min(out, t->deadline);
    if (t->waits_for_slots) out = std::min(out, Clock::now() + kSlotPoll);
  }
  return out;
}

void HandoverService::Impl::look_at_clock(TimePoint now) {
  const auto all = transfers_;
  for (const auto& [id, t] : all) {
    const bool late = now >= t->deadline;
    if (t->mover.waits_for_passage() && (late || now >= t->passage_until)) {
      leave_passage(t);
    } else if (late && may_be_late(t->mover)) {
      give_up(t, {Code::kDeadlineExceeded, "the hand-over took too long"});
    } else if (t->waits_for_slots) {
      const Mover::Send again = *std::exchange(t->waits_for_slots, std::nullopt);
      send(t, {again});
    }
  }
}

void HandoverService::Impl::begin(const TransferPtr& t) {
  transfers_.emplace(t->id, t);
  const ParkedContext& parked = *t->job.parked;
  bool ends = false;
  {
    base::MutexLock lock(mu_);
    ends = stopping_;
  }
  if (ends) {
    if (t->job.ahead && t->job.from != nullptr) release_parked(*t->job.from, parked);
    return finish(t, {Code::kCancelled, "the hand-over service ends"}, false);
  }
  if (parked.hold == 0 || t->job.from == nullptr) {
    t->why = parked.hold == 0 ? Status(Code::kUnimplemented, "the source has kept no blocks")
                              : unavailable("the source is gone");
    return compute_again(t);
  }
  if (transfers_.size() > options_.transfers_max) {
    t->why = {Code::kResourceExhausted,
              "`transfers_max` is " + std::to_string(options_.transfers_max) +
                  ": as many hand-overs are under way"};
    return compute_again(t);
  }
  if (t->job.from == t->job.to && !t->job.ahead) {  // the blocks are where they are wanted
    GenerationRequest request = t->job.request;
    request.adopted_hold = parked.hold;
    return finish(t, t->job.to->submit(std::move(request), t->job.sink), true);
  }
  send(t, t->mover.start());
}

// A piece leaves its source once both sides have room for it: one that lay there, waiting for the other side, could
// wait for pieces that come from there and wait for it.
bool HandoverService::Impl::take_slots(Transfer& t) {
  AttachmentSlots& from = *t.job.parked->slots;
  if (!from.try_take()) return false;
  if (t.to_slots->try_take()) return t.has_from_slot = t.has_to_slot = true;
  from.give();
  return false;
}

void HandoverService::Impl::send(const TransferPtr& t, const Mover::Sends& sends) {
  for (const Mover::Send& each : sends) send_one(t, each);
  settle(t);
}

void HandoverService::Impl::send_one(const TransferPtr& t, const Mover::Send& each) {
  if (each.message.kind == Kind::kExport && !take_slots(*t)) {
    t->waits_for_slots = each;
    return;
  }
  const auto self = shared_from_this();
  switch (each.to) {
    case Mover::To::kTransport:
      return pass(t, each.message);
    case Mover::To::kGiver:
      return t->job.from->post([self, t, message = each.message](EngineCore& core) {
        self->ask_giver(core, t, message);
      });
    case Mover::To::kTaker:
      return t->job.to->post([self, t, message = each.message](EngineCore& core) {
        self->act_taker(core, t, t->taker.take(message, Clock::now()), {});
      });
  }
}

// An engine may be gone once nobody waits for the transfer any more. The slot is the export's until it is over.
void HandoverService::Impl::export_beside(const TransferPtr& t,
                                          const std::shared_ptr<const Export>& out) {
  if (!transfers_.contains(t->id)) return;
  t->has_from_slot = false;
  const TimePoint until = std::min(t->deadline, Clock::now() + options_.passage_timeout);
  carriers_.run([self = shared_from_this(), t, out, until] {
    const Status status = handover::export_all(*out, until);
    const bool told = self->post([self, t, out, status] { self->exported(t, out, status); });
    if (told) return;
    if (status.ok()) handover::forget(*out);
    t->job.parked->slots->give();
  });
}

void HandoverService::Impl::exported(const TransferPtr& t,
                                     const std::shared_ptr<const Export>& out,
                                     const Status& status) {
  if (!transfers_.contains(t->id)) {
    carriers_.run([t, out, made = status.ok()] {
      if (made) handover::forget(*out);
      t->job.parked->slots->give();
    });
    return;
  }
  t->has_from_slot = true;
  t->job.from->post([self = shared_from_this(), t, out, status](EngineCore& core) {
    self->act_giver(core, t, t->giver.copied(out->piece, status.ok() ? out->first : 0), status);
  });
}

void HandoverService::Impl::pass(const TransferPtr& t, const Message& exported) {
  const ParkedContext& parked = *t->job.parked;
  const std::uint32_t piece = exported.piece;
  t->passage_until = std::min(t->deadline, Clock::now() + options_.passage_timeout);
  const Passage passage{
      .piece = piece,
      .first = {.from = parked.runner.get(),
                .made = exported.attachment,
                .to = t->to_runner.get(),
                .as = t->first_attachment + std::uint64_t{piece} * parked.attachments_max,
                .until = t->passage_until},
      .n = is_hidden(parked, piece) ? 1 : t->attachments(0, piece, 0).size()};
  carriers_.run([self = shared_from_this(), t, passage] {
    const Result<std::uint64_t> n_bytes = handover::pass_all(*self->transport_, passage);
    const bool told =
        self->post([self, t, passage, n_bytes] { self->passed(t, passage, n_bytes); });
    if (!told && n_bytes.ok()) handover::forget(passage);
  });
}

// The slots are the passage's until it is over: what it brings lies there for a moment.
void HandoverService::Impl::leave_passage(const TransferPtr& t) {
  t->has_from_slot = t->has_to_slot = false;
  if (t->why.ok()) t->why = handover::too_late();
  send(t, t->mover.leave_passage());
}

void HandoverService::Impl::passed(const TransferPtr& t,
                                   const Passage& passage,
                                   const Result<std::uint64_t>& n_bytes) {
  if (!t->mover.waits_for_passage()) {  // any more
    carriers_.run([t, passage, came = n_bytes.ok()] {
      if (came) handover::forget(passage);
      t->job.parked->slots->give();
      t->to_slots->give();
    });
    return;
  }
  t->job.parked->slots->give();
  t->has_from_slot = false;
  if (n_bytes.ok()) {
    t->n_bytes += n_bytes.value();
    ++t->n_pieces;
  } else if (t->why.ok()) {
    t->why = n_bytes.status();
  }
  send(t, t->mover.passed(passage.piece, n_bytes.ok() ? passage.first.as : 0));
}

void HandoverService::Impl::heard(const TransferPtr& t,
                                  bool from_giver,
                                  const Message& message,
                                  const Status& why) {
  if (t->why.ok()) t->why = why;
  // Where it was given up amid a piece, that may still arrive there.
  if (!from_giver && t->has_to_slot && !t->has_from_slot) {
    t->to_slots->give();
    t->has_to_slot = false;
  }
  send(t, from_giver ? t->mover.from_giver(message) : t->mover.from_taker(message));
}

void HandoverService::Impl::give_up(const TransferPtr& t, Status why) {
  if (t->why.ok() || t->cancelled) t->why = std::move(why);
  t->waits_for_slots.reset();
  send(t, t->mover.abort());
}

// Once the mover knows how it ends.
void HandoverService::Impl::settle(const TransferPtr& t) {
  if (!t->mover.done() || !transfers_.contains(t->id)) return;
  if (t->mover.phase() == Mover::Phase::kMoved) return finish(t, {}, true);
  if (!t->cancelled) return compute_again(t);
  release_parked(*t->job.from, *t->job.parked);
  finish(t, t->why, false);
}

void HandoverService::Impl::compute_again(const TransferPtr& t) {
  if (t->job.ahead) {
    if (t->job.from != nullptr) release_parked(*t->job.from, *t->job.parked);
    return finish(t, t->why.ok() ? unavailable("the blocks did not pass") : t->why, false);
  }
  Status status = t->job.to->submit(t->job.request, t->job.sink);
  if (status.ok() && t->job.from != nullptr) release_parked(*t->job.from, *t->job.parked);
  finish(t, std::move(status), false);
}

void HandoverService::Impl::finish(const TransferPtr& t, Status status, bool moved) {
  if (transfers_.erase(t->id) == 0) return;
  if (std::exchange(t->has_from_slot, false)) t->job.parked->slots->give();
  if (std::exchange(t->has_to_slot, false)) t->to_slots->give();
  {
    base::MutexLock lock(mu_);
    --stats_.n_running;
    stats_.n_bytes += t->n_bytes;
    if (t->job.ahead) {
      stats_.n_bytes_ahead += t->n_bytes;
    } else {
      ++(!status.ok() ? stats_.n_failed : moved ? stats_.n_moved : stats_.n_recomputed);
    }
  }
  const bool has_moved = status.ok() && moved;
  t->done({.status = std::move(status),
           .moved = has_moved,
           .why_not = has_moved ? Status() : t->why,
           .n_pieces = t->n_pieces,
           .n_bytes = t->n_bytes,
           .duration = Clock::now() - t->began});
}

// ---- the engines' threads ----

void HandoverService::Impl::ask_giver(EngineCore& core,
                                      const TransferPtr& t,
                                      const Message& message) {
  const ParkedContext& parked = *t->job.parked;
  Status why;
  if (!core.transfers().holds(parked.hold) || core.runner_info().epoch != parked.incarnation) {
    act_giver(core, t, t->giver.end(), {});
    why = unavailable("the source does not hold the blocks any more");
  }
  act_giver(core, t, t->giver.take(message, Clock::now()), why);
}

void HandoverService::Impl::act_giver(EngineCore& core,
                                      const TransferPtr& t,
                                      const Actions& actions,
                                      const Status& why) {
  for (const Action& action : actions) {
    switch (action.kind) {
      case Action::Kind::kCopy:
        copy_out(core, t, action.piece);
        break;
      case Action::Kind::kForget:
        forget(core, *t, action.attachment);
        break;
      case Action::Kind::kClose:
        core.transfers().close(t->job.parked->hold);
        break;
      default:
        post([self = shared_from_this(), t, reply = action.reply, why] {
          self->heard(t, true, reply, why);
        });
    }
  }
}

void HandoverService::Impl::copy_out(EngineCore& core, const TransferPtr& t, std::uint32_t piece) {
  if (is_hidden(*t->job.parked, piece))
    return act_giver(core, t, t->giver.copied(piece, t->job.parked->hidden), {});
  const ParkedContext& parked = *t->job.parked;
  const std::uint64_t first = core.transfers().next_attachment();
  for (std::uint32_t i = 1; i < parked.attachments_max; ++i)
    static_cast<void>(core.transfers().next_attachment());
  std::vector<BlockPiece> all = t->attachments(parked.hold, piece, first);
  if (core.runner_info().capabilities.exports_beside && !core.counts_on_steps()) {
    auto out =
        std::make_shared<Export>(Export{.piece = piece, .first = first, .runner = core.runner()});
    for (const BlockPiece& each : all) out->blocks.push_back(core.transfers().lend(each));
    post([self = shared_from_this(), t, out = std::shared_ptr<const Export>(std::move(out))] {
      self->export_beside(t, out);
    });
    return;
  }
  move_all(core,
           *t->job.from,
           std::move(all),
           [self = shared_from_this(), t, piece, first](EngineCore& engine, const Status& status) {
             if (!status.ok()) forget(engine, *t, first);
             self->act_giver(engine, t, t->giver.copied(piece, status.ok() ? first : 0), status);
           });
}

void HandoverService::Impl::act_taker(EngineCore& core,
                                      const TransferPtr& t,
                                      const Actions& actions,
                                      const Status& why) {
  for (const Action& action : actions) {
    switch (action.kind) {
      case Action::Kind::kReserve: {
        std::uint32_t n_there = 0;
        const Status status = reserve(core, t, n_there);
        act_taker(core, t, t->taker.reserved(status.ok(), n_there), status);
        break;
      }
      case Action::Kind::kCopy:
        copy_in(core, t, action.piece, action.attachment);
        break;
      case Action::Kind::kBegin: {
        const Status status = begin_sequence(core, t);
        act_taker(core, t, t->taker.begun(status.ok()), status);
        break;
      }
      case Action::Kind::kForget:
        forget(core, *t, action.attachment);
        break;
      case Action::Kind::kClose:
        core.transfers().close(t->hold);
        break;
      case Action::Kind::kReply:
        post([self = shared_from_this(), t, reply = action.reply, why] {
          self->heard(t, false, reply, why);
        });
    }
  }
}

void HandoverService::Impl::copy_in(EngineCore& core,
                                    const TransferPtr& t,
                                    std::uint32_t piece,
                                    std::uint64_t attachment) {
  if (is_hidden(*t->job.parked, piece)) return compute_rest(core, t, piece, attachment);
  std::vector<BlockPiece> all = t->attachments(t->hold, piece, attachment);
  for (BlockPiece& in : all) {
    in.comes_in = true;
    in.done_when_submitted = t->job.parked->hidden != 0;
  }
  move_all(
      core,
      *t->job.to,
      std::move(all),
      [self = shared_from_this(), t, piece, attachment](EngineCore& engine, const Status& status) {
        if (!status.ok()) forget(engine, *t, attachment);
        self->act_taker(engine, t, t->taker.copied(piece, status.ok()), status);
      });
}

// As many layers a step as cost what a step of prompts may; what runs beside them has its steps in between.
void HandoverService::Impl::compute_rest(EngineCore& core,
                                         const TransferPtr& t,
                                         std::uint32_t piece,
                                         std::uint64_t hidden) {
  const std::uint32_t n_layers = core.runner_info().n_layers;
  const std::uint64_t of_a_step = std::uint64_t{core.prefill_tokens_max()} * n_layers;
  const std::uint64_t n = std::max<std::uint64_t>(of_a_step / t->split.spec->prompt.size(), 1);
  run_layers(core,
             {.prompt = t->split,
              .layers = {.begin = t->job.parked->layers, .end = n_layers},
              .hidden = hidden,
              .layers_a_step = static_cast<std::uint32_t>(std::min<std::uint64_t>(n, n_layers)),
              .done_when_submitted = true,
              .done = [self = shared_from_this(), t, piece](EngineCore& engine,
                                                            const Result<std::uint64_t>& computed) {
                const auto actions = t->taker.copied(piece, computed.ok());
                self->act_taker(engine, t, actions, computed.status());
              }});
}

Result<HeldPrefix> HandoverService::Impl::hold_split(EngineCore& core, Transfer& t) {
  const ParkedContext& parked = *t.job.parked;
  COXSWAIN_ASSIGN_OR_RETURN(t.split, begin_rest(core, t.job.request, parked));
  return HeldPrefix{.id = t.split.hold,
                    .n_blocks = t.split.n_blocks,
                    .first_blocks = std::vector<std::uint32_t>(parked.first_blocks.size(), 0)};
}

Status HandoverService::Impl::reserve(EngineCore& core,
                                      const TransferPtr& t,
                                      std::uint32_t& n_there) {
  const ParkedContext& parked = *t->job.parked;
  const GenerationRequest& request = t->job.request;
  BlockTransfers& transfers = core.transfers();
  COXSWAIN_RETURN_IF_ERROR(t->job.to->accepting());
  const KvLayout ours = kv_layout_of(core.runner_info());
  if (parked.layout == nullptr || *parked.layout != ours) {
    return {Code::kFailedPrecondition,
            "KV blocks of another layout: " +
                (parked.layout == nullptr ? "none is told"
                                          : difference(describe(*parked.layout), describe(ours)))};
  }
  if (parked.piece_blocks > transfers.piece_blocks_max()) {
    return {Code::kUnimplemented,
            "pieces of " + std::to_string(parked.piece_blocks) + " KV blocks; the runner takes " +
                std::to_string(transfers.piece_blocks_max()) + " as one attachment"};
  }
  std::vector<TokenId> ids = request.prompt;
  ids.insert(ids.end(), request.progress.ids.begin(), request.progress.ids.end());
  const std::size_t n_tokens = std::size_t{parked.n_blocks} * ours.block_tokens;
  const std::string identity = core.prefix_identity(request);
  if (n_tokens > ids.size() ||
      prefix_digest(identity, std::span(ids).first(n_tokens)) != parked.digest)
    return invalid_argument("the parked blocks are of another request");
  COXSWAIN_ASSIGN_OR_RETURN(
      const HeldPrefix held,
      parked.hidden != 0
          ? hold_split(core, *t)
          : transfers.hold_for_import(identity, ids, parked.n_blocks, 1, parked.until));
  if (held.first_blocks != parked.first_blocks || held.n_blocks != parked.n_blocks) {
    transfers.close(held.id);
    return {Code::kUnimplemented, "the windows of the KV groups begin at other blocks"};
  }
  t->hold = held.id;
  const std::uint32_t n_pieces = n_pieces_of(parked);
  n_there = n_block_pieces(parked) - base::ceil_div(parked.n_blocks - held.n_cached,
                                                    parked.piece_blocks * parked.attachments_max);
  t->n_blocks_there = held.n_cached;
  t->n_pieces_there = n_there;
  const std::uint64_t first = transfers.next_attachment();
  for (std::uint32_t i = 1; i < n_pieces * parked.attachments_max; ++i)
    static_cast<void>(transfers.next_attachment());
  // Behind this the reply is posted: the service's thread has all of it when it reads that.
  post([t, first, slots = transfers.slots(), runner = core.runner()] {
    t->to_slots = slots;
    t->to_runner = runner;
    t->first_attachment = first;
  });
  return {};
}

Status HandoverService::Impl::begin_sequence(EngineCore& core, const TransferPtr& t) {
  core.transfers().publish(t->hold, t->job.parked->n_blocks);
  if (t->job.ahead) {
    core.transfers().close(t->hold);
    return {};
  }
  GenerationRequest request = t->job.request;
  request.adopted_hold = t->hold;
  return t->job.to->submit(std::move(request), t->job.sink);
}

// ---- the door ----

HandoverService::HandoverService(HandoverOptions options, std::unique_ptr<BlockTransport> transport)
    : impl_(std::make_shared<Impl>(options, std::move(transport))) {
  impl_->run();
}

HandoverService::~HandoverService() {
  impl_->stop();
}

std::uint64_t HandoverService::start(HandoverJob job, Done done) {
  return impl_->start(std::move(job), std::move(done));
}

void HandoverService::cancel(std::uint64_t transfer) {
  impl_->cancel(transfer);
}

void HandoverService::limit(std::uint64_t transfer, TimePoint until) {
  impl_->limit(transfer, until);
}

HandoverStats HandoverService::stats() const {
  return impl_->stats();
}

void release_parked(Engine& engine, const ParkedContext& parked) {
  if (parked.hold == 0) return;
  engine.post([hold = parked.hold](EngineCore& core) { core.transfers().close(hold); });
}

}  // namespace coxswain::batch
