// Fleet: who does what, changed while it serves: roles, and replicas that are to have nothing.
//
// A sequence leaves its replica by a recall: its engine cancels it, and what the client would be told becomes its next
// stay (fleet.cc). One whose blocks can move goes back there for one more token, which finds them in the cache, and is
// handed over behind it; every other one is computed again where it goes on.

#include <algorithm>
#include <string>

#include "fleet/fleet.h"

namespace coxswain::fleet {

Status Fleet::check_replica(std::size_t replica) const {
  if (replica < replicas_.size()) return {};
  return invalid_argument("`replica` must be below " + std::to_string(replicas_.size()) +
                              ", given " + std::to_string(replica),
                          "replica");
}

// It can be given work.
bool Fleet::serves(std::size_t replica) const {
  return replicas_[replica]->drain.phase == DrainPhase::kNo &&
         replicas_[replica]->engine->stats().runner_up;
}

bool Fleet::any_serves() const {
  return any_other_serves(replicas_.size());
}

bool Fleet::any_other_serves(std::size_t replica) const {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (i != replica && serves(i)) return true;
  return false;
}

bool Fleet::others_serve(const Stay& stay) const {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if ((stay.refused >> i & 1) == 0 && serves(i)) return true;
  return false;
}

bool Fleet::has_roles() const {
  return handovers_ != nullptr && std::ranges::any_of(replicas_, [](const auto& replica) {
           return replica->role != Role::kMixed;
         });
}

Status Fleet::set_role(std::size_t replica, Role role) {
  COXSWAIN_RETURN_IF_ERROR(check_replica(replica));
  base::MutexLock lock(mu_);
  Replica& r = *replicas_[replica];
  if (r.role == role) return {};
  if (role == Role::kNone) return invalid_argument("`role` must not be none", "role");
  COXSWAIN_RETURN_IF_ERROR(options_.no_roles);
  // Of those that are to serve, and of this one, which may come back to it.
  std::vector<Role> roles;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (i == replica) {
      roles.push_back(role);
    } else if (replicas_[i]->drain.phase == DrainPhase::kNo) {
      roles.push_back(replicas_[i]->role);
    }
  }
  if (!none_serves_.ok()) COXSWAIN_RETURN_IF_ERROR(check_roles(roles));
  parts_.log.info("a replica has another role",
                  {{"replica", std::uint64_t{replica}},
                   {"from", name_of(r.role)},
                   {"to", name_of(role)},
                   {"requests", std::uint64_t{r.n_stays}}});
  r.role = role;
  if (!generates(role)) recall_generating(replica);
  for (const auto& [rank, stay] : waiting_) stay->apart = is_apart(*stay);
  bell_.ring();
  return {};
}

Status Fleet::begin_drain(std::size_t replica, TimePoint deadline) {
  COXSWAIN_RETURN_IF_ERROR(check_replica(replica));
  base::MutexLock lock(mu_);
  const bool may_be_last = none_serves_.ok() && requests_.empty();
  if (!any_other_serves(replica) && !may_be_last) {
    return {Code::kFailedPrecondition,
            ErrorKind::kValidation,
            "`replica` " + std::to_string(replica) + " is the last that serves",
            "replica"};
  }
  drain_from(replica, deadline);
  return {};
}

void Fleet::drain_from(std::size_t replica, TimePoint deadline) {
  Replica& r = *replicas_[replica];
  if (r.drain.phase == DrainPhase::kMigrating) return;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  parts_.log.info("a replica is drained",
                  {{"replica", std::uint64_t{replica}},
                   {"role", name_of(r.role)},
                   {"requests", std::uint64_t{r.n_stays}},
                   {"deadline_ms", std::int64_t{left.count()}}});
  r.drain = {.phase = DrainPhase::kWaiting, .deadline = deadline};
  r.moved_on = false;
  for (const auto& [rank, stay] : waiting_) stay->apart = is_apart(*stay);
  bell_.ring();
}

Status Fleet::cancel_drain(std::size_t replica) {
  COXSWAIN_RETURN_IF_ERROR(check_replica(replica));
  base::MutexLock lock(mu_);
  Replica& r = *replicas_[replica];
  if (r.drain.phase == DrainPhase::kNo) return {};
  parts_.log.info("a replica is drained no more",
                  {{"replica", std::uint64_t{replica}},
                   {"role", name_of(r.role)},
                   {"requests", std::uint64_t{r.n_stays}}});
  open(replica);
  return {};
}

