#pragma once
// FleetRequest and Stay: a request that the fleet owns until its last event, and one stay of it in an engine.
//
// A request begins with one stay of all its sequences. Where the engine loses its runner, each sequence that has not
// ended goes on in a stay of its own, behind the tokens that were delivered (batch::Progress); a beam search begins
// again. A stay is in one engine at most, ends with the final events that the engine owes it, and is never used again:
// so nothing that an engine says late can reach the client.
//
// Thread rule: a SequenceLife belongs to the thread of the engine that has its stay; between two stays the fleet's lock
// hands it over. Everything else that changes is guarded by the fleet's lock.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "batch/engine.h"

namespace coxswain::fleet {

// Of a sequence, whatever engines it was in.
struct SequenceLife {
  batch::Progress progress;  // what was delivered
  bool was_scheduled = false;
  std::uint32_t n_cached_prompt_tokens = 0;  // of the first life in a step, as its times
  batch::DraftCounts drafts;                 // of all lives that have ended
  TimePoint scheduled_at{};
  TimePoint first_token_at{};
};

class Stay;

struct FleetRequest : std::enable_shared_from_this<FleetRequest> {
  FleetRequest(batch::GenerationRequest submitted, std::shared_ptr<batch::TokenSink> to)
      : request(std::move(submitted)), sink(std::move(to)), lives(request.n_answers()) {}

  const batch::GenerationRequest request;
  const std::shared_ptr<batch::TokenSink> sink;
  const TimePoint queued_at = Clock::now();
  std::vector<SequenceLife> lives;         // [n_answers]
  std::vector<std::uint64_t> prefix_keys;  // PrefixHints

  // Guarded by the fleet's lock.
  std::uint64_t arrival = 0;
  std::size_t n_open = lives.size();  // final events that the client is still owed
  bool cancelled = false;
  std::vector<std::shared_ptr<Stay>> stays;  // open ones, in an engine or waiting

  bool is_beams() const { return request.beams.width > 1; }
};

// What a replica that has computed a prompt keeps of it for whoever goes on.
struct Parked {
  std::size_t replica = 0;
  std::shared_ptr<const batch::ParkedContext> context;  // null: nothing
};

// Blocks of a prompt that pass while it is still computed.
struct Ahead {
  std::size_t from = 0;
  std::optional<std::size_t> to = {};  // who has some, or is getting them
  std::uint64_t transfer = 0;          // 0: none is under way
  // Told meanwhile.
  std::shared_ptr<const batch::ParkedContext> next = {};
  // The prompt is computed, and goes on behind the transfer.
  std::shared_ptr<Stay> departed = {};
  bool over = false;  // no further transfer begins
};

// What a replica that still loads computes of a prompt that waits for another one: LiveTarget's number of it.
struct LivePrompt {
  std::size_t replica = 0;
  std::uint64_t id = 0;
};

// What a stay comprises: all sequences of a request, or one.
struct StayRange {
  std::uint32_t first = 0;
  std::uint32_t n = 1;
};

class Stay final : public batch::TokenSink, public std::enable_shared_from_this<Stay> {
 public:
  Stay(batch::EventOutlet& fleet, std::shared_ptr<FleetRequest> request, StayRange range)
      : n_open(range.n), fleet_(fleet), range_(range), request_(std::move(request)) {}

  void on_event(batch::TokenEvent event) override;
  batch::EventOutlet* outlet() override { return &fleet_; }
  bool stalled() const override { return request_->sink->stalled(); }

  FleetRequest& request() const { return *request_; }
  StayRange range() const { return range_; }
  SequenceLife& life_of(const batch::TokenEvent& event) const {
    return request_->lives[range_.first + event.sequence];
  }
  // What the engine is to do, under `id`.
  batch::GenerationRequest engine_request(RequestId id) const;

  // Notes what an event delivers. On the engine's thread.
  void note(const batch::TokenEvent& event) const;

  // Higher priority first, then the request that came first.
  using Rank = std::tuple<std::int64_t, std::uint64_t, std::uint32_t>;
  Rank rank() const {
    return {-std::int64_t{request_->request.priority}, request_->arrival, range_.first};
  }
  // Until when it may wait.
  std::optional<TimePoint> deadline() const;
  // Its prompt can be computed apart: one sequence without beams that has delivered nothing and keeps no blocks secret.
  bool is_prompt() const;
  // One sequence without beams that has delivered something, whose blocks others may have.
  bool can_move() const;
  bool has_begun() const;  // a step had it, in this stay or in an earlier one

  // Guarded by the fleet's lock.
  std::uint32_t n_open;  // final events that an engine owes it
  std::uint32_t n_losses = 0;
  std::optional<std::size_t> replica;  // whose engine has it; empty while it waits
  RequestId engine_id{};               // there
  bool recalled = false;               // cancelled there, to go on elsewhere
  bool hands_on = false;               // of a recall: with its blocks, if they can move
  bool parks = false;  // its engine is to compute as far as the next token, then to keep the blocks
  // Who has its blocks in the cache: it computes one token more there, and is handed over from there.
  std::optional<std::size_t> via;
  bool apart = false;  // its prompt is computed for another replica; decided when it is placed
  Parked parked;       // what it goes on with; a transfer takes it
  std::uint64_t transfer = 0;      // of that; 0: none is under way
  std::shared_ptr<Ahead> ahead;    // of the prompt; null: nothing
  std::optional<LivePrompt> live;  // while it waits
  bool undivided = false;          // its layers were not, or cannot be, computed apart
  std::uint64_t refused = 0;  // replicas that refused it in this attempt to place it, a bit each

 private:
  batch::EventOutlet& fleet_;
  const StayRange range_;
  const std::shared_ptr<FleetRequest> request_;
};

// What a cancelled request ends with.
Status was_cancelled();

// Hands events to their sinks, those of one outlet together.
void forward_events(std::span<batch::SinkEvent> events);

}  // namespace coxswain::fleet
