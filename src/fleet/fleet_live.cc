// Fleet: a replica whose weights still arrive helps those that have all of theirs (live_target.h, plan/zigzag.h).
//
// Prompts wait in the fleet. The replica that loads computes first layers of the earliest of them; one that has all
// layers takes what waits in order, as ever, and of a prompt that was begun it computes the other layers alone: the
// hand-over brings it what there is. While anybody loads who helps, the others are given a prompt when they have none
// waiting. Nothing else goes to a replica that loads, unless it is all that there is.

#include <algorithm>
#include <chrono>
#include <utility>

#include "fleet/fleet.h"

namespace coxswain::fleet {
namespace {

// How long a target may take to give a prompt, at most a layer; then it is computed from its beginning.
constexpr std::chrono::seconds kTakingMax{10};

}  // namespace

// Or refractory.
bool Fleet::is_loading(std::size_t replica) const {
  const auto& live = replicas_[replica]->live;
  return live != nullptr && live->loads();
}

// One whose runner has just come is asked first: a whole request would keep that runner until the last layer has come.
bool Fleet::may_load(std::size_t replica) const {
  const Replica& r = *replicas_[replica];
  const bool is_new = r.live != nullptr && !r.live->is_known() && r.n_stays == 0;
  return is_new || is_loading(replica);
}

// It may help.
bool Fleet::is_target(std::size_t replica) const {
  return is_loading(replica) && serves(replica) && computes_prompts(replicas_[replica]->role);
}

bool Fleet::any_target() const {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (is_target(i)) return true;
  return false;
}

bool Fleet::any_whole() const {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (serves(i) && !may_load(i)) return true;
  return false;
}

// To whole requests, where anybody or nobody has all layers.
bool Fleet::is_open(std::size_t replica, bool any_whole) const {
  return serves(replica) && !(any_whole && may_load(replica));
}

bool Fleet::stays_with_target(const Stay& stay) const {
  if (!stay.live || !serves(stay.live->replica)) return false;
  const auto prompt = replicas_[stay.live->replica]->live->prompt(stay.live->id);
  return prompt == LiveTarget::Prompt::kKept || prompt == LiveTarget::Prompt::kFinished;
}

bool Fleet::is_finished(const Stay& stay) const {
  return stay.live && serves(stay.live->replica) &&
         replicas_[stay.live->replica]->live->prompt(stay.live->id) ==
             LiveTarget::Prompt::kFinished;
}

// REQUIRES: it has boarded. False: the whole prompt is computed there.
bool Fleet::takes_from_target(const Stay& stay) {
  if (!stay.live) return false;
  const auto prompt = replicas_[stay.live->replica]->live->prompt(stay.live->id);
  if (prompt == LiveTarget::Prompt::kQueued || prompt == LiveTarget::Prompt::kGone) return false;
  // One that goes on itself has to have all layers of it.
  return stay.replica != stay.live->replica || prompt == LiveTarget::Prompt::kFinished;
}

// REQUIRES: takes_from_target().
void Fleet::take(const StayPtr& stay) {
  const LivePrompt live = *std::exchange(stay->live, std::nullopt);
  stay->undivided = true;  // if it comes back
  ++replicas_[*stay->replica]->n_arriving;
  const std::uint64_t number = next_taking_++;
  taking_.emplace(number, Taking{.stay = stay, .until = Clock::now() + kTakingMax});
  replicas_[live.replica]->live->take(
      live.id, [this, number, from = live.replica](const LiveTarget::Parked& parked) {
        taken(number, from, parked);
      });
}

// On the target's engine thread.
void Fleet::taken(std::uint64_t number, std::size_t from, const LiveTarget::Parked& parked) {
  base::MutexLock lock(mu_);
  const auto found = taking_.find(number);
  if (found == taking_.end()) {  // too late
    if (parked != nullptr && !ending_) batch::release_parked(*replicas_[from]->engine, *parked);
    return;
  }
  const Taking taking = std::move(found->second);
  taking_.erase(found);
  --replicas_[*taking.stay->replica]->n_arriving;
  if (ending_) {
    vacate(*taking.stay);
    return wait(taking.stay);
  }
  taking.stay->parked = {.replica = from, .context = parked};
  begin_transfer(taking.stay, true);
}

void Fleet::give_up_taking(TimePoint now) {
  for (auto at = taking_.begin(); at != taking_.end();) {
    const Taking taking = at->second;
    if (now < taking.until) {
      ++at;
      continue;
    }
    at = taking_.erase(at);
    --replicas_[*taking.stay->replica]->n_arriving;
    begin_transfer(taking.stay, true);
  }
}

void Fleet::forget_live(Stay& stay) {
  const auto live = std::exchange(stay.live, std::nullopt);
  if (live && !ending_) replicas_[live->replica]->live->forget(live->id);
}

// Returns when it is to be called again; TimePoint::max(): when the bell rings.
TimePoint Fleet::follow_loads(TimePoint now) {
  TimePoint next = TimePoint::max();
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i]->live != nullptr && serves(i))
      next = std::min(next, replicas_[i]->live->follow(now));
  give_up_taking(now);
  for (const auto& [number, taking] : taking_) next = std::min(next, taking.until);
  for (const auto& [rank, stay] : waiting_) {
    const auto& live = stay->live;
    if (!live || replicas_[live->replica]->live->prompt(live->id) != LiveTarget::Prompt::kGone)
      continue;
    stay->live.reset();
    stay->undivided = true;
  }
  return next;
}

// Not where somebody with all layers has had half of the prompt lately: a prompt that is divided finds nothing cached.
bool Fleet::may_be_divided(const Stay& stay) const {
  const bool waits_whole = stay.is_prompt() && stay.parked.context == nullptr && !stay.via &&
                           !stay.live && !stay.undivided && !stay.request().cancelled;
  if (!waits_whole) return false;
  const auto known = hints_.longest(stay.request().prefix_keys);
  return !known || !is_open(known->replica, true) ||
         known->n_tokens < stay.request().request.prompt.size() / 2;
}

// What waits for somebody with all layers, in order, as far as targets have room. Whether they have got anything.
bool Fleet::feed_targets(TimePoint now) {
  bool any = false;
  if (ending_ || waiting_.empty() || !any_whole()) return false;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (!is_target(i)) continue;
    LiveTarget& target = *replicas_[i]->live;
    std::size_t n_room = target.room(now);
    for (const auto& [rank, stay] : waiting_) {
      if (n_room == 0) break;
      if (!may_be_divided(*stay)) continue;
      stay->live = {.replica = i, .id = target.begin(stay->engine_request(RequestId{}))};
      --n_room;
      any = true;
    }
  }
  return any;
}

// What a target has finished goes on there. False if none has gone.
bool Fleet::place_finished() {
  std::vector<StayPtr> finished;
  {
    base::MutexLock lock(mu_);
    for (const auto& [rank, stay] : waiting_)
      if (is_finished(*stay)) finished.push_back(stay);
  }
  bool any = false;
  for (const StayPtr& stay : finished) any = place_waiting(stay) || any;
  return any;
}

void Fleet::count_divided(const Transfer& transfer, const batch::HandoverResult& result) {
  if (!transfer.divided || !result.status.ok()) return;
  if (!result.moved) {
    ++divided_.n_recomputed;
  } else if (transfer.parked.context->layers == 0) {
    ++divided_.n_finished;
  } else {
    ++divided_.n_moved;
    divided_.n_layers += transfer.parked.context->layers;
  }
}

}  // namespace coxswain::fleet
