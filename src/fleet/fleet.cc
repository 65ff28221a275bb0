#include "fleet/fleet.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/thread_name.h"

namespace coxswain::fleet {
namespace {

// Figures of the first stay that a step had count for the client.
void note_life(SequenceLife& life, const batch::TokenEvent& event) {
  if (!life.was_scheduled && event.scheduled_at != event.queued_at) {
    life.was_scheduled = true;
    life.scheduled_at = event.scheduled_at;
    life.n_cached_prompt_tokens = event.n_cached_prompt_tokens;
  }
  if (life.first_token_at == TimePoint{}) life.first_token_at = event.first_token_at;
  life.drafts += event.drafts;
}

// The client is told of its request, whatever engines it was in.
void tell_life(const Stay& stay, batch::TokenEvent& event) {
  const SequenceLife& life = stay.life_of(event);
  event.queued_at = stay.request().queued_at;
  if (life.was_scheduled) {
    event.scheduled_at = life.scheduled_at;
    event.n_cached_prompt_tokens = life.n_cached_prompt_tokens;
  } else if (event.scheduled_at < event.queued_at) {
    event.scheduled_at = event.queued_at;
  }
  if (life.first_token_at != TimePoint{}) event.first_token_at = life.first_token_at;
}

Status shutting_down(Code code) {
  return {code, ErrorKind::kUnavailable, "the server is shutting down"};
}

Status queue_full(std::string_view limit, std::uint64_t value) {
  return {
      Code::kResourceExhausted,
      ErrorKind::kOverloaded,
      "`" + std::string(limit) + "` is " + std::to_string(value) + ": as many are waiting already"};
}

std::uint64_t key_of(RequestId id) {
  return static_cast<std::uint64_t>(id);
}

std::uint64_t n_prompt_tokens(const batch::GenerationRequest& request) {
  return std::uint64_t{request.n_sequences()} * request.prompt.size();
}

}  // namespace

Fleet::Fleet(const std::vector<FleetMember>& members,
             const FleetOptions& options,
             Parts parts,
             std::unique_ptr<BlockTransport> transport)
    : options_(options), parts_(std::move(parts)) {
  if (parts_.metrics != nullptr) queue_part_.emplace(*parts_.metrics);
  replicas_.reserve(members.size());
  if (members.size() > 1 && options_.no_roles.ok()) {
    handovers_ =
        std::make_unique<batch::HandoverService>(batch::HandoverOptions{}, std::move(transport));
  }
  for (const FleetMember& member : members) replicas_.push_back(make_replica(member));
  thread_ = std::thread([this] {
    base::name_thread("fleet");
    loop();
  });
}

Fleet::~Fleet() {
  std::vector<batch::SinkEvent> events;
  {
    base::MutexLock lock(mu_);
    draining_ = ending_ = true;
  }
  stop_ = true;
  bell_.ring();
  thread_.join();
  handovers_.reset();
  for (auto& replica : replicas_) replica->engine.reset();
  {
    base::MutexLock lock(mu_);
    while (!waiting_.empty()) {
      const StayPtr stay = waiting_.begin()->second;
      end_waiting(stay, shutting_down(Code::kCancelled), events);
    }
  }
  forward_events(events);
}

std::unique_ptr<Fleet::Replica> Fleet::make_replica(const FleetMember& member) {
  auto replica = std::make_unique<Replica>();
  const auto ring_if_any_waits = [this] {
    if (any_waiting_.load(std::memory_order_relaxed)) bell_.ring();
  };
  replica->observer = std::make_unique<ReplicaObserver>(
      member.observer,
      ReplicaObserver::Notices{.on_state = ring_if_any_waits,
                               .on_lost = [this] { bell_.ring(); },
                               .on_replaced =
                                   [this, r = replica.get()] {
                                     r->incarnation.fetch_add(1);
                                     if (r->live != nullptr) r->live->restarted();
                                     bell_.ring();
                                   },
                               .on_prompts = [this](const auto& step) { note_prompts(step); },
                               .on_admitted = [this](RequestId id) { note_admitted(id); }});
  replica->step_prompt_tokens = member.step_prompt_tokens;
  replica->resumes = member.resumes;
  replica->role = member.role;
  if (!member.present) {
    replica->drain.phase = DrainPhase::kMigrating;
    replica->moved_on = true;
    replica->incarnation = 0;
  }
  replica->engine = member.make_engine(*replica->observer);
  if (handovers_ != nullptr)
    replica->live = std::make_shared<LiveTarget>(*replica->engine, [this] { bell_.ring(); });
  return replica;
}

Status Fleet::submit(batch::GenerationRequest request, std::shared_ptr<batch::TokenSink> sink) {
  const auto owned = std::make_shared<FleetRequest>(std::move(request), std::move(sink));
  if (replicas_.size() > 1) owned->prefix_keys = hints_.keys(owned->request);
  const auto n_answers = static_cast<std::uint32_t>(owned->lives.size());
  const auto stay = std::make_shared<Stay>(
      static_cast<batch::EventOutlet&>(*this), owned, StayRange{.first = 0, .n = n_answers});
  {
    base::MutexLock lock(mu_);
    COXSWAIN_RETURN_IF_ERROR(check_taken(owned->request));
    owned->arrival = next_arrival_++;
    note_arrival(*owned);
    const bool others_first = !waiting_.empty() && waiting_.begin()->first < stay->rank();
    if (replicas_.size() > 1 && others_first) {
      COXSWAIN_RETURN_IF_ERROR(check_room(owned->request));
      requests_[key_of(owned->request.id)] = owned;
      owned->stays.push_back(stay);
      wait(stay);
      return {};
    }
    requests_[key_of(owned->request.id)] = owned;
    owned->stays.push_back(stay);
  }
  const Placement placement = place(stay);
  if (placement.placed == Placed::kYes) return {};
  base::MutexLock lock(mu_);
  Status refusal = placement.refusal;
  if (placement.placed == Placed::kNoRoom) {
    refusal = check_room(owned->request);
    if (refusal.ok()) wait(stay);
  }
  if (!refusal.ok()) {
    requests_.erase(key_of(owned->request.id));
    owned->stays.clear();
    answered_.notify_all();
  }
  return refusal;
}

Status Fleet::check_taken(const batch::GenerationRequest& request) const {
  if (draining_) return shutting_down(Code::kUnavailable);
  if (requests_.contains(key_of(request.id))) {
    return {Code::kFailedPrecondition,
            ErrorKind::kInternal,
            "a request with this id is still being served"};
  }
  return any_serves() ? Status() : none_serves_;
}

Status Fleet::check_room(const batch::GenerationRequest& request) const {
  std::uint64_t n_waiting = request.n_sequences();
  std::uint64_t n_tokens = n_prompt_tokens(request);
  for (const auto& replica : replicas_) {
    const batch::EngineStats stats = replica->engine->stats();
    n_waiting += stats.queued;
    n_tokens += stats.queued_tokens;
  }
  for (const auto& [rank, stay] : waiting_) {
    n_waiting += stay->range().n;
    n_tokens += n_prompt_tokens(stay->request().request);
  }
  if (n_waiting > options_.queue_requests_max)
    return queue_full("queue_requests_max", options_.queue_requests_max);
  if (n_tokens > options_.queue_tokens_max)
    return queue_full("queue_tokens_max", options_.queue_tokens_max);
  return {};
}

void Fleet::cancel(RequestId id) {
  base::MutexLock lock(mu_);
  const auto found = requests_.find(key_of(id));
  if (found == requests_.end() || found->second->cancelled) return;
  found->second->cancelled = true;
  for (const StayPtr& stay : found->second->stays) {
    if (stay->transfer != 0 && handovers_ && !ending_) handovers_->cancel(stay->transfer);
    cancel_ahead(*stay);
    if (stay->replica) replicas_[*stay->replica]->engine->cancel(stay->engine_id);
  }
  bell_.ring();  // for those that wait
}

bool Fleet::drain(std::chrono::milliseconds grace) {
  const TimePoint end = Clock::now() + grace;
  {
    base::MutexLock lock(mu_);
    draining_ = true;
    const auto all_done = [this]() REQUIRES(mu_) {
      return requests_.empty() && std::ranges::all_of(replicas_, [](const auto& replica) {
               return replica->n_arriving == 0;
             });
    };
    if (!answered_.wait_until(lock, end, all_done)) return false;
  }
  for (const auto& replica : replicas_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (!replica->engine->drain(std::max(left, std::chrono::milliseconds(0)))) return false;
  }
  return true;
}

FleetStatus Fleet::status() const {
  FleetStatus out;
  base::MutexLock lock(mu_);
  for (const auto& replica : replicas_) {
    out.replicas.push_back({.stats = replica->engine->stats(),
                            .role = replica->role,
                            .incarnation = replica->incarnation.load(),
                            .n_stays = replica->n_stays,
                            .n_arriving = replica->n_arriving,
                            .drain = replica->drain,
                            .live = replica->live ? replica->live->state() : LiveTarget::State{}});
  }
  for (const auto& [id, request] : requests_) {
    for (const StayPtr& stay : request->stays)
      if (stay->replica && stay->parks) ++out.replicas[*stay->replica].n_for_others;
  }
  for (const auto& [rank, stay] : waiting_) {
    if (stay->via) ++out.replicas[*stay->via].n_leaving;
    if (stay->parked.context != nullptr) ++out.replicas[stay->parked.replica].n_leaving;
  }
  out.n_requests = requests_.size();
  out.n_waiting = waiting_.size();
  for (const auto& [rank, stay] : waiting_) out.n_resuming += stay->n_losses > 0 ? 1 : 0;
  out.n_resumed = n_resumed_;
  if (handovers_) out.handovers = handovers_->stats();
  out.n_together = n_together_;
  out.divided = divided_;
  return out;
}

std::vector<RequestPlace> Fleet::places() const {
  base::MutexLock lock(mu_);
  base::MutexLock begun_lock(begun_mu_);
  std::vector<RequestPlace> out;
  out.reserve(requests_.size());
  for (const auto& [id, request] : requests_) {
    std::set<std::size_t> replicas;
    bool running = false;
    for (const StayPtr& stay : request->stays) {
      if (!stay->replica) continue;
      replicas.insert(*stay->replica);
      const auto begun = begun_.find(key_of(stay->engine_id));
      running = running || (begun != begun_.end() && begun->second);
    }
    out.push_back({request->request.id, {replicas.begin(), replicas.end()}, running});
  }
  return out;
}

// Probes have ids of their own.
void Fleet::note_admitted(RequestId engine_id) {
  base::MutexLock lock(begun_mu_);
  const auto found = begun_.find(key_of(engine_id));
  if (found != begun_.end()) found->second = true;
}

// ---- what engines say

void Fleet::on_events(std::span<batch::SinkEvent> events) {
  std::size_t n = 0;
  std::vector<StayPtr> departed;
  for (batch::SinkEvent& e : events) {
    const auto stay = std::static_pointer_cast<Stay>(std::move(e.sink));
    if (e.event.parked != nullptr) departed.push_back(depart(*stay, e.event));
    if (!passes(*stay, e.event)) continue;
    e.event.sequence += stay->range().first;
    e.sink = stay->request().sink;
    if (&events[n] != &e) events[n] = std::move(e);
    ++n;
  }
  forward_events(events.first(n));
  // Behind the first token, so that nothing overtakes it.
  for (const StayPtr& stay : departed) hand_over(stay);
}

// The prompt is computed. Its event becomes one of many, and the sequence has its next stay, which nobody sees yet.
Fleet::StayPtr Fleet::depart(Stay& stay, batch::TokenEvent& event) {
  FleetRequest& request = stay.request();
  event.final = false;
  base::MutexLock lock(mu_);
  note_life(stay.life_of(event), event);
  auto next = std::make_shared<Stay>(
      static_cast<batch::EventOutlet&>(*this), request.shared_from_this(), stay.range());
  next->n_losses = stay.n_losses;
  next->parked = {.replica = *stay.replica, .context = std::exchange(event.parked, nullptr)};
  next->ahead = std::exchange(stay.ahead, nullptr);
  if (next->ahead != nullptr) end_ahead(*next->ahead);
  request.stays.push_back(next);
  --stay.n_open;
  leave_engine(stay);
  return next;
}

// Whether the client is told.
bool Fleet::passes(Stay& stay, batch::TokenEvent& event) {
  if (!event.final) {
    if (!event.whole) stay.note(event);
    tell_life(stay, event);
    return true;
  }
  base::MutexLock lock(mu_);
  --stay.n_open;
  const bool stays_alive = goes_on(stay, event);
  const std::size_t replica = *stay.replica;
  if (stay.n_open == 0) leave_engine(stay);
  if (!stays_alive) return answer(stay, event);
  go_on(stay, event, replica);
  return false;
}

bool Fleet::goes_on(const Stay& stay, const batch::TokenEvent& event) const {
  const FleetRequest& request = stay.request();
  if (event.status.ok() || ending_ || request.cancelled) return false;
  const bool lost =
      event.status.code() == Code::kUnavailable && event.status.kind() == ErrorKind::kGeneration;
  const bool recalled = stay.recalled && event.status.code() == Code::kCancelled;
  if (!lost && !recalled) return false;
  if (lost && stay.n_losses >= options_.resumes_max) return false;
  return stay.life_of(event).progress.empty() || replicas_.front()->resumes;
}

void Fleet::leave_engine(Stay& stay) {
  cancel_ahead(stay);
  vacate(stay);
  std::erase_if(stay.request().stays, [&](const StayPtr& s) { return s.get() == &stay; });
}

// The sequence waits for its next stay, in front: its arrival is that of its request. Beams go on together.
void Fleet::go_on(Stay& stay, const batch::TokenEvent& event, std::size_t replica) {
  FleetRequest& request = stay.request();
  note_life(stay.life_of(event), event);
  if (request.is_beams() && stay.n_open > 0) return;
  const std::uint32_t sequence = stay.range().first + event.sequence;
  const StayRange range = request.is_beams() ? stay.range() : StayRange{.first = sequence, .n = 1};
  const auto next = std::make_shared<Stay>(
      static_cast<batch::EventOutlet&>(*this), request.shared_from_this(), range);
  const bool lost = event.status.code() == Code::kUnavailable;
  next->n_losses = stay.n_losses + (lost ? 1 : 0);
  if (lost) {
    ++n_resumed_;
    if (parts_.metrics != nullptr) parts_.metrics->request_resumes.add();
  }
  if (stay.hands_on && stay.recalled && !lost && handovers_ != nullptr && next->can_move())
    next->via = replica;
  request.stays.push_back(next);
  wait(next);
}

// The final event of a sequence, on its way to the client.
bool Fleet::answer(Stay& stay, batch::TokenEvent& event) {
  FleetRequest& request = stay.request();
  tell_life(stay, event);
  event.drafts += stay.life_of(event).drafts;
  if (request.cancelled && !event.status.ok()) event.status = was_cancelled();
  note_latency(request, event);
  if (--request.n_open == 0) {
    requests_.erase(key_of(request.request.id));
    if (requests_.empty()) answered_.notify_all();
  }
  return true;
}

// ---- what waits

void Fleet::loop() {
  while (!stop_) bell_.wait(look());
}

// Returns how long nothing is to be done, unless the bell rings.
std::optional<std::chrono::milliseconds> Fleet::look() {
  const TimePoint now = Clock::now();
  std::vector<batch::SinkEvent> events;
  std::optional<TimePoint> next;
  {
    base::MutexLock lock(mu_);
    recall_from_lost();
    drain_replicas(now);
    const TimePoint follows = follow_loads(now);
    if (follows != TimePoint::max()) next = follows;
    events = end_overdue(now);
  }
  forward_events(events);
  while (!stop_ && place_first()) {
  }
  while (!stop_ && place_finished()) {
  }
  base::MutexLock lock(mu_);
  if (feed_targets(now))
    next = std::min(next.value_or(TimePoint::max()), now + LiveTarget::kAskWaiting);
  for (const auto& replica : replicas_) {
    const bool ticks = replica->drain.phase != DrainPhase::kNo && !replica->moved_on;
    if (ticks && replica->drain.deadline > now)
      next = std::min(replica->drain.deadline, next.value_or(replica->drain.deadline));
  }
  for (const auto& [rank, stay] : waiting_) {
    const auto deadline = stay->deadline();
    if (deadline) next = std::min(*deadline, next.value_or(*deadline));
  }
  if (!next) return std::nullopt;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// What waits in the engine of a replica that is away is served by others, if there are any.
void Fleet::recall_from_lost() {
  std::vector<bool> away;
  away.reserve(replicas_.size());
  for (const auto& replica : replicas_) away.push_back(!replica->engine->stats().runner_up);
  const auto n_away = static_cast<std::size_t>(std::ranges::count(away, true));
  for (std::size_t i = 0; i < away.size(); ++i)
    if (away[i]) hints_.forget(i);
  if (n_away == 0 || n_away == away.size()) return;
  for (const auto& [id, request] : requests_) {
    for (const StayPtr& stay : request->stays) {
      if (!stay->replica || !away[*stay->replica] || stay->recalled) continue;
      recall(stay, false);
    }
  }
}

std::vector<batch::SinkEvent> Fleet::end_overdue(TimePoint now) {
  std::vector<std::pair<StayPtr, Status>> over;
  const bool all = std::exchange(turns_away_, false) && !any_serves();
  for (const auto& [rank, stay] : waiting_) {
    const auto& last = stay->request().request.deadline;
    if (stay->request().cancelled) {
      over.emplace_back(stay, was_cancelled());
    } else if (all) {
      over.emplace_back(stay, none_serves_);
    } else if (last && now >= *last) {
      over.emplace_back(stay,
                        Status(Code::kDeadlineExceeded,
                               ErrorKind::kDeadline,
                               "the time limit of the request has passed"));
    } else if (const auto deadline = stay->deadline(); deadline && now >= *deadline) {
      over.emplace_back(stay,
                        Status(Code::kDeadlineExceeded,
                               ErrorKind::kQueueTimeout,
                               "the request waited too long for its turn"));
    }
  }
  std::vector<batch::SinkEvent> events;
  for (const auto& [stay, why] : over) end_waiting(stay, why, events);
  return events;
}

// REQUIRES: no engine has it, and `stay` is not the pointer in `waiting_`, which goes.
void Fleet::end_waiting(const StayPtr& stay,
                        const Status& why,
                        std::vector<batch::SinkEvent>& events) {
  wait_no_more(*stay);
  FleetRequest& request = stay->request();
  std::erase(request.stays, stay);
  drop_parked(*stay);
  forget_live(*stay);
  for (std::uint32_t i = 0; i < stay->range().n; ++i) {
    batch::TokenEvent event;
    event.sequence = i;
    event.final = true;
    event.status = why;
    event.queued_at = event.scheduled_at = request.queued_at;
    const SequenceLife& life = stay->life_of(event);
    event.n_generated = static_cast<std::uint32_t>(life.progress.ids.size());
    event.cumulative_logprob = life.progress.cumulative_logprob;
    answer(*stay, event);
    event.sequence += stay->range().first;
    events.push_back({request.sink, std::move(event)});
  }
}

}  // namespace coxswain::fleet
