#include "batch/engine_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "batch/engine_admission.h"

namespace coxswain::batch {
namespace {

// The first place in `running` behind all that come before `s`: higher priority, or the same and earlier.
std::vector<Sequence*>::iterator place_of(std::vector<Sequence*>& running, const Sequence& s) {
  const auto rank = [](const Sequence* r) {
    return std::pair(-std::int64_t{r->request.priority}, r->arrival);
  };
  return std::ranges::lower_bound(running, rank(&s), {}, rank);
}

}  // namespace

Status generation_error(const Status& cause) {
  return {cause.code(), ErrorKind::kGeneration, cause.message(), cause.field()};
}

EngineCore::EngineCore(std::shared_ptr<StepRunner> runner,
                       const EngineOptions& options,
                       const base::HashKey& key,
                       Hooks hooks)
    : runner_(std::move(runner)),
      options_(options),
      hash_key_(key),
      hooks_(std::move(hooks)),
      observer_(hooks_.observer != nullptr ? *hooks_.observer : silent_),
      stats_wanted_(observer_.stats_wanted()),
      scheduler_(options),
      dynamic_batch_(options.dynamic_batch),
      waiting_(options.overtakes_max,
               capacity_rules(options.policy, runner_->info().capabilities).prefers_short_prompts) {
  hear_early(this);
  start_cache();
}

EngineCore::~EngineCore() {
  hear_early(nullptr);
  transfers_.reset();
  tier_.reset();
  sequences_.clear();  // leases end before the cache
  gone_.clear();
}

void EngineCore::hear_early(EarlyResults* whom) {
  if (auto* source = dynamic_cast<EarlyResultsSource*>(runner_.get())) source->tell_early(whom);
}

void EngineCore::start_cache() {
  info_ = runner_->info();
  kvcache::KvCacheOptions cache = cache_options(info_, options_, hash_key_);
  cache.events = stats_wanted_.kv_events;
  if (options_.tier != nullptr) cache.tier_blocks = options_.tier->capacity();
  has_windows_ = std::ranges::any_of(
      cache.groups, [](const kvcache::KvGroupOptions& g) { return g.window_tokens > 0; });
  cache_tokens_ = 0;
  for (const kvcache::KvGroupOptions& g : cache.groups) {
    const std::uint64_t n_tokens = std::uint64_t{g.n_blocks} * cache.block_tokens;
    if (g.window_tokens == 0)
      cache_tokens_ = cache_tokens_ == 0 ? n_tokens : std::min(cache_tokens_, n_tokens);
  }
  const std::uint64_t first_hold = transfers_ != nullptr ? transfers_->next_hold() : 1;
  transfers_.reset();
  tier_.reset();
  cache_ = std::make_unique<kvcache::KvCache>(cache);
  // Ids of attachments are drawn apart from those of other engines over the same runner.
  transfers_ =
      std::make_unique<BlockTransfers>(*cache_, info_, hash_key_[1] / 2 + last_step_, first_hold);
  layer_steps_.restart();
  if (options_.tier != nullptr) start_tier();
  observer_.on_runner_up();
}

void EngineCore::start_tier() {
  tier_ = std::make_unique<TierDriver>(TierDriver::Parts{.tier = options_.tier,
                                                         .runner = runner_,
                                                         .cache = cache_.get(),
                                                         .transfers = transfers_.get(),
                                                         .serves = options_.tier->serves(info_),
                                                         .priority_min = options_.tier_priority_min,
                                                         .post = hooks_.post,
                                                         .may_be_admitted = [this](SequenceId id) {
                                                           const auto it =
                                                               sequences_.find(key_of(id));
                                                           if (it != sequences_.end())
                                                             it->second->onboarding = false;
                                                         }});
}

void EngineCore::add(GenerationRequest request,
                     const std::shared_ptr<TokenSink>& sink,
                     TimePoint queued_at) {
  const std::vector<std::uint64_t> more_seeds = std::exchange(request.more_seeds, {});
  if (more_seeds.empty()) {
    add_sequence(std::move(request), sink, queued_at);
    return;
  }
  const auto siblings = std::make_shared<Siblings>();
  for (std::size_t i = 0; i <= more_seeds.size(); ++i) {
    GenerationRequest one = request;
    if (i > 0) one.sampling.seed = more_seeds[i - 1];
    Sequence& s = add_sequence(std::move(one), sink, queued_at);
    s.index = static_cast<std::uint32_t>(i);
    s.siblings = siblings;
    siblings->open.push_back(&s);
  }
}

Sequence& EngineCore::add_sequence(GenerationRequest request,
                                   std::shared_ptr<TokenSink> sink,
                                   TimePoint queued_at) {
  auto s = std::make_unique<Sequence>();
  s->id = SequenceId{next_sequence_++};
  s->arrival = next_arrival_++;
  s->sink = std::move(sink);
  s->queued_at = s->scheduled_at = queued_at;
  s->n_prompt = static_cast<std::uint32_t>(request.prompt.size());
  s->n_new_max = request.context_only ? static_cast<std::uint32_t>(request.progress.ids.size()) + 1
                                      : request.stopping.max_new_tokens;
  s->n_spare = spare_positions(info_);
  s->wants_prompt = request.prompt_logprobs || request.outputs.any_context();
  s->wants_more = s->wants_prompt || request.outputs.any();
  s->tokens = std::exchange(request.prompt, {});
  const Progress before = std::exchange(request.progress, {});
  s->tokens.insert(s->tokens.end(), before.ids.begin(), before.ids.end());
  s->cumulative_logprob = before.cumulative_logprob;
  s->prompt_sent = !before.empty();
  s->request = std::move(request);
  if (!s->request.context_only) s->request.on_blocks_ahead = {};
  s->identity = cache_identity(info_, s->request, s->n_prompt + s->request.stopping.max_new_tokens);
  s->table_sent.assign(cache_->n_groups(), 0);
  s->beams = begin_beams(s->request);
  for (const auto& limit : {s->request.queue_deadline, s->request.deadline}) {
    if (limit) deadlines_.emplace(*limit, s->id);
  }
  ++stats_.accepted;
  ++n_never_scheduled_;
  insert_waiting(*s);
  by_request_[key_of(s->request.id)] = s.get();
  return *(sequences_[key_of(s->id)] = std::move(s));
}

void EngineCore::cancel(RequestId id) {
  const auto it = by_request_.find(key_of(id));
  if (it == by_request_.end()) return;
  cancel_request(*it->second, {Code::kCancelled, "the request was cancelled"});
  finish_call();
}

void EngineCore::cancel_request(Sequence& s, const Status& why) {
  const auto siblings = s.siblings;  // each that ends leaves it
  const auto open = siblings ? siblings->open : std::vector<Sequence*>{&s};
  for (Sequence* each : open) {
    TokenEvent event;
    event.status = why;
    end(*each, Outcome::kCancelled, std::move(event));
  }
}

void EngineCore::cancel_all(const Status& why) {
  std::vector<Sequence*> all;
  all.reserve(sequences_.size());
  for (const auto& [id, s] : sequences_) all.push_back(s.get());
  std::ranges::sort(all, {}, &Sequence::arrival);
  for (Sequence* s : all) {
    TokenEvent event;
    event.status = why;
    end(*s, Outcome::kCancelled, std::move(event));
  }
  finish_call();
}

void EngineCore::advance(TimePoint now) {
  cache_->advance(now);
  note_stalls(now);
  transfers_->expire(now);
  while (!deadlines_.empty() && now >= deadlines_.begin()->first) {
    const SequenceId late = deadlines_.begin()->second;
    end_late(*sequences_.at(key_of(late)), now);
  }
  finish_call();
}

// Who has never run has nothing that a client could read.
void EngineCore::note_stalls(TimePoint now) {
  std::vector<Sequence*> silent;  // for too long
  any_running_stalled_ = false;
  for (std::size_t i = running_.size(); i-- > 0;)
    any_running_stalled_ |= note_stall(*running_[i], now, silent);
  if (now >= next_look_at_paused_) {
    next_look_at_paused_ = now + kStallPoll;
    any_paused_stalled_ = false;
    for (const auto& [arrival, s] : waiting_.paused())
      any_paused_stalled_ |= note_stall(*s, now, silent);
  }
  for (Sequence* s : silent) {
    cancel_request(
        *s,
        {Code::kCancelled,
         "the client did not read for " + std::to_string(options_.stall_timeout.count()) + " ms"});
  }
}

// True while the client does not read, unless it is to be given up.
bool EngineCore::note_stall(Sequence& s, TimePoint now, std::vector<Sequence*>& silent) {
  s.stalled = s.sink->stalled();
  if (!s.stalled) {
    s.stalled_since.reset();
    return false;
  }
  if (!s.stalled_since) s.stalled_since = now;
  const auto since = now - *s.stalled_since;
  if (since >= options_.stall_timeout) {
    silent.push_back(&s);
    return false;
  }
  const bool can_pause = info_.capabilities.grows_blocks && info_.capabilities.selects_rows;
  if (since >= options_.sequence_idle_max && can_pause && s.state == SequenceState::kRunning &&
      s.goes_on()) {
    pause(s, now);
  }
  return true;
}

void EngineCore::end_late(Sequence& s, TimePoint now) {
  if (s.request.deadline && now >= *s.request.deadline) {
    fail(s,
         {Code::kDeadlineExceeded,
          ErrorKind::kDeadline,
          "the time limit of the request has passed"});
  } else {
    fail(s,
         {Code::kDeadlineExceeded,
          ErrorKind::kQueueTimeout,
          "the request waited too long for its turn"});
  }
}

void EngineCore::insert_waiting(Sequence& s) {
  s.n_waiting_tokens = waiting_tokens(s.request, s.tokens.size());
  stats_.queued_tokens += s.n_waiting_tokens;
  waiting_.insert(s);
}

void EngineCore::insert_running(Sequence& s) {
  running_.insert(place_of(running_, s), &s);
}

void EngineCore::leave_lists(Sequence& s) {
  if (s.state == SequenceState::kRunning) {
    running_.erase(place_of(running_, s));
    return;
  }
  stats_.queued_tokens -= s.n_waiting_tokens;
  waiting_.erase(s);
  if (s.state != SequenceState::kWaiting) return;
  --n_never_scheduled_;
  if (s.request.queue_deadline && s.request.queue_deadline != s.request.deadline)
    deadlines_.erase({*s.request.queue_deadline, s.id});
}

// Folds what was produced into the context: tokens already holds it. The lease goes, the id stays.
void EngineCore::pause(Sequence& s, TimePoint now) {
  leave_lists(s);
  if (tier_ != nullptr) tier_->offload_paused(s, step_cost_, now);
  s.tier_asked = false;
  s.lease.reset();
  restart_beams(s);
  s.state = SequenceState::kPaused;
  s.planned = s.computed = 0;
  s.table_sent.assign(cache_->n_groups(), 0);
  insert_waiting(s);
  any_paused_stalled_ |= s.stalled;
  ++stats_.pauses;
  ++n_paused_;
  observer_.on_pause(s.request.id);
}

void EngineCore::tell_kv_events() {
  if (!cache_->has_events()) return;
  std::vector<KvEvent> events = cache_->take_events();
  for (KvEvent& event : events) event.id = ++last_kv_event_;
  observer_.on_kv_events(events);
}

void EngineCore::finish_call() {
  tell_kv_events();
  tell_events();
  gone_.clear();
}

void EngineCore::tell_events() {
  std::vector<SinkEvent> events = std::move(events_);
  for (std::size_t begin = 0, end = 0; begin < events.size(); begin = end) {
    EventOutlet* const outlet = events[begin].sink->outlet();
    end = begin + 1;
    if (outlet == nullptr) {
      events[begin].sink->on_event(std::move(events[begin].event));
      continue;
    }
    while (end < events.size() && events[end].sink->outlet() == outlet) ++end;
    outlet->on_events(std::span(events).subspan(begin, end - begin));
  }
  events.clear();
  events_ = std::move(events);  // for its room
}

// Nothing is known about the runner any more: what it held is gone, what had started fails, what
// waits goes on waiting.
void EngineCore::lose_runner(const Status& status) {
  runner_up_ = false;
  stats_.layers_ready = 0;
  steps_.clear();
  cache_->retire(last_step_);
  fail_transfers(status);
  for (const auto& [id, s] : sequences_) s->n_in_flight = s->n_pending = s->n_pending_extra = 0;
  while (!running_.empty()) fail(*running_.back(), generation_error(status));
  std::vector<Sequence*> ending;
  for (const auto& [id, s] : sequences_) {
    s->known_to_runner = false;
    if (s->state == SequenceState::kEnding) ending.push_back(s.get());
  }
  for (Sequence* s : ending) retire(*s);
  dropped_.clear();
  tells_drops_ = false;
  observer_.on_runner_lost(status);
}

void EngineCore::replace_runner(std::shared_ptr<StepRunner> runner) {
  if (runner_up_)
    lose_runner({Code::kUnavailable, ErrorKind::kUnavailable, "the runner was replaced"});
  hear_early(nullptr);
  runner_ = std::move(runner);
  hear_early(this);
  start_cache();
  // What the new runner does not take fails the requests that name it, when they do.
  static_cast<void>(attachments_.resend(*runner_));
  runner_up_ = true;
  const auto waiting = waiting_.in_order();
  for (const auto& [rank, s] : waiting) {
    s->identity =
        cache_identity(info_, s->request, s->n_prompt + s->request.stopping.max_new_tokens);
    s->table_sent.assign(cache_->n_groups(), 0);
    s->prefix_memo = {};  // of the former cache
    s->onboarding = s->tier_asked = false;
    const auto prompt = std::span(s->tokens).first(s->n_prompt);
    if (Status status = admissible(info_, options_, s->request, prompt); !status.ok())
      fail(*s, std::move(status));
  }
  finish_call();
  observer_.on_runner_replaced(n_sequences());
}

EngineStats EngineCore::stats() const {
  EngineStats out = stats_;
  out.queued = static_cast<std::uint32_t>(waiting_.size());
  // Those about to be answered too.
  out.running = static_cast<std::uint32_t>(n_sequences() - waiting_.size());
  out.runner_up = runner_up_;
  if (tier_ != nullptr) out.tier = tier_->stats();
  for (std::size_t g = 0; g < cache_->n_groups(); ++g) {
    const kvcache::BlockCounts& counts = cache_->counts(g);
    out.blocks_total += counts.total;
    out.blocks_free += counts.free;
    out.blocks_cached += counts.cached;
    out.blocks_leased += counts.leased;
    out.blocks_retiring += counts.retiring;
  }
  return out;
}

void EngineCore::observe_state() {
  if (hooks_.observer == nullptr) return;
  EngineState state{.stats = stats(), .queued = waiting_.by_priority()};
  state.batch_sequences = static_cast<std::uint32_t>(running_.size());
  for (const Sequence* s : running_) state.batch_tokens_max += s->tokens_max();
  if (cache_->n_groups() > 0)
    state.cache_tokens_total = std::uint64_t{cache_->counts(0).total} * cache_->block_tokens();
  observer_.on_state(state);
}

}  // namespace coxswain::batch
