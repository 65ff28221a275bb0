#pragma once
// NaiveScheduler: what docs/scheduling.md says about a step, once more and as plainly as possible: lists to walk
// through, counts that are made anew for each plan. For a runner that plans chunks, one step at a time, one KV group
// that keeps every position, no prefix cache, requests of one sequence that end at max_new_tokens.
//
// Thread rule: one thread.

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "batch/engine.h"

namespace coxswain::batch::testing {

// Part of a plan: which request computes which positions.
struct NaiveRow {
  std::uint64_t id = 0;  // counts up in the order of arrival
  std::uint32_t first = 0;
  std::uint32_t n_tokens = 0;

  friend bool operator==(const NaiveRow&, const NaiveRow&) = default;
  friend std::ostream& operator<<(std::ostream& out, const NaiveRow& row) {
    return out << "request " << row.id << ": " << row.n_tokens << " from " << row.first;
  }
};

class NaiveScheduler {
 public:
  NaiveScheduler(const EngineOptions& options,
                 std::uint32_t block_tokens,
                 std::uint32_t n_blocks,
                 std::uint32_t adapter_pages)
      : options_(options),
        block_(block_tokens),
        n_blocks_(n_blocks),
        adapter_pages_(adapter_pages) {}

  void add(const GenerationRequest& r) {
    const auto id = static_cast<std::uint64_t>(r.id);
    all_[id] = {.id = id,
                .priority = r.priority,
                .n_prompt = static_cast<std::uint32_t>(r.prompt.size()),
                .n_new = r.stopping.max_new_tokens,
                .adapter = {r.adapter_digest, r.adapter_pages}};
  }
  void erase(std::uint64_t id) { all_.erase(id); }
  // Of those that have run.
  void set_stalled(std::uint64_t id, bool stalled) {
    const auto it = all_.find(id);
    if (it != all_.end() && it->second.state != State::kWaiting) it->second.stalled = stalled;
  }
  bool runs(std::uint64_t id) const { return is(id, State::kRunning); }
  bool is_paused(std::uint64_t id) const { return is(id, State::kPaused); }
  bool empty() const { return all_.empty(); }
  std::uint64_t n_pauses() const { return n_pauses_; }

  // The next step, which is then taken as computed.
  std::vector<NaiveRow> step() {
    while (true) {
      plan();
      for (const std::uint64_t id : paused_) {
        Request& r = all_.at(id);
        r.state = State::kPaused;
        r.computed = 0;
        ++n_pauses_;
      }
      for (const Planned& row : rows_) {
        if (row.admitted) admit(row.id);
      }
      if (!rows_.empty() || paused_.empty()) break;
    }
    std::vector<NaiveRow> out;
    for (const Planned& row : rows_) {
      Request& r = all_.at(row.id);
      out.push_back({.id = row.id, .first = r.computed, .n_tokens = row.n_tokens});
      r.computed += row.n_tokens;
      if (r.computed == r.n_known() && ++r.n_produced == r.n_new) all_.erase(row.id);
    }
    return out;
  }

 private:
  enum class State : std::uint8_t { kWaiting, kRunning, kPaused };
  using Adapter = std::pair<std::string, std::uint32_t>;  // its digest and pages
  struct Request {
    std::uint64_t id = 0;
    std::int32_t priority = 0;
    std::uint32_t n_prompt = 0;
    std::uint32_t n_new = 0;
    Adapter adapter;
    State state = State::kWaiting;
    bool stalled = false;
    std::uint32_t computed = 0;
    std::uint32_t n_produced = 0;
    std::uint32_t overtaken = 0;

    std::uint32_t n_known() const { return n_prompt + n_produced; }
    std::uint32_t remaining() const { return n_known() - computed; }
    bool decodes() const { return computed > 0 && remaining() == 1; }
  };
  struct Planned {
    std::uint64_t id = 0;
    std::uint32_t n_tokens = 0;
    bool prefill = false;
    bool admitted = false;
  };

  bool is(std::uint64_t id, State state) const {
    const auto it = all_.find(id);
    return it != all_.end() && it->second.state == state;
  }
  bool reserves() const {
    return options_.policy == CapacityPolicy::kGuaranteedNoEvict || is_static();
  }
  bool is_static() const { return options_.policy == CapacityPolicy::kStaticBatch; }
  bool mixes() const { return !is_static() && !options_.prompts_first; }
  bool next_in_line(const Request& r) const { return r.overtaken >= options_.overtakes_max; }
  std::uint32_t blocks_for(std::uint32_t n_tokens) const {
    return base::ceil_div(n_tokens, block_);
  }
  static std::uint32_t minus(std::uint32_t a, std::uint32_t b) { return a > b ? a - b : 0; }
  bool paused_now(std::uint64_t id) const { return std::ranges::count(paused_, id) > 0; }

