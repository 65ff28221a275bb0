// Fleet: where a sequence goes, and how it gets there.

#include <algorithm>
#include <array>
#include <utility>

#include "fleet/fleet.h"

namespace coxswain::fleet {
namespace {

// An engine is given more while fewer of its requests wait than this, or fewer of their tokens than a step computes.
constexpr std::uint32_t kWaitingInEngineMax = 4;
// How many more sequences than the others a replica may have and still get those that it has the beginning of.
constexpr std::uint32_t kUnfairnessMax = 4;
// How long a replica keeps the blocks of a prompt that another one is to go on with.
constexpr std::chrono::seconds kParkedMax{15};
// How long a hand-over waits for what passes ahead of it.
constexpr std::chrono::milliseconds kAheadLeftMax{2'500};
// What hand-overs took lately, so many of them, says what the next one takes.
constexpr std::uint64_t kTransfersMin = 4;
constexpr std::chrono::seconds kTransferBelieved{10};

// Whether what comes in finds room, as far as blocks tell; where nothing leaves, nothing is to be waited for.
bool has_blocks_for(const Parked& parked, const batch::EngineStats& stats) {
  if (parked.context == nullptr || parked.context->layout == nullptr) return true;
  const std::size_t n_groups = parked.context->layout->groups.size();
  return stats.blocks_leased == 0 ||
         stats.blocks_free + stats.blocks_cached >= parked.context->n_blocks * n_groups;
}

}  // namespace

bool Fleet::can_be_apart(const Stay& stay) const {
  return !ending_ && has_roles() && stay.is_prompt() &&
         stay.request().request.prompt.size() >= options_.apart_tokens_min;
}

// Whether its prompt is to be computed by one replica for another one, as things are.
bool Fleet::is_apart(const Stay& stay) const {
  if (!can_be_apart(stay)) return false;
  if (options_.disaggregation == Disaggregation::kStatic) return true;
  const auto prompt = prompt_case(stay);
  if (!prompt) return false;
  const bool apart = pays_apart(*prompt);
  parts_.log.debug("where a prompt is computed",
                   {{"apart", apart},
                    {"token_us", prompt->token_seconds * 1e6},
                    {"transfer_ms", prompt->transfer_seconds * 1e3},
                    {"tokens", prompt->together.own_tokens},
                    {"generating", prompt->together.n_generating},
                    {"waiting_together", prompt->together.waiting_tokens},
                    {"waiting_apart", prompt->apart.waiting_tokens}});
  return apart;
}

// Between the replica that would compute it, of those that do nothing else, and the one that would generate. Empty if
// there is none of either.
std::optional<PromptCase> Fleet::prompt_case(const Stay& stay) const {
  std::optional<PromptSite> together;
  std::optional<PromptSite> apart;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (!serves(i) || is_loading(i)) continue;
    const PromptSite site = site_of(i, stay);
    if (generates(replicas_[i]->role)) {
      if (!together || site.n_generating < together->n_generating) together = site;
    } else if (!apart || site.waiting_tokens < apart->waiting_tokens) {
      apart = site;
    }
  }
  if (!together || !apart) return std::nullopt;
  PromptCase out{.together = *together, .apart = *apart};
  {
    base::MutexLock lock(cost_mu_);
    out.token_seconds = prompt_cost_.slope();
  }
  // Until something is known it is tried.
  const bool known =
      Clock::now() - last_transfer_ < kTransferBelieved && transfer_cost_.n_seen() >= kTransfersMin;
  if (known) {
    out.transfer_seconds =
        transfer_cost_.at(static_cast<double>(stay.request().request.prompt.size()));
  }
  return out;
}

PromptSite Fleet::site_of(std::size_t replica, const Stay& stay) const {
  const Replica& r = *replicas_[replica];
  const batch::EngineStats stats = r.engine->stats();
  PromptSite out{.own_tokens = stay.request().request.prompt.size()};
  const auto known = hints_.longest(stay.request().prefix_keys);
  if (known && known->replica == replica)
    out.own_tokens -= std::min<std::uint64_t>(out.own_tokens, known->n_tokens);
  if (generates(r.role)) {
    out.waiting_tokens = stats.queued_tokens;
    out.n_generating = stats.running + stats.queued + r.n_arriving;
  } else {
    out.waiting_tokens = r.n_apart_tokens;
  }
  return out;
}

bool Fleet::suits(const Replica& replica, const Stay& stay) {
  return stay.apart ? computes_prompts(replica.role) : generates(replica.role);
}

bool Fleet::has_room(const Replica& replica,
                     const batch::EngineStats& stats,
                     const Stay& stay) const {
  if (replicas_.size() == 1) return true;
  const bool moves =
      stay.parked.context != nullptr && &replica != replicas_[stay.parked.replica].get();
  if (moves && (replica.n_arriving >= kArrivingMax || !has_blocks_for(stay.parked, stats)))
    return false;
  const std::size_t queued = stats.queued + replica.n_submitting;
  // While somebody computes first layers, prompts wait here, and come with all the layers that it had time for.
  if (stay.is_prompt() && any_target()) return queued == 0 && replica.n_arriving == 0;
  return queued < kWaitingInEngineMax || stats.queued_tokens < replica.step_prompt_tokens;
}

// Whether whoever has its blocks computes one more token and hands it on; it is known to go elsewhere then.
bool Fleet::may_go_via(const Stay& stay) const {
  const std::size_t via = *stay.via;
  const Replica& replica = *replicas_[via];
  const bool leaves =
      !generates(replica.role) || (replica.drain.phase != DrainPhase::kNo && !replica.moved_on);
  return leaves && (stay.refused >> via & 1) == 0 && replica.engine->stats().runner_up &&
         any_other_serves(via);
}

// The replica with the fewest sequences; or, not far behind it, the one that has the beginning of the prompt.
std::optional<std::size_t> Fleet::choose(const Stay& stay) const {
  std::optional<std::size_t> best;
  std::uint32_t least = 0;
  if (stay.via && may_go_via(stay)) return stay.via;
  if (is_finished(stay)) return stay.live->replica;
  const bool whole = any_whole();
  bool any_suits = false;
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    any_suits = any_suits || (is_open(i, whole) && suits(*replicas_[i], stay));
  std::vector<std::optional<std::uint32_t>> loads(replicas_.size());
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = *replicas_[i];
    const batch::EngineStats stats = replica.engine->stats();
    const bool refused = (stay.refused >> i & 1) != 0;
    if (!is_open(i, whole) || refused || !has_room(replica, stats, stay)) continue;
    if (any_suits && !suits(replica, stay)) continue;
    const std::size_t coming = replica.n_arriving + replica.n_submitting;
    const auto load = stats.running + stats.queued + static_cast<std::uint32_t>(coming);
    loads[i] = load;
    if (best && load >= least) continue;
    best = i;
    least = load;
  }
  // Part of its blocks is there.
  const auto ahead = stay.ahead != nullptr ? stay.ahead->to : std::nullopt;
  if (ahead && loads[*ahead] && *loads[*ahead] <= least + kUnfairnessMax) return ahead;
  const auto hinted = hints_.replica_of(stay.request().prefix_keys);
  if (hinted && loads[*hinted] && *loads[*hinted] <= least + kUnfairnessMax) return hinted;
  return best;
}

