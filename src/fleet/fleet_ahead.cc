// Fleet: blocks of a prompt pass while it is still computed.
//
// The engine tells of them behind each chunk (GenerationRequest::on_blocks_ahead). What was told last goes to the
// replica that would be given the sequence if it were handed over now, one transfer of a prompt behind the other, and
// lies there as cached blocks do: nobody's, and gone where others need the room. So nothing is promised to a prompt
// that still has minutes to go, the hand-over behind the first token decides as ever, and it finds there what there is.

#include <algorithm>
#include <utility>

#include "fleet/fleet.h"

namespace coxswain::fleet {
namespace {

// On their way to one replica at once: what is handed over has its turn beside them.
constexpr std::size_t kAheadMax = 1;

}  // namespace

std::function<void(Fleet::Front)> Fleet::notes_ahead(const StayPtr& stay, std::size_t from) {
  return [this, weak = std::weak_ptr<Stay>(stay), from](Front front) {
    note_ahead(weak.lock(), from, std::move(front));
  };
}

// On the engine's thread.
void Fleet::note_ahead(const StayPtr& stay, std::size_t from, Front front) {
  base::MutexLock lock(mu_);
  if (ending_) return;
  const bool goes = stay != nullptr && stay->replica == from && !stay->recalled &&
                    !stay->request().cancelled && !(stay->ahead && stay->ahead->over);
  if (!goes) return batch::release_parked(*replicas_[from]->engine, *front);
  if (stay->ahead == nullptr) stay->ahead = std::make_shared<Ahead>(Ahead{.from = from});
  std::swap(stay->ahead->next, front);
  if (front != nullptr) batch::release_parked(*replicas_[from]->engine, *front);
  pass_ahead(stay);
}

// Unless some of it is under way, or who would go on with it has no room.
void Fleet::pass_ahead(const StayPtr& stay) {
  const std::shared_ptr<Ahead> ahead = stay->ahead;
  if (ahead->transfer != 0 || ahead->next == nullptr) return;
  const Front front = std::exchange(ahead->next, nullptr);
  const auto to = choose_ahead(stay, front);
  if (!to) return batch::release_parked(*replicas_[ahead->from]->engine, *front);
  ahead->to = to;
  ++replicas_[*to]->n_arriving;
  ++replicas_[*to]->n_ahead;
  ahead->transfer = handovers_->start(
      {.from = replicas_[ahead->from]->engine.get(),
       .to = replicas_[*to]->engine.get(),
       .parked = front,
       .request = stay->engine_request(RequestId{}),
       .ahead = true},
      [this, stay, ahead](const auto& result) { arrive_ahead(stay, ahead, result); });
}

// Where the whole prompt would go now, if anywhere, and nobody waits for room; never elsewhere than before.
std::optional<std::size_t> Fleet::choose_ahead(const StayPtr& stay, const Front& front) {
  const bool any_waits = std::ranges::any_of(
      waiting_, [](const auto& each) { return each.second->parked.context != nullptr; });
  if (any_waits) return std::nullopt;
  const auto whole = std::make_shared<batch::ParkedContext>(*front);
  whole->n_blocks = static_cast<std::uint32_t>(stay->request().request.prompt.size() /
                                               front->layout->block_tokens);
  Stay next(
      static_cast<batch::EventOutlet&>(*this), stay->request().shared_from_this(), stay->range());
  next.parked = {.replica = stay->ahead->from, .context = whole};
  next.ahead = stay->ahead;
  const auto to = choose(next);
  const auto& before = stay->ahead->to;
  if (!to || to == stay->ahead->from || (before && to != before) ||
      replicas_[*to]->n_ahead >= kAheadMax)
    return std::nullopt;
  return to;
}

// On the service's thread. What failed once, for want of room or whatever, is left to the hand-over.
void Fleet::arrive_ahead(const StayPtr& stay,
                         const std::shared_ptr<Ahead>& ahead,
                         const batch::HandoverResult& result) {
  StayPtr departed;
  if (parts_.metrics != nullptr) parts_.metrics->kv_handover_bytes.add(result.n_bytes);
  {
    base::MutexLock lock(mu_);
    Replica& replica = *replicas_[*ahead->to];
    --replica.n_ahead;
    if (--replica.n_arriving == 0) answered_.notify_all();
    ahead->transfer = 0;
    if (!result.status.ok()) {
      parts_.log.debug("no blocks pass ahead",
                       {{"reason", std::string_view(result.status.message())}});
      end_ahead(*ahead);
    }
    departed = std::exchange(ahead->departed, nullptr);
    if (stay->ahead == ahead && !ahead->over && !ending_) pass_ahead(stay);
    if (!waiting_.empty()) bell_.ring();
  }
  if (departed != nullptr) hand_over(departed);
}

// Nothing more passes but what is under way.
void Fleet::end_ahead(Ahead& ahead) {
  ahead.over = true;
  const Front next = std::exchange(ahead.next, nullptr);
  if (next != nullptr && !ending_) batch::release_parked(*replicas_[ahead.from]->engine, *next);
}

// Nor that: nobody goes on with it.
void Fleet::cancel_ahead(Stay& stay) {
  if (stay.ahead == nullptr) return;
  end_ahead(*stay.ahead);
  if (stay.ahead->transfer != 0 && !ending_) handovers_->cancel(stay.ahead->transfer);
}

}  // namespace coxswain::fleet