void Fleet::open(std::size_t replica) {
  Replica& r = *replicas_[replica];
  r.drain = {};
  r.moved_on = false;
  for (const auto& [rank, stay] : waiting_) stay->apart = is_apart(*stay);
  bell_.ring();
}

Status Fleet::admit(std::size_t replica, Role role) {
  COXSWAIN_RETURN_IF_ERROR(check_replica(replica));
  base::MutexLock lock(mu_);
  Replica& r = *replicas_[replica];
  if (!options_.no_roles.ok() && role != Role::kMixed) {
    parts_.log.warn("a replica that has come is mixed",
                    {{"replica", std::uint64_t{replica}},
                     {"reason", std::string_view(options_.no_roles.message())}});
    role = Role::kMixed;
  }
  parts_.log.info("a replica has come",
                  {{"replica", std::uint64_t{replica}},
                   {"role", name_of(role)},
                   {"requests", std::uint64_t{r.n_stays}}});
  r.role = role;
  if (!generates(role)) recall_generating(replica);
  // Its engine may be about to get the runner that it has come with.
  if (r.live != nullptr) r.live->restarted();
  open(replica);
  return {};
}

Status Fleet::dismiss(std::size_t replica) {
  COXSWAIN_RETURN_IF_ERROR(check_replica(replica));
  base::MutexLock lock(mu_);
  drain_from(replica, Clock::now());
  return {};
}

void Fleet::when_none_serves(const Status& door) {
  base::MutexLock lock(mu_);
  none_serves_ = door;
  turns_away_ = !door.ok();
  bell_.ring();
}

Status Fleet::when_none_serves() const {
  base::MutexLock lock(mu_);
  return none_serves_;
}

// What an engine owes a client of a runner that cannot go on behind tokens ends where it is.
bool Fleet::can_recall(const Stay& stay) const {
  return stay.replica && !stay.recalled && !stay.request().cancelled &&
         replicas_[*stay.replica]->resumes;
}

// REQUIRES: it has a replica. One on its way there, or on its way into the engine, is cancelled when it is in it.
void Fleet::recall(const StayPtr& stay, bool hands_on) {
  stay->recalled = true;
  stay->hands_on = hands_on;
  replicas_[*stay->replica]->engine->cancel(stay->engine_id);
}

// What a replica generates that is to do so no more, if there is somebody who does.
void Fleet::recall_generating(std::size_t replica) {
  bool any = false;
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    any = any || (i != replica && serves(i) && generates(replicas_[i]->role));
  if (!any) return;
  for (const auto& [id, request] : requests_) {
    for (const StayPtr& stay : request->stays) {
      const bool alone = stay->range().n == 1 && !request->is_beams();
      if (stay->replica == replica && alone && !stay->parks && can_recall(*stay))
        recall(stay, true);
    }
  }
}

void Fleet::recall_all(std::size_t replica, bool hands_on) {
  for (const auto& [id, request] : requests_) {
    for (const StayPtr& stay : request->stays) {
      // What is about to be handed on anyway gets the time to be.
      const bool leaves = hands_on && stay->parks;
      if (stay->replica == replica && !leaves && can_recall(*stay)) recall(stay, hands_on);
    }
  }
}

// What has come to its deadline. Where nobody else serves it stays, and is looked at again when somebody does.
void Fleet::drain_replicas(TimePoint now) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    Replica& r = *replicas_[i];
    const bool due = r.drain.phase != DrainPhase::kNo && !r.moved_on && now >= r.drain.deadline;
    if (!due || !any_other_serves(i)) continue;
    const bool first = r.drain.phase == DrainPhase::kWaiting;
    if (first) {
      r.drain = {.phase = DrainPhase::kMigrating, .deadline = now + options_.migrate_grace};
    } else {
      r.moved_on = true;
    }
    if (r.n_stays > 0) {
      parts_.log.info(first ? "what a drained replica has is handed on"
                            : "what a drained replica has is computed elsewhere",
                      {{"replica", std::uint64_t{i}}, {"requests", std::uint64_t{r.n_stays}}});
    }
    recall_all(i, first);
  }
}

}  // namespace coxswain::fleet