// Chooses a replica and gives it the stay, on paper.
std::optional<std::size_t> Fleet::board(const StayPtr& stay) {
  const auto replica = choose(*stay);
  if (!replica) return std::nullopt;
  wait_no_more(*stay);
  stay->replica = replica;
  stay->engine_id = RequestId{next_engine_id_++};
  {
    base::MutexLock lock(begun_mu_);
    begun_.emplace(static_cast<std::uint64_t>(stay->engine_id), false);
  }
  stay->recalled = stay->hands_on = false;
  stay->parks = stay->parked.context == nullptr &&
                (stay->via == replica || (stay->apart && !generates(replicas_[*replica]->role)));
  ++replicas_[*replica]->n_stays;
  if (stay->apart) replicas_[*replica]->n_apart_tokens += stay->request().request.prompt.size();
  // Where the prompt is computed; others begin there, too.
  if (stay->parked.context == nullptr) hints_.note(stay->request().prefix_keys, *replica);
  return replica;
}

// The engine is asked without the lock: it looks at every token.
Fleet::Placement Fleet::place(const StayPtr& stay) {
  Status last;
  {
    base::MutexLock lock(mu_);
    stay->refused = 0;
    stay->apart = is_apart(*stay);
  }
  while (true) {
    std::optional<std::size_t> replica;
    batch::GenerationRequest request;
    {
      base::MutexLock lock(mu_);
      if (stay->request().cancelled) return {Placed::kRefused, was_cancelled()};
      replica = board(stay);
      if (!replica) {
        // One was lost between the look and the submission, and the others are full: it waits for these.
        const bool waits = last.ok() || (last.code() == Code::kUnavailable &&
                                         (others_serve(*stay) || none_serves_.ok()));
        return {waits ? Placed::kNoRoom : Placed::kRefused, last};
      }
      if (stay->parked.context != nullptr) {
        begin_transfer(stay);
        return {};
      }
      n_together_ += !stay->apart && can_be_apart(*stay) ? 1 : 0;
      if (takes_from_target(*stay)) {
        take(stay);
        return {};
      }
      forget_live(*stay);
      request = stay->engine_request(stay->engine_id);
      if (stay->parks) {
        request.context_only = kParkedMax;
        if (stay->is_prompt()) request.on_blocks_ahead = notes_ahead(stay, *replica);
      }
      ++replicas_[*replica]->n_submitting;
    }
    const RequestId id = request.id;
    batch::Engine& engine = *replicas_[*replica]->engine;
    Status status = engine.submit(std::move(request), stay);
    base::MutexLock lock(mu_);
    --replicas_[*replica]->n_submitting;
    if (status.ok()) {
      // The notice came between the look and the submission.
      if (stay->request().cancelled || stay->recalled) engine.cancel(id);
      return {};
    }
    vacate(*stay);
    stay->refused |= std::uint64_t{1} << *replica;
    last = std::move(status);
  }
}