  // Running ones that this plan has not paused, by priority and arrival.
  std::vector<Request*> running() {
    std::vector<Request*> out;
    for (auto& [id, r] : all_) {
      if (r.state == State::kRunning && !paused_now(id)) out.push_back(&r);
    }
    std::ranges::sort(out, {}, [](const Request* r) { return std::tuple(-r->priority, r->id); });
    return out;
  }
  std::vector<Request*> waiting() {
    std::vector<Request*> out;
    for (auto& [id, r] : all_) {
      if (r.state != State::kRunning) out.push_back(&r);
    }
    std::ranges::sort(out, {}, [this](const Request* r) {
      return next_in_line(*r) ? std::tuple(0, 0, r->id) : std::tuple(1, -r->priority, r->id);
    });
    return out;
  }

  Planned* row_of(std::uint64_t id) {
    const auto it = std::ranges::find(rows_, id, &Planned::id);
    return it == rows_.end() ? nullptr : &*it;
  }
  // Blocks of `r` when this plan has run.
  std::uint32_t blocks_after(const Request& r) {
    const Planned* row = row_of(r.id);
    return blocks_for(r.computed + (row == nullptr ? 0 : row->n_tokens));
  }
  std::uint32_t n_running() {
    const auto n_admitted = std::ranges::count(rows_, true, &Planned::admitted);
    return static_cast<std::uint32_t>(running().size()) + static_cast<std::uint32_t>(n_admitted);
  }
  // Not taken by anybody when this plan has run.
  std::uint32_t n_free() {
    std::uint32_t n_used = 0;
    for (const Request* r : running()) n_used += blocks_after(*r);
    for (const Planned& row : rows_) n_used += row.admitted ? blocks_after(all_.at(row.id)) : 0;
    return n_blocks_ - n_used;
  }
  // What `r` may still ask for when this plan has run.
  std::uint32_t promised(const Request& r) {
    const std::uint32_t most = reserves() ? r.n_prompt + r.n_new - 1 : 0;
    return minus(blocks_for(std::max(r.n_known(), most)), blocks_after(r));
  }
  std::uint32_t all_promised() {
    std::uint32_t n = 0;
    for (const Request* r : running()) n += promised(*r);
    for (const Planned& row : rows_) n += row.admitted ? promised(all_.at(row.id)) : 0;
    return n;
  }

  std::uint32_t row_max() const {
    std::uint32_t n = base::round_up(options_.prefill_tokens_max, block_);
    if (options_.chunk_tokens_max > 0) n = std::min(n, options_.chunk_tokens_max);
    return std::max(n, block_);
  }
  std::uint32_t unit() const { return std::clamp(row_max() / block_ * block_, block_, unit_); }
  std::uint32_t chunk(const Request& r) const {
    std::uint32_t room = std::min(budget_, row_max());
    if (options_.chunking == ChunkingPolicy::kEqualProgress) room = std::min(room, unit());
    if (r.remaining() <= room) return r.remaining();
    const std::uint32_t begin = r.computed / block_ * block_;
    return minus(begin + (r.computed - begin + room) / unit() * unit(), r.computed);
  }

  void plan() {
    rows_.clear();
    paused_.clear();
    short_of_blocks_ = false;
    start_budget();
    if (mixes()) {
      plan_running(true, true);
      if (!short_of_blocks_) plan_waiting();
    } else {
      plan_running(true, false);
      if (!short_of_blocks_) plan_waiting();
      if (rows_.empty()) plan_running(false, true);
    }
    if (options_.chunking == ChunkingPolicy::kEqualProgress) share_rest();
  }

  void start_budget() {
    std::uint32_t n_decodes = 0;
    for (const Request* r : running()) n_decodes += mixes() && r->decodes() && !r->stalled ? 1 : 0;
    const std::uint32_t most = base::round_up(options_.prefill_tokens_max, block_);
    const std::uint32_t least = base::round_up(options_.prefill_tokens_min, block_);
    budget_ = std::max(minus(most, n_decodes), std::clamp(least, block_, most));
    unit_ = std::min(base::round_up(std::max(options_.chunk_tokens_unit, 1U), block_),
                     budget_ / block_ * block_);
  }

  void plan_running(bool prompts, bool decodes) {
    for (Request* r : running()) {
      if (paused_now(r->id) || r->stalled || !(r->decodes() ? decodes : prompts)) continue;
      std::uint32_t n = r->decodes() ? 1 : chunk(*r);
      if (n == 0) continue;
      const std::uint32_t held = blocks_for(r->computed);
      const auto wanted = [&] { return minus(blocks_for(r->computed + n), held); };
      if (!r->decodes() && wanted() > n_free()) {
        const std::uint32_t room = n_free() * block_ + held * block_ - r->computed;
        n = std::min(n, std::max(room, block_));
      }
      if (!make_room(*r, wanted())) continue;
      rows_.push_back({.id = r->id, .n_tokens = n, .prefill = !r->decodes()});
      if (!r->decodes()) budget_ = minus(budget_, n);
    }
  }

