#include "batch/engine_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/fatal.h"
#include "batch/plan_size.h"
#include "request/retention_rules.h"
#include "request/sampling_rules.h"

namespace coxswain::batch {
namespace {

// Blocks of a group that may be leased: block 0 is not, and batch_total_tokens_max is an upper bound.
std::uint32_t usable_blocks(const KvGroup& group,
                            std::uint32_t block_tokens,
                            const EngineOptions& options) {
  const std::uint32_t n = group.n_blocks > 0 ? group.n_blocks - 1 : 0;
  if (options.batch_total_tokens_max == 0) return n;
  return std::min(n, options.batch_total_tokens_max / block_tokens);
}

kvcache::KvCacheOptions cache_options(const RunnerInfo& info,
                                      const EngineOptions& options,
                                      const base::HashKey& key) {
  kvcache::KvCacheOptions out{.block_tokens = info.block_tokens,
                              .prefix_caching = options.prefix_caching,
                              .partial_reuse = options.partial_reuse && info.capabilities.moves,
                              .hash_key = key};
  // A recurrent state is one value that moves on; there is nothing to find at an earlier position.
  for (const KvGroup& group : info.kv_groups) {
    if (group.kind == KvGroup::Kind::kState) out.prefix_caching = false;
  }
  // A window that no sequence can outgrow is no window.
  for (const KvGroup& group : info.kv_groups) {
    const bool bounded = group.kind == KvGroup::Kind::kWindow &&
                         (info.max_total_tokens == 0 || group.window < info.max_total_tokens);
    out.groups.push_back({.n_blocks = usable_blocks(group, info.block_tokens, options),
                          .window_tokens = bounded ? group.window : 0,
                          .sink_tokens = group.sink_tokens});
  }
  return out;
}

void append(std::string& out, std::string_view part) {
  const auto size = static_cast<std::uint64_t>(part.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(part);
}

// Everything besides the tokens that decides what a cached block holds. Each part carries its length.
std::string cache_identity(const RunnerInfo& info,
                           const GenerationRequest& request,
                           std::uint32_t rope_length) {
  std::uint32_t variant = 0;  // the short one
  if (info.rope_switch_length > 0 && rope_length > info.rope_switch_length) {
    variant = info.rope_length_is_exact ? rope_length : 1;
  }
  std::string out;
  append(out, info.kernel_set_id);
  append(out, request.adapter_digest);
  append(out, request.cache_salt);
  append(out, {reinterpret_cast<const char*>(&variant), sizeof variant});
  return out;
}

Status refuse(std::string_view field, std::string message) {
  return invalid_argument(std::move(message), std::string(field));
}

// What the runner itself takes, whatever the cache holds.
Status check_lengths(const RunnerInfo& info, std::uint64_t n_prompt, std::uint64_t n_new) {
  if (n_prompt == 0) return refuse(kPromptField, "the prompt must have at least one token");
  if (n_new == 0) return refuse(kMaxNewTokensField, "the number of new tokens must be at least 1");
  if (info.max_input_tokens > 0 && n_prompt > info.max_input_tokens) {
    return refuse(kPromptField,
                  "the prompt has " + std::to_string(n_prompt) + " tokens, the runner takes " +
                      std::to_string(info.max_input_tokens));
  }
  if (info.max_total_tokens > 0 && n_prompt + n_new > info.max_total_tokens) {
    return refuse(n_prompt < info.max_total_tokens ? kMaxNewTokensField : kPromptField,
                  "the request has " + std::to_string(n_prompt) + " tokens of the prompt and " +
                      std::to_string(n_new) + " new ones, the runner takes " +
                      std::to_string(info.max_total_tokens) + " together");
  }
  return {};
}

// What only a runner in this process can do.
Status check_local(const RunnerInfo& info,
                   const GenerationRequest& request,
                   std::uint64_t n_prompt) {
  const std::string& processor = request.sampling.logits_processor;
  const auto& known = info.logits_processors;
  if (!processor.empty() && std::find(known.begin(), known.end(), processor) == known.end())
    return refuse("logits_processor", "the runner has no logits processor `" + processor + "`");
  if (!request.outputs.any()) return {};
  const std::uint64_t bytes = output_bytes(info, request, n_prompt);
  const std::uint64_t limit = info.capabilities.output_bytes_max;
  if (limit > 0 && bytes <= limit) return {};
  return refuse("outputs",
                "logits and hidden states of " + std::to_string(bytes) +
                    " bytes are asked for, `output_bytes_max` of the runner is " +
                    std::to_string(limit));
}

std::uint64_t key_of(SequenceId id) {
  return static_cast<std::uint64_t>(id);
}
std::uint64_t key_of(RequestId id) {
  return static_cast<std::uint64_t>(id);
}

// The first place in `running` behind all that come before `s`: higher priority, or the same and earlier.
std::vector<Sequence*>::iterator place_of(std::vector<Sequence*>& running, const Sequence& s) {
  const auto rank = [](const Sequence* r) {
    return std::pair(-std::int64_t{r->request.priority}, r->arrival);
  };
  return std::ranges::lower_bound(running, rank(&s), {}, rank);
}

}  // namespace

Status generation_error(const Status& cause) {
  return {cause.code(), ErrorKind::kGeneration, cause.message()};
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
  start_cache();
}

EngineCore::~EngineCore() {
  transfers_.reset();
  tier_.reset();
  sequences_.clear();  // leases end before the cache
  gone_.clear();
}

void EngineCore::start_cache() {
  info_ = runner_->info();
  kvcache::KvCacheOptions cache = cache_options(info_, options_, hash_key_);
  cache.events = stats_wanted_.kv_events;
  has_windows_ = std::ranges::any_of(
      cache.groups, [](const kvcache::KvGroupOptions& g) { return g.window_tokens > 0; });
  cache_tokens_ = 0;
  for (const kvcache::KvGroupOptions& g : cache.groups) {
    const std::uint64_t n_tokens = std::uint64_t{g.n_blocks} * cache.block_tokens;
    if (g.window_tokens == 0)
      cache_tokens_ = cache_tokens_ == 0 ? n_tokens : std::min(cache_tokens_, n_tokens);
  }
  transfers_.reset();
  tier_.reset();
  cache_ = std::make_unique<kvcache::KvCache>(cache);
  // Ids of attachments are drawn apart from those of other engines over the same runner.
  transfers_ = std::make_unique<BlockTransfers>(*cache_, info_, hash_key_[1] / 2 + last_step_);
  if (options_.tier != nullptr) start_tier();
  observer_.on_runner_up();
}

void EngineCore::start_tier() {
  tier_ = std::make_unique<TierDriver>(TierDriver::Parts{.tier = options_.tier,
                                                         .runner = runner_,
                                                         .cache = cache_.get(),
                                                         .transfers = transfers_.get(),
                                                         .serves = options_.tier->serves(info_),
                                                         .post = hooks_.post,
                                                         .may_be_admitted = [this](SequenceId id) {
                                                           const auto it =
                                                               sequences_.find(key_of(id));
                                                           if (it != sequences_.end())
                                                             it->second->onboarding = false;
                                                         }});
}

std::string EngineCore::prefix_identity(const GenerationRequest& request) const {
  const auto n_tokens = static_cast<std::uint32_t>(request.prompt.size());
  return cache_identity(info_, request, n_tokens + request.stopping.max_new_tokens);
}

Status EngineCore::admissible(const RunnerInfo& info,
                              const EngineOptions& options,
                              const GenerationRequest& request,
                              std::span<const TokenId> prompt) {
  const std::uint64_t n_prompt = prompt.size();
  const std::uint64_t n_new = request.stopping.max_new_tokens;
  COXSWAIN_RETURN_IF_ERROR(check_lengths(info, n_prompt, n_new));
  if (info.vocab_size > 0) {  // else the runner alone knows
    if (const auto foreign = request::find_foreign_id(prompt, info.vocab_size)) {
      return refuse(kPromptField,
                    "token ids must be >= 0 and < " + std::to_string(info.vocab_size) +
                        ". Given: " + std::to_string(*foreign));
    }
    COXSWAIN_RETURN_IF_ERROR(request::check_sampling(
        request.sampling, info.vocab_size, info.capabilities.top_tokens_max));
    COXSWAIN_RETURN_IF_ERROR(request::check_stopping(request.stopping, info.vocab_size));
  }
  COXSWAIN_RETURN_IF_ERROR(check_local(info, request, n_prompt));
  COXSWAIN_RETURN_IF_ERROR(request::check_retention(request.retention));
  COXSWAIN_RETURN_IF_ERROR(beams_admissible(info, options, request));
  if (request.n_sequences() > options.queue_requests_max) {
    return refuse(kSequencesField,
                  "the request asks for " + std::to_string(request.n_sequences()) +
                      " sequences, `queue_requests_max` is " +
                      std::to_string(options.queue_requests_max));
  }
  const std::size_t n_waiting = request.n_sequences() * waiting_tokens(request, n_prompt);
  if (n_waiting > options.queue_tokens_max) {
    return refuse(kPromptField,
                  "the request would wait with " + std::to_string(n_waiting) +
                      " tokens, `queue_tokens_max` is " + std::to_string(options.queue_tokens_max));
  }
  const std::size_t bytes = spec_bytes_max(request, n_prompt + n_new);
  if (bytes > options.plan_new_bytes_max) {
    return refuse(kPromptField,
                  "the request takes " + std::to_string(bytes) +
                      " bytes of a plan, `plan_new_bytes_max` is " +
                      std::to_string(options.plan_new_bytes_max));
  }
  const std::uint64_t n_tokens = n_prompt + n_new - 1;  // the last token is never computed
  const kvcache::KvCacheOptions cache = cache_options(info, options, {});
  std::uint64_t n_held = UINT32_MAX / 2;
  const auto n_counted = static_cast<std::uint32_t>(std::min(n_tokens, n_held));
  const Scheduler::BeamsAlone beams{.width = request.beams.width,
                                    .n_prompt = static_cast<std::uint32_t>(n_prompt)};
  bool fits = n_tokens <= n_held;
  for (const kvcache::KvGroupOptions& group : cache.groups) {
    if (Scheduler::fits_alone(cache, group, info.capabilities, options, n_counted, beams)) continue;
    n_held = std::min(n_held, std::uint64_t{group.n_blocks} * cache.block_tokens);
    fits = false;
  }
  if (fits) return {};
  std::string each;
  if (beams.width > 1) each = ", in each of " + std::to_string(beams.width) + " beams";
  return refuse(kMaxNewTokensField,
                "the request needs room for " + std::to_string(n_tokens) + " tokens (" +
                    std::to_string(n_prompt) + " of the prompt and " + std::to_string(n_new) +
                    " new ones, but for the last" + each + "), the KV cache holds " +
                    std::to_string(n_held));
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
  s->n_new_max = request.stopping.max_new_tokens;
  s->wants_prompt = request.prompt_logprobs || request.outputs.any_context();
  s->wants_more = s->wants_prompt || request.outputs.any();
  s->tokens = std::exchange(request.prompt, {});
  s->request = std::move(request);
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
  while (now >= next_deadline()) {
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
    pause(s);
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
void EngineCore::pause(Sequence& s) {
  leave_lists(s);
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

void EngineCore::fail(Sequence& s, Status status) {
  TokenEvent event;
  event.status = std::move(status);
  end(s, Outcome::kFailed, std::move(event));
}

// From here on the sequence is in no plan.
void EngineCore::end(Sequence& s, Outcome outcome, TokenEvent event) {
  if (s.state == SequenceState::kEnding) return;
  ++n_ended_;
  if (outcome == Outcome::kFinished) dynamic_batch_.note(s.n_prompt, s.n_produced());
  s.ended_step = applied_step_;
  leave_lists(s);
  if (s.request.deadline) deadlines_.erase({*s.request.deadline, s.id});
  if (tier_ != nullptr && s.lease) tier_->offload(s);
  s.lease.reset();
  drop_beams(s);
  s.state = SequenceState::kEnding;
  if (s.known_to_runner) {
    dropped_.push_back(s.id);
    tells_drops_ = true;
  }
  s.outcome = outcome;
  s.final_event = std::move(event);
  if (s.n_in_flight == 0 || !options_.final_after_retire) send_final(s);
}

// A row of a sequence that has ended has retired.
void EngineCore::retire(Sequence& s) {
  if (s.n_in_flight > 0) return;
  if (!s.answered) return send_final(s);
  --n_retiring_;
  bury(s);
}

void EngineCore::bury(Sequence& s) {
  const auto it = sequences_.find(key_of(s.id));
  gone_.push_back(std::move(it->second));
  sequences_.erase(it);
}

void EngineCore::send_final(Sequence& s) {
  switch (s.outcome) {
    case Outcome::kFinished:
      ++stats_.finished;
      break;
    case Outcome::kFailed:
      ++stats_.failed;
      break;
    case Outcome::kCancelled:
      ++stats_.cancelled;
      break;
  }
  std::vector<TokenEvent> finals;
  if (s.beams == nullptr) {
    s.final_event.sequence = s.index;
    s.final_event.n_generated = s.n_produced();
    s.final_event.cumulative_logprob = s.cumulative_logprob;
    finals.push_back(std::move(s.final_event));
  } else {
    finals = final_beam_events(s);
  }
  leave_request(s);
  s.answered = true;
  std::shared_ptr<TokenSink> sink = std::move(s.sink);
  if (s.n_in_flight == 0) {
    bury(s);
  } else {
    ++n_retiring_;
  }
  for (TokenEvent& event : finals) {
    event.final = true;
    event.n_cached_prompt_tokens = s.n_cached_prompt_tokens;
    event.queued_at = s.queued_at;
    event.scheduled_at = s.scheduled_at;
    event.first_token_at = s.first_token_at;
    events_.push_back({sink, std::move(event)});
  }
}

// Answered: with the last of its sequences the request is.
void EngineCore::leave_request(Sequence& s) {
  if (s.siblings != nullptr) {
    auto& open = s.siblings->open;
    std::erase(open, &s);
    if (!open.empty()) {
      by_request_[key_of(s.request.id)] = open.front();
      return;
    }
  }
  by_request_.erase(key_of(s.request.id));
  hooks_.before_final_event(s.request.id);
}

void EngineCore::tell_kv_events() {
  if (!cache_->has_events()) return;
  std::vector<KvEvent> events = cache_->take_events();
  for (KvEvent& event : events) event.id = ++last_kv_event_;
  observer_.on_kv_events(events);
}

void EngineCore::finish_call() {
  tell_kv_events();
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
  gone_.clear();
}

// Nothing is known about the runner any more: what it held is gone, what had started fails, what
// waits goes on waiting.
void EngineCore::lose_runner(const Status& status) {
  runner_up_ = false;
  steps_.clear();
  cache_->retire(last_step_);
  transfers_->fail(status);
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
  runner_ = std::move(runner);
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

std::string EngineCore::check() const {
  if (std::string wrong = cache_->check(); !wrong.empty()) return wrong;
  const EngineStats s = stats();
  if (s.accepted != s.finished + s.failed + s.cancelled + s.queued + s.running) {
    return "requests are not conserved";
  }
  if (s.blocks_free + s.blocks_cached + s.blocks_leased + s.blocks_retiring != s.blocks_total) {
    return "blocks are not conserved";
  }
  if (std::string wrong = waiting_.check(); !wrong.empty()) return wrong;
  for (const auto& [limit, id] : deadlines_) {
    const auto it = sequences_.find(key_of(id));
    if (it == sequences_.end() || it->second->state == SequenceState::kEnding)
      return "the deadline of a request that has ended is kept";
  }
  std::uint64_t n_waiting_tokens = 0;
  for (const auto& [rank, w] : waiting_.in_order()) n_waiting_tokens += w->n_waiting_tokens;
  if (n_waiting_tokens != s.queued_tokens) return "tokens that wait differ from a recount";
  if (running_.empty() && transfers_->empty() && s.blocks_leased != 0)
    return "blocks are leased and nothing runs";
  if (steps_.empty() && s.blocks_retiring != 0)
    return "blocks are retiring and no step is in flight";
  std::unordered_map<const Sequence*, std::uint32_t> named;
  for (const Step& step : steps_) {
    for (const StepRow& row : step.rows) named[row.sequence] += row.slot == 0 ? 1 : 0;
  }
  std::size_t n_retiring = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->n_in_flight != named[sequence.get()])
      return "steps in flight of a sequence differ from a recount";
    if (sequence->state == SequenceState::kEnding && sequence->n_in_flight == 0)
      return "a sequence has ended and retired and is still there";
    if (sequence->answered) ++n_retiring;
    if ((sequence->state == SequenceState::kRunning) != static_cast<bool>(sequence->lease)) {
      return "a lease and its sequence disagree";
    }
  }
  if (n_retiring != n_retiring_) return "answered sequences differ from a recount";
  return {};
}

void EngineCore::require_invariants() {
  const std::string wrong = check();
  if (wrong.empty()) return;
  observer_.on_broken_invariant(wrong);
  base::fatal(("an invariant of the engine is broken: " + wrong).c_str());
}

void EngineCore::observe_state() {
  if (hooks_.observer == nullptr) return;
  EngineState state{.stats = stats()};
  state.batch_sequences = static_cast<std::uint32_t>(running_.size());
  for (const Sequence* s : running_) state.batch_tokens_max += s->tokens_max();
  if (cache_->n_groups() > 0)
    state.cache_tokens_total = std::uint64_t{cache_->counts(0).total} * cache_->block_tokens();
  observer_.on_state(state);
}

}  // namespace coxswain::batch