// It is in no engine any more.
void Fleet::vacate(Stay& stay) {
  Replica& replica = *replicas_[*stay.replica];
  --replica.n_stays;
  if (stay.apart) replica.n_apart_tokens -= stay.request().request.prompt.size();
  stay.replica.reset();
  base::MutexLock lock(begun_mu_);
  begun_.erase(static_cast<std::uint64_t>(stay.engine_id));
}

void Fleet::wait(const StayPtr& stay) {
  stay->apart = is_apart(*stay);
  enqueue(stay);
  if (parts_.on_work && !ending_ && !any_serves()) parts_.on_work();
  bell_.ring();
}

void Fleet::enqueue(const StayPtr& stay) {
  const bool is_new = waiting_.emplace(stay->rank(), stay).second;
  if (is_new) ++waiting_by_priority_.of(stay->request().request.priority);
  note_waiting();
}

void Fleet::wait_no_more(const Stay& stay) {
  const bool was_there = waiting_.erase(stay.rank()) > 0;
  if (was_there) --waiting_by_priority_.of(stay.request().request.priority);
  note_waiting();
}

void Fleet::note_waiting() {
  any_waiting_.store(!waiting_.empty(), std::memory_order_relaxed);
  if (!queue_part_) return;
  const batch::QueuedByPriority& queued = waiting_by_priority_;
  queue_part_->set(queued.low, queued.normal, queued.high);
}

// What is to be computed apart, what is not, and what is handed on wait for different replicas: the first of each is
// tried. False if none has gone.
bool Fleet::place_first() {
  std::array<StayPtr, 3> heads;
  {
    base::MutexLock lock(mu_);
    const bool several = has_roles() || std::ranges::any_of(replicas_, [](const auto& replica) {
                           return replica->drain.phase != DrainPhase::kNo && !replica->moved_on;
                         });
    for (const auto& [rank, stay] : waiting_) {
      if (stays_with_target(*stay)) continue;
      StayPtr& head = heads[stay->via ? 2 : stay->apart ? 1 : 0];
      if (head == nullptr) head = stay;
      const bool all = std::ranges::none_of(heads, [](const auto& h) { return h == nullptr; });
      if (!several || all) break;
    }
  }
  bool any = false;
  for (const StayPtr& head : heads) any = (head != nullptr && place_waiting(head)) || any;
  return any;
}

// False: it waits on.
bool Fleet::place_waiting(const StayPtr& stay) {
  const Placement placement = place(stay);
  if (placement.placed == Placed::kYes) return true;
  std::vector<batch::SinkEvent> events;
  {
    base::MutexLock lock(mu_);
    const Code code = placement.refusal.code();
    const bool waits_on = placement.placed == Placed::kNoRoom || code == Code::kUnavailable ||
                          code == Code::kResourceExhausted;
    const bool cancelled = stay->request().cancelled;
    if (waits_on && !cancelled) {
      enqueue(stay);
      return false;
    }
    end_waiting(stay, cancelled ? was_cancelled() : placement.refusal, events);
  }
  forward_events(events);
  return true;
}