  bool make_room(const Request& r, std::uint32_t n_wanted) {
    while (n_wanted > n_free()) {
      short_of_blocks_ = true;
      if (reserves()) return false;
      const Request* victim = &r;
      for (const Request* other : running()) {  // the last of them
        if (other->id != r.id &&
            std::tuple(-other->priority, other->id) > std::tuple(-r.priority, r.id))
          victim = other;
      }
      for (const Request* other : running()) {
        if (other->id != r.id && other->stalled) victim = other;
      }
      paused_.push_back(victim->id);
      if (victim == &r) return false;
    }
    return true;
  }

  // The rows of the plan, a unit each in turn.
  void share_rest() {
    for (bool any = true; any && budget_ > 0;) {
      any = false;
      for (Planned& row : rows_) {
        const Request& r = all_.at(row.id);
        const std::uint32_t more = std::min(unit(), r.remaining() - row.n_tokens);
        if (!row.prefill || more == 0 || more > budget_ || row.n_tokens + more > row_max())
          continue;
        const std::uint32_t end = r.computed + row.n_tokens;
        if (blocks_for(end + more) - blocks_for(end) > n_free()) continue;
        row.n_tokens += more;
        budget_ -= more;
        any = true;
      }
    }
  }

  void plan_waiting() {
    if (is_static()) {
      for (const Request* r : running()) {
        if (r->n_produced > 1) return;
      }
    }
    std::set<Adapter> adapters;
    for (const Request* r : running()) adapters.insert(r->adapter);
    std::vector<const Request*> passed;
    for (const Request* r : waiting()) {
      if (budget_ < block_) return;
      if (n_running() >= options_.batch_size_max && candidates(*r).empty()) return;
      if (r->stalled) continue;
      if (std::ranges::any_of(passed, [&](const Request* p) { return !may_be_passed(*p); })) return;
      const std::uint32_t n = chunk(*r);
      if (n > 0 && has_adapter_room(*r, adapters) && (has_room(*r, {}) || preempt(*r))) {
        adapters.insert(r->adapter);
        rows_.push_back({.id = r->id, .n_tokens = n, .prefill = true, .admitted = true});
        budget_ = minus(budget_, n);
        continue;
      }
      if (short_of_blocks_ || passed.size() == 8) return;
      passed.push_back(r);
    }
  }

  bool may_be_passed(const Request& r) const {
    std::uint32_t n = r.overtaken;
    for (const Planned& row : rows_) n += row.admitted && row.id > r.id ? 1 : 0;
    return n < options_.overtakes_max;
  }

  bool has_adapter_room(const Request& r, std::set<Adapter> adapters) const {
    adapters.insert(r.adapter);
    std::uint32_t n = 0;
    for (const auto& [digest, pages] : adapters) n += pages;
    return r.adapter.second == 0 || n <= adapter_pages_;
  }

  // Whether the known context of `r`, or all of it, fits once `gone` have left.
  bool has_room(const Request& r, const std::vector<Request*>& gone) {
    std::uint32_t n = n_free();
    std::uint32_t n_promised = all_promised();
    for (const Request* g : gone) {
      n += blocks_after(*g);
      n_promised -= promised(*g);
    }
    const std::uint32_t size = reserves() ? r.n_prompt + r.n_new - 1 : r.n_known();
    return blocks_for(size) + n_promised <= n &&
           n_running() < options_.batch_size_max + gone.size();
  }

  // Who would give way to `r`, the first to go first.
  std::vector<Request*> candidates(const Request& r) {
    std::vector<Request*> out;
    if (reserves()) return out;
    const std::vector<Request*> all = running();
    for (const bool stalled : {true, false}) {
      for (std::size_t i = all.size(); i-- > 0;) {
        Request* other = all[i];
        if (other->stalled != stalled) continue;
        if (stalled || (other->priority < r.priority && !next_in_line(*other)))
          out.push_back(other);
      }
    }
    return out;
  }

  bool preempt(const Request& r) {
    std::vector<Request*> gone;
    for (Request* other : candidates(r)) {
      if (has_room(r, gone)) break;
      gone.push_back(other);
    }
    if (gone.empty() || !has_room(r, gone)) return false;
    short_of_blocks_ = true;
    for (const Request* g : gone) {
      if (const Planned* row = row_of(g->id)) {
        if (row->prefill) budget_ += row->n_tokens;
        rows_.erase(rows_.begin() + (row - rows_.data()));
      }
      paused_.push_back(g->id);
    }
    return true;
  }

  void admit(std::uint64_t id) {
    all_.at(id).state = State::kRunning;
    for (auto& [earlier, r] : all_) {
      if (earlier < id && r.state != State::kRunning) ++r.overtaken;
    }
  }

  const EngineOptions options_;
  const std::uint32_t block_;
  const std::uint32_t n_blocks_;
  const std::uint32_t adapter_pages_;
  std::map<std::uint64_t, Request> all_;  // by id
  std::vector<Planned> rows_;
  std::vector<std::uint64_t> paused_;  // by this plan
  std::uint32_t budget_ = 0;
  std::uint32_t unit_ = 0;
  bool short_of_blocks_ = false;
  std::uint64_t n_pauses_ = 0;
};

}  // namespace coxswain::batch::testing
