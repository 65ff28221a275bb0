// The part of Scheduler that lets waiting requests in, and pauses others for them.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/numbers.h"
#include "batch/scheduler.h"

namespace coxswain::batch {
namespace {

// How many waiting requests that do not fit may be looked past in one plan; each costs a walk
// through the prefix index.
constexpr std::uint32_t kBlockedMax = 8;

}  // namespace

void Scheduler::count_for_admissions() {
  if (in_.cache->prefix_caching() && rules_.waits_for_equal_blocks) note_keys_being_computed();
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    if (is_paused(i)) continue;
    for (std::size_t g = 0; g < outstanding_.size(); ++g) outstanding_[g] += reserved_running(i, g);
    note_adapter(*in_.running[i]);
  }
}

void Scheduler::note_adapter(const Sequence& s) {
  if (in_.adapter_pages == 0 || s.request.adapter_pages == 0) return;
  if (std::ranges::find(adapters_, s.request.adapter_digest) != adapters_.end()) return;
  adapters_.push_back(s.request.adapter_digest);
  n_adapter_pages_ += s.request.adapter_pages;
}

// Its adapter is in use, or its pages are free.
bool Scheduler::has_adapter_room(const Sequence& s) const {
  return in_.adapter_pages == 0 || s.request.adapter_pages == 0 ||
         s.request.adapter_pages <= base::sub_sat(in_.adapter_pages, n_adapter_pages_) ||
         std::ranges::find(adapters_, s.request.adapter_digest) != adapters_.end();
}

// A prompt that shares its next block with one being computed waits a step and takes it from the cache.
void Scheduler::note_keys_being_computed() {
  const std::uint32_t block = in_.cache->block_tokens();
  const auto note = [&](const Sequence& s, std::uint32_t end) {
    const std::uint32_t next_end = (s.lease.n_published() + 1) * block;
    if (next_end > end || next_end > s.tokens.size() || next_end <= s.computed) return;
    if (next_end > s.publish_end()) return;
    computing_.push_back(in_.cache->next_key(s.lease, s.tokens));
  };
  for (const Sequence* s : in_.running) {
    if (s->n_in_flight > 0) note(*s, s->planned);
  }
  for (const PlannedRow& row : out_.rows) note(*row.sequence, row.first_position + row.n_tokens);
}

std::uint32_t Scheduler::overtakes_left(const Sequence& s) const {
  const auto overtook = std::ranges::count_if(
      admitted_arrivals_, [&](std::uint64_t arrival) { return arrival > s.arrival; });
  return base::sub_sat(options_.overtakes_max,
                       in_.waiting->overtaken(s) + static_cast<std::uint32_t>(overtook));
}

// Of those that wait the first one counts.
void Scheduler::note_wait(WaitReason why) {
  if (out_.wait == WaitReason::kNone) out_.wait = why;
}

bool Scheduler::refuse(WaitReason why) {
  refusal_ = why;
  return false;
}

void Scheduler::admit_beside_running() {
  if (!short_of_blocks_) return admit_waiting();
  if (!in_.waiting->empty() || !out_.paused.empty()) note_wait(WaitReason::kNoBlocks);
}

void Scheduler::admit_waiting() {
  if (in_.waiting->empty()) return;
  if (rules_.closes_batches && batch_is_closed()) return note_wait(WaitReason::kPolicy);
  blocked_.clear();
  admitted_arrivals_.clear();
  bool counted = false;  // what only an admission asks for: a full batch has none
  for (const auto& [rank, s] : in_.waiting->in_order()) {
    if (prefill_budget_ < chunk_min_) return note_wait(WaitReason::kTokenBudget);
    if (batch_is_full() && !outranks_running(*s)) return note_wait(WaitReason::kBatchFull);
    if (s->stalled || s->n_in_flight > 0) {
      note_wait(s->stalled ? WaitReason::kStalled : WaitReason::kInFlight);
      continue;
    }
    if (s->onboarding || waits_for_sibling(*s)) {
      note_wait(WaitReason::kSharedPrefix);
      continue;
    }
    if (std::ranges::any_of(blocked_, [&](const Sequence* b) { return overtakes_left(*b) == 0; }))
      return;
    if (!std::exchange(counted, true)) count_for_admissions();
    if (admit(*s)) {
      admitted_arrivals_.push_back(s->arrival);
      continue;
    }
    note_wait(refusal_);
    if (short_of_blocks_ || blocked_.size() == kBlockedMax) return;
    blocked_.push_back(s);
  }
}