// ---- hand-over

// A sequence whose prompt is computed goes to whoever goes on; its blocks are kept while none has room for it.
void Fleet::hand_over(const StayPtr& stay) {
  base::MutexLock lock(mu_);
  if (stay->ahead != nullptr && stay->ahead->transfer != 0) {
    stay->ahead->departed = stay;
    if (!ending_) handovers_->limit(stay->ahead->transfer, Clock::now() + kAheadLeftMax);
    return;
  }
  const bool others_first = !waiting_.empty() && waiting_.begin()->first < stay->rank();
  const bool goes = !ending_ && !stay->request().cancelled && !others_first && board(stay);
  if (!goes) return wait(stay);
  begin_transfer(stay);
}

// REQUIRES: it has boarded.
void Fleet::begin_transfer(const StayPtr& stay, bool divided) {
  const Transfer transfer{.stay = stay,
                          .parked = std::exchange(stay->parked, {}),
                          .to = *stay->replica,
                          .divided = divided};
  ++replicas_[transfer.to]->n_arriving;
  batch::GenerationRequest request = stay->engine_request(stay->engine_id);
  if (stay->parks) request.context_only = kParkedMax;
  stay->transfer =
      handovers_->start({.from = replicas_[transfer.parked.replica]->engine.get(),
                         .to = replicas_[transfer.to]->engine.get(),
                         .parked = transfer.parked.context,
                         .request = std::move(request),
                         .sink = stay},
                        [this, transfer](const auto& result) { arrive(transfer, result); });
}

// On the service's thread: an engine has the sequence, or it waits for one that computes all again.
void Fleet::arrive(const Transfer& transfer, const batch::HandoverResult& result) {
  const StayPtr& stay = transfer.stay;
  count(result);
  base::MutexLock lock(mu_);
  count_divided(transfer, result);
  if (result.status.ok() && result.moved && !transfer.divided) note_transfer(transfer, result);
  if (--replicas_[transfer.to]->n_arriving == 0) answered_.notify_all();
  stay->transfer = 0;
  if (result.status.ok()) {
    if ((stay->request().cancelled || stay->recalled) && stay->replica)
      replicas_[*stay->replica]->engine->cancel(stay->engine_id);
    if (!waiting_.empty()) bell_.ring();
    return;
  }
  vacate(*stay);
  stay->parked = transfer.parked;
  drop_parked(*stay);
  wait(stay);
}

// Nobody goes on with it.
void Fleet::drop_parked(Stay& stay) {
  const Parked parked = std::exchange(stay.parked, {});
  if (parked.context != nullptr && !ending_)
    batch::release_parked(*replicas_[parked.replica]->engine, *parked.context);
}

void Fleet::count(const batch::HandoverResult& result) const {
  if (!result.status.ok()) return;
  if (!result.moved) {
    parts_.log.debug("a prompt is computed again",
                     {{"reason", std::string_view(result.why_not.message())}});
  }
  if (parts_.metrics == nullptr) return;
  (result.moved ? parts_.metrics->kv_handovers : parts_.metrics->kv_handovers_recomputed).add();
  parts_.metrics->kv_handover_bytes.add(result.n_bytes);
  if (result.moved)
    parts_.metrics->kv_handover_duration.observe(
        std::chrono::duration<double>(result.duration).count());
}

void Fleet::note_transfer(const Transfer& transfer, const batch::HandoverResult& result) {
  const batch::ParkedContext& moved = *transfer.parked.context;
  if (moved.layout == nullptr) return;
  const TimePoint now = Clock::now();
  if (now - last_transfer_ >= kTransferBelieved) transfer_cost_ = {};
  transfer_cost_.observe(static_cast<double>(moved.n_blocks) * moved.layout->block_tokens,
                         std::chrono::duration<double>(result.duration).count());
  last_transfer_ = now;
}

void Fleet::note_prompts(const batch::StepFinished& step) {
  const auto took = step.timings.total.count() > 0 ? step.timings.total : step.duration;
  base::MutexLock lock(cost_mu_);
  prompt_cost_.observe(step.n_prompt_tokens, std::chrono::duration<double>(took).count());
}

}  // namespace coxswain::fleet