// Whether another sequence of the request computes their prompt, or will be the first to. It passes nobody's turn.
bool Scheduler::waits_for_sibling(const Sequence& s) const {
  if (s.siblings == nullptr || !in_.capabilities.moves || !rules_.waits_for_equal_blocks)
    return false;
  bool waits = false;
  for (const Sequence* r : s.siblings->open) {
    if (r->has_computed_prompt()) return false;
    waits |= r->state == SequenceState::kRunning ||
             (r->state != SequenceState::kEnding && r->index < s.index);
  }
  return waits;
}

// A running sibling that has computed more of the prompt than is found elsewhere.
Sequence* Scheduler::fork_source(const Sequence& s, std::uint32_t n_found) const {
  if (s.siblings == nullptr || !in_.capabilities.moves || s.shared_prompt() <= n_found)
    return nullptr;
  for (Sequence* r : s.siblings->open) {
    if (r->has_computed_prompt() && in_.cache->can_fork(r->lease, s.shared_prompt()) &&
        std::ranges::find(out_.paused, r) == out_.paused.end()) {
      return r;
    }
  }
  return nullptr;
}

// As if the cache had found it: blocks in use.
kvcache::PrefixProbe Scheduler::shared_with(const Sequence& source, std::uint32_t n_tokens) const {
  kvcache::PrefixProbe out{.n_blocks = n_tokens / in_.cache->block_tokens(),
                           .n_partial = n_tokens % in_.cache->block_tokens()};
  for (std::size_t g = 0; g < in_.cache->n_groups(); ++g)
    out.n_held.push_back(source.lease.n_held(g, out.n_blocks));
  out.n_taken.resize(in_.cache->n_groups());
  out.n_copied.resize(in_.cache->n_groups());
  return out;
}

// Plans the first row of `s` if everything it needs is there. A request that only waits for a block
// being computed counts as not fitting, so it is overtaken no more often than any other.
bool Scheduler::admit(Sequence& s) {
  if (!has_adapter_room(s)) return refuse(WaitReason::kNoAdapterPages);
  const bool use_prefix = !s.wants_prompt || s.prompt_complete();
  kvcache::PrefixProbe prefix =
      use_prefix ? in_.cache->probe(s.identity, s.tokens, s.prefix_memo) : kvcache::PrefixProbe{};
  if (prefix.next_key != 0 && std::ranges::find(computing_, prefix.next_key) != computing_.end())
    return refuse(WaitReason::kSharedPrefix);
  const std::uint32_t n_found = prefix.n_blocks * in_.cache->block_tokens() + prefix.n_partial;
  if (Sequence* source = fork_source(s, n_found); source != nullptr) {
    if (!admit_behind(s, shared_with(*source, s.shared_prompt()))) return false;
    out_.rows.back().fork_of = source;
    return true;
  }
  if (prefix.n_partial > 0 && admit_behind(s, prefix)) return true;
  prefix.n_partial = 0;  // the block and what is copied into it may not fit at once
  prefix.n_copied.clear();
  return admit_behind(s, prefix);
}

// `prefix` is what the cache gives, or less.
bool Scheduler::admit_behind(Sequence& s, const kvcache::PrefixProbe& prefix) {
  const std::uint32_t block = in_.cache->block_tokens();
  const std::uint32_t first = prefix.n_blocks * block + prefix.n_partial;
  const std::uint32_t n_tokens = prefill_chunk(s, first, n_prefills_);
  if (n_tokens == 0) return refuse(WaitReason::kTokenBudget);
  const std::uint32_t end = first + n_tokens;
  const std::uint32_t n_blocks = in_.capabilities.grows_blocks
                                     ? in_.cache->blocks_for(end)
                                     : in_.cache->blocks_for(s.tokens_max());
  std::vector<std::uint32_t> need(available_.size());   // beyond what is in use: now and later
  std::vector<std::uint32_t> taken(available_.size());  // of these, now
  for (std::size_t g = 0; g < need.size(); ++g) {
    const bool hit = prefix.n_blocks > 0;
    const std::uint32_t pinned =
        (hit ? prefix.n_taken[g] : 0) + (prefix.n_partial > 0 ? prefix.n_copied[g] : 0);
    taken[g] = n_blocks - prefix.n_blocks + pinned;
    need[g] =
        pinned +
        reserved_blocks(
            s, g, first, {.n_entries = prefix.n_blocks, .n_blocks = hit ? prefix.n_held[g] : 0});
  }
  const auto fits = [&] {
    for (std::size_t g = 0; g < need.size(); ++g) {
      const bool foreseen = foresees_prompts(g);
      if ((foreseen ? taken[g] : need[g] + outstanding_[g]) > available_[g]) return false;
    }
    return has_place(s);
  };
  if (!fits() && prefix.n_partial > 0) return false;
  const bool goes_first = rules_.foresees_lengths && outranks_running(s);
  if (!fits() && !(preempt_for(s, need) && fits()))
    return refuse(has_place(s) ? WaitReason::kNoBlocks : WaitReason::kBatchFull);

  if (rules_.foresees_lengths) {
    const bool room = has_room_for_all(s, n_blocks, taken);
    const bool foreseen = !room && foresees_room(s, n_blocks, taken);
    if (!room && !foreseen && !goes_first) return refuse(WaitReason::kPolicy);
    foreseen_ &= foreseen;  // who is let in without is looked at with the others, if anybody is
    promised_.reset();
  }

  for (std::size_t g = 0; g < need.size(); ++g) {
    available_[g] -= taken[g];
    outstanding_[g] += base::sub_sat(need[g], taken[g]);
  }
  out_.rows.push_back({.sequence = &s,
                       .first_position = first,
                       .n_tokens = n_tokens,
                       .n_blocks = n_blocks,
                       .prefill = true,
                       .admitted = true,
                       .sample = end == s.context_end()});
  prefill_budget_ = base::sub_sat(prefill_budget_, n_tokens);
  ++n_prefills_;
  n_running_ += s.n_places();
  note_adapter(s);
  const std::uint32_t next_end = (prefix.n_blocks + 1) * block;
  if (prefix.next_key != 0 && rules_.waits_for_equal_blocks && end >= next_end &&
      next_end <= s.publish_end())
    computing_.push_back(prefix.next_key);
  return true;
}

// Whether running[index] may be paused in favour of `s`: its client does not read, or its priority is lower.
bool Scheduler::gives_way(std::size_t index, const Sequence& s) const {
  const Sequence& r = *in_.running[index];
  if (is_paused(index) || !r.goes_on()) return false;
  return r.stalled ||
         (r.request.priority < s.request.priority && r.overtaken < options_.overtakes_max);
}

bool Scheduler::outranks_running(const Sequence& s) const {
  if (rules_.reserves_answers || in_.running.empty()) return false;
  // In order of priority: the last ones are the first to give way.
  if (n_stalled_ == 0 && in_.running.back()->request.priority >= s.request.priority) return false;
  for (std::size_t j = in_.running.size(); j-- > 0;) {
    if (gives_way(j, s)) return true;
  }
  return false;
}

// Pauses running sequences if that makes room for `s`, those whose clients do not read first. True if any was paused.
bool Scheduler::preempt_for(const Sequence& s, const std::vector<std::uint32_t>& need) {
  if (!outranks_running(s)) return false;
  std::vector<std::size_t> victims;
  std::uint32_t n_places = 0;  // of these
  std::vector<std::uint32_t> room = available_;
  std::vector<std::uint32_t> promised = outstanding_;  // to those who stay
  const auto enough = [&] {
    for (std::size_t g = 0; g < need.size(); ++g) {
      if (need[g] + promised[g] > room[g]) return false;
    }
    return n_running_ + s.n_places() <= batch_size_max() + n_places;
  };
  for (std::size_t g = 0; g < room.size(); ++g) room[g] += on_loan(g);
  if (enough()) return false;  // it waits until these are back
  room = available_;
  for (const bool stalled : {true, false}) {
    for (std::size_t j = in_.running.size(); j-- > 0 && !enough();) {
      const Sequence& r = *in_.running[j];
      if (r.stalled != stalled || !gives_way(j, s)) continue;
      for (std::size_t g = 0; g < room.size(); ++g) {
        room[g] += reclaimable(r, g) + blocks_after_[j] - r.n_blocks();
        promised[g] -= reserved_running(j, g);
      }
      victims.push_back(j);
      n_places += r.n_places();
    }
  }
  if (victims.empty() || !enough()) return false;
  for (const std::size_t j : victims) {
    unplan(*in_.running[j]);
    pause(j);
  }
  outstanding_ = promised;
  return true;
}

// TGI's rule for runners that cannot plan chunks: prompts that hold up every running request come together, until too
// many tokens were computed without any.
bool Scheduler::enough_to_interrupt() const {
  if (in_.running.empty() || in_.waiting_tokens >= options_.waiting_tokens_max) return true;
  const auto n_admitted =
      std::ranges::count_if(out_.rows, [](const PlannedRow& row) { return row.admitted; });
  const float n_wanted = static_cast<float>(in_.running.size()) * options_.waiting_served_ratio;
  return static_cast<float>(n_admitted) >= std::trunc(n_wanted);
}

void Scheduler::drop_admissions() {
  if (std::erase_if(out_.rows, [](const PlannedRow& row) { return row.admitted; }) > 0)
    out_.wait = WaitReason::kPolicy;
}

}  // namespace coxswain::batch
