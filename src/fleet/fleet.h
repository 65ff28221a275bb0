#pragma once
// Fleet: the door before one or several engines, each over a replica of the same model.
//
// It owns a request from submit() to its last event. With several engines requests wait here, by priority and then by
// arrival, and go to an engine that has room for them; with one they wait in the engine, and nothing is changed but
// this: where a runner is lost, what it computed goes back to the front of the queue and on behind the tokens that were
// delivered, in another engine or with the runner's successor. Its events continue as if nothing had been (law 1), so
// the client sees a pause. docs/fleet.md.
//
// Guarantees: those of batch::Engine for ids, order of events and final events. A request is in one engine at most; one
// that was lost more than resumes_max times fails with the runner's error, kGeneration.
//
// Thread rule: all methods of Fleet from any thread. Sinks are called by the threads of the engines and by the fleet's
// own, for a sequence by one at a time.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "batch/engine.h"
#include "batch/handover.h"
#include "batch/queued_by_priority.h"
#include "fleet/bell.h"
#include "fleet/live_target.h"
#include "fleet/plan/disaggregation.h"
#include "fleet/plan/line_fit.h"
#include "fleet/plan/load_history.h"
#include "fleet/prefix_hints.h"
#include "fleet/replica_observer.h"
#include "fleet/state/replica_state.h"
#include "fleet/stay.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace coxswain::fleet {

struct FleetOptions {
  // Of all that wait, here and in the engines; where there is one engine it looks after its own queue.
  std::uint32_t queue_requests_max = 1024;
  std::size_t queue_tokens_max = std::size_t{16} << 20;
  // How often a sequence goes on after its runner was lost.
  std::uint32_t resumes_max = 3;
  // Shorter prompts are computed where it goes on: they leave no whole block to hand over.
  std::size_t apart_tokens_min = 1;
  Disaggregation disaggregation = Disaggregation::kStatic;
  // Why replicas cannot have roles; well where they can.
  Status no_roles = {};
  // Between the deadline of a replica's drain and the moment when what is still there is computed elsewhere.
  std::chrono::milliseconds migrate_grace = ReplicaConfig{}.migrate_grace;
};

// One engine to be.
struct FleetMember {
  // The engine tells the observer that it is given, which tells `observer`.
  std::function<std::unique_ptr<batch::Engine>(batch::EngineObserver&)> make_engine;
  batch::EngineObserver& observer;
  std::size_t step_prompt_tokens = 256;  // that a step has room for
  bool resumes = true;  // Capabilities::takes_ids: can go on behind delivered tokens
  // What it is for: prefill, decode or mixed. One that only computes prompts hands each sequence on to one that
  // generates, behind the first token and with its blocks (batch/handover.h). Where none of the right kind serves, any
  // other does its work.
  Role role = Role::kMixed;
  // False: its runner answers nothing, and it is given no work until cancel_drain().
  bool present = true;
};

// What is known of a replica, for people.
struct ReplicaStatus {
  batch::EngineStats stats = {};
  Role role = Role::kMixed;
  std::uint64_t incarnation = 1;  // runners that it has had; 0: none yet
  std::size_t n_stays = 0;        // requests, or sequences of such, that its engine has
  std::size_t n_arriving = 0;     // of these, or to be, whose blocks are on their way to it
  std::size_t n_for_others = 0;   // of these, such that others go on with
  std::size_t n_leaving = 0;      // in no engine, whose blocks it has
  Drain drain = {};               // over where it has nothing any more
  LiveTarget::State live = {};    // what it has of its weights, and does meanwhile
};

// Prompts whose first layers a replica has computed that was loading.
struct DividedPrompts {
  std::uint64_t n_moved = 0;       // another one has computed the others
  std::uint64_t n_layers = 0;      // of these, the first ones
  std::uint64_t n_finished = 0;    // where they were begun, when all layers had come
  std::uint64_t n_recomputed = 0;  // all of it, by another one
};

struct FleetStatus {
  std::vector<ReplicaStatus> replicas;
  std::size_t n_requests = 0;  // accepted and unanswered
  std::size_t n_waiting = 0;   // of these, or of their sequences, in no engine
  std::size_t n_resuming = 0;  // of those that wait, such that were lost before
  std::uint64_t n_resumed = 0;
  batch::HandoverStats handovers = {};
  std::uint64_t n_together = 0;  // prompts that Disaggregation::kAuto left where their answers are
  DividedPrompts divided = {};
};

// Where a request is now.
struct RequestPlace {
  RequestId id{};
  std::vector<std::size_t> replicas = {};  // whose engines have a part of it, each once, in order
  bool running = false;                    // a step has had one of these parts
};

// What a planner is told beside the status.
struct FleetLoad {
  std::uint64_t waiting_tokens = 0;  // of prompts that no step has begun with
  std::uint64_t arrived_tokens = 0;  // of prompts, since the beginning
  double arrived_squares = 0.0;      // of what each request brought
  // Seconds that each further prompt token takes to compute, and each to be handed over to a replica that takes as many
  // sequences at once as it may; 0 = unknown.
  double prompt_token_s = 0;
  double transfer_token_s = 0;
  Latencies latencies = {};
};

class Fleet final : public batch::RequestDoor, private batch::EventOutlet {
 public:
  struct Parts {
    telemetry::Logger& log;
    telemetry::Metrics* metrics = nullptr;
    // A request has come, and there was none; or one waits while no replica serves. Must not block.
    std::function<void()> on_work = {};
  };

  // `transport` carries what is handed over; without one it passes through this process. REQUIRES: 1 to 64 members.
  Fleet(const std::vector<FleetMember>& members,
        const FleetOptions& options,
        Parts parts,
        std::unique_ptr<BlockTransport> transport = {});
  // Cancels what is left, each with its final event.
  ~Fleet() override;

  Status submit(batch::GenerationRequest request, std::shared_ptr<batch::TokenSink> sink) override;
  void cancel(RequestId id) override;

  // Refuses new requests; true once all are answered and neither a step nor a hand-over names their blocks, false when
  // `grace` has passed.
  bool drain(std::chrono::milliseconds grace);

  // From now on work is placed by the new role. What a replica that begins to compute prompts alone was generating is
  // handed on, where somebody else generates; several sequences of one request and beams end where they are, as do the
  // prompts of one that becomes a decode replica. Errors: kInvalidArgument, with the field: no such replica, or nobody
  // would compute prompts or generate; FleetOptions::no_roles.
  Status set_role(std::size_t replica, Role role);
  // Nothing new is placed there. What is there at `deadline` goes on elsewhere: handed over with its blocks where they
  // can move, else, and what is left migrate_grace later, computed again; no client sees it. While no other replica
  // serves it stays. A further one changes a deadline that has not passed. Errors: kInvalidArgument: no such replica;
  // kFailedPrecondition: it is the last that serves, unless requests may wait for a start and there is none.
  Status begin_drain(std::size_t replica, TimePoint deadline);
  // It is given work again. Errors: kInvalidArgument.
  Status cancel_drain(std::size_t replica);

  // For those whom somebody else starts and ends. admit(): it is given work again, in this role, whoever else there is;
  // mixed where there are no roles. dismiss(): begin_drain() at once, and of the last that serves, too: what it has
  // stays until another one serves. Errors: kInvalidArgument: no such replica.
  Status admit(std::size_t replica, Role role);
  Status dismiss(std::size_t replica);

  // What becomes of requests while no replica serves. Well: they wait, whoever says so starts one for them, and no role
  // has to be there. Otherwise, and until something is said, they are refused with it; if none serves when it is said,
  // what waits here ends with it.
  void when_none_serves(const Status& door);
  Status when_none_serves() const;

  std::size_t n_replicas() const { return replicas_.size(); }
  // For those who watch over a replica. Requests come through submit().
  batch::Engine& engine(std::size_t replica) { return *replicas_[replica]->engine; }
  FleetStatus status() const;
  // Of all that are accepted and unanswered, in no order.
  std::vector<RequestPlace> places() const;
  // Latencies are those of the `window` before `now`.
  FleetLoad load(TimePoint now, std::chrono::milliseconds window) const;

 private:
  // On their way to one replica at once. Two pieces move at a time; the others keep these two moving.
  static constexpr std::size_t kArrivingMax = 4;

  struct Replica {
    std::unique_ptr<ReplicaObserver> observer;
    std::unique_ptr<batch::Engine> engine;
    std::shared_ptr<LiveTarget> live;  // null where nothing is handed over
    std::size_t step_prompt_tokens = 0;
    bool resumes = true;
    std::atomic<std::uint64_t> incarnation{1};
    Role role = Role::kMixed;      // guarded by mu_
    Drain drain{};                 // guarded by mu_
    bool moved_on = false;         // the drain's second deadline has passed; guarded by mu_
    std::size_t n_stays = 0;       // guarded by mu_
    std::size_t n_arriving = 0;    // of these or to be, blocks are on their way; guarded by mu_
    std::size_t n_ahead = 0;       // of n_arriving, while they are computed; guarded by mu_
    std::size_t n_submitting = 0;  // of these, that the engine does not count yet; guarded by mu_
    std::uint64_t n_apart_tokens = 0;  // of prompts that it computes for others; guarded by mu_
  };
  enum class Placed : std::uint8_t { kYes, kNoRoom, kRefused };
  struct Placement {
    Placed placed = Placed::kYes;
    Status refusal;
  };
  using StayPtr = std::shared_ptr<Stay>;
  // What is under way from a replica that has computed a prompt to the one that goes on.
  struct Transfer {
    StayPtr stay;
    Parked parked;
    std::size_t to = 0;
    bool divided = false;  // it comes from a LiveTarget
  };
  // A prompt that its LiveTarget is to give.
  struct Taking {
    StayPtr stay;
    TimePoint until{};
  };

  void on_events(std::span<batch::SinkEvent> events) override;
  bool passes(Stay& stay, batch::TokenEvent& event);
  StayPtr depart(Stay& stay, batch::TokenEvent& event);
  bool goes_on(const Stay& stay, const batch::TokenEvent& event) const REQUIRES(mu_);
  void leave_engine(Stay& stay) REQUIRES(mu_);
  void go_on(Stay& stay, const batch::TokenEvent& event, std::size_t replica) REQUIRES(mu_);
  bool answer(Stay& stay, batch::TokenEvent& event) REQUIRES(mu_);

  std::unique_ptr<Replica> make_replica(const FleetMember& member);
  Status check_taken(const batch::GenerationRequest& request) const REQUIRES(mu_);
  Status check_room(const batch::GenerationRequest& request) const REQUIRES(mu_);
  bool can_be_apart(const Stay& stay) const REQUIRES(mu_);
  bool is_apart(const Stay& stay) const REQUIRES(mu_);
  std::optional<PromptCase> prompt_case(const Stay& stay) const REQUIRES(mu_);
  PromptSite site_of(std::size_t replica, const Stay& stay) const REQUIRES(mu_);
  static bool suits(const Replica& replica, const Stay& stay);
  bool has_room(const Replica& replica, const batch::EngineStats& stats, const Stay& stay) const
      REQUIRES(mu_);
  bool may_go_via(const Stay& stay) const REQUIRES(mu_);
  std::optional<std::size_t> choose(const Stay& stay) const REQUIRES(mu_);
  Placement place(const StayPtr& stay);
  std::optional<std::size_t> board(const StayPtr& stay) REQUIRES(mu_);
  void hand_over(const StayPtr& stay);
  void vacate(Stay& stay) REQUIRES(mu_);
  void begin_transfer(const StayPtr& stay, bool divided = false) REQUIRES(mu_);
  void drop_parked(Stay& stay) REQUIRES(mu_);
  void arrive(const Transfer& transfer, const batch::HandoverResult& result);
  void count(const batch::HandoverResult& result) const;
  void note_transfer(const Transfer& transfer, const batch::HandoverResult& result) REQUIRES(mu_);
  void note_prompts(const batch::StepFinished& step);
  void note_admitted(RequestId engine_id);
  void wait(const StayPtr& stay) REQUIRES(mu_);

  void note_arrival(const FleetRequest& request) REQUIRES(mu_);
  void note_latency(const FleetRequest& request, const batch::TokenEvent& event) REQUIRES(mu_);

  Status check_replica(std::size_t replica) const;
  bool serves(std::size_t replica) const REQUIRES(mu_);
  bool any_serves() const REQUIRES(mu_);
  bool any_other_serves(std::size_t replica) const REQUIRES(mu_);
  // Any but those that have refused it.
  bool others_serve(const Stay& stay) const REQUIRES(mu_);
  bool has_roles() const REQUIRES(mu_);
  bool can_recall(const Stay& stay) const REQUIRES(mu_);
  void recall(const StayPtr& stay, bool hands_on) REQUIRES(mu_);
  void recall_generating(std::size_t replica) REQUIRES(mu_);
  void recall_all(std::size_t replica, bool hands_on) REQUIRES(mu_);
  void drain_from(std::size_t replica, TimePoint deadline) REQUIRES(mu_);
  void open(std::size_t replica) REQUIRES(mu_);
  void drain_replicas(TimePoint now) REQUIRES(mu_);

  void loop();
  std::optional<std::chrono::milliseconds> look();
  void recall_from_lost() REQUIRES(mu_);
  std::vector<batch::SinkEvent> end_overdue(TimePoint now) REQUIRES(mu_);
  void end_waiting(const StayPtr& stay, const Status& why, std::vector<batch::SinkEvent>& events)
      REQUIRES(mu_);
  bool place_first();
  // fleet_ahead.cc
  using Front = std::shared_ptr<const batch::ParkedContext>;
  std::function<void(Front)> notes_ahead(const StayPtr& stay, std::size_t from);
  void note_ahead(const StayPtr& stay, std::size_t from, Front front);
  void pass_ahead(const StayPtr& stay) REQUIRES(mu_);
  std::optional<std::size_t> choose_ahead(const StayPtr& stay, const Front& front) REQUIRES(mu_);
  void arrive_ahead(const StayPtr& stay,
                    const std::shared_ptr<Ahead>& ahead,
                    const batch::HandoverResult& result);
  void end_ahead(Ahead& ahead) REQUIRES(mu_);
  void cancel_ahead(Stay& stay) REQUIRES(mu_);
  // fleet_live.cc
  bool is_loading(std::size_t replica) const;
  bool may_load(std::size_t replica) const REQUIRES(mu_);
  bool is_open(std::size_t replica, bool any_whole) const REQUIRES(mu_);
  bool is_target(std::size_t replica) const REQUIRES(mu_);
  bool any_target() const REQUIRES(mu_);
  bool any_whole() const REQUIRES(mu_);
  bool stays_with_target(const Stay& stay) const REQUIRES(mu_);
  bool is_finished(const Stay& stay) const REQUIRES(mu_);
  bool takes_from_target(const Stay& stay) REQUIRES(mu_);
  void take(const StayPtr& stay) REQUIRES(mu_);
  void taken(std::uint64_t number, std::size_t from, const LiveTarget::Parked& parked);
  void forget_live(Stay& stay) REQUIRES(mu_);
  void give_up_taking(TimePoint now) REQUIRES(mu_);
  TimePoint follow_loads(TimePoint now) REQUIRES(mu_);
  bool feed_targets(TimePoint now) REQUIRES(mu_);
  bool may_be_divided(const Stay& stay) const REQUIRES(mu_);
  bool place_finished();
  void count_divided(const Transfer& transfer, const batch::HandoverResult& result) REQUIRES(mu_);
  bool place_waiting(const StayPtr& stay);
  void enqueue(const StayPtr& stay) REQUIRES(mu_);
  void wait_no_more(const Stay& stay) REQUIRES(mu_);  // idempotent
  void note_waiting() REQUIRES(mu_);

  const FleetOptions options_;
  const Parts parts_;
  Bell bell_;
  PrefixHints hints_;  // its changing part is guarded by mu_
  std::vector<std::unique_ptr<Replica>> replicas_;
  mutable base::Mutex mu_;
  base::CondVar answered_;
  std::unordered_map<std::uint64_t, std::shared_ptr<FleetRequest>> requests_ GUARDED_BY(mu_);
  std::map<Stay::Rank, StayPtr> waiting_ GUARDED_BY(mu_);
  batch::QueuedByPriority waiting_by_priority_ GUARDED_BY(mu_);
  std::uint64_t next_arrival_ GUARDED_BY(mu_) = 0;
  std::uint64_t next_engine_id_ GUARDED_BY(mu_) = 1;
  std::uint64_t n_resumed_ GUARDED_BY(mu_) = 0;
  std::uint64_t n_together_ GUARDED_BY(mu_) = 0;
  DividedPrompts divided_ GUARDED_BY(mu_);
  std::map<std::uint64_t, Taking> taking_ GUARDED_BY(mu_);
  std::uint64_t next_taking_ GUARDED_BY(mu_) = 1;
  std::uint64_t n_arrived_tokens_ GUARDED_BY(mu_) = 0;
  double arrived_squares_ GUARDED_BY(mu_) = 0.0;
  LatencyWindow latencies_ GUARDED_BY(mu_);
  LineFit transfer_cost_ GUARDED_BY(mu_);  // seconds over tokens that moved
  TimePoint last_transfer_ GUARDED_BY(mu_){};
  Status none_serves_ GUARDED_BY(mu_){
      Code::kUnavailable, ErrorKind::kUnavailable, "no model runner is available"};
  bool turns_away_ GUARDED_BY(mu_) = false;  // what waits is to end with none_serves_
  bool draining_ GUARDED_BY(mu_) = false;
  bool ending_ GUARDED_BY(mu_) = false;
  std::unique_ptr<batch::HandoverService> handovers_;  // null where there can be no roles
  std::atomic<bool> any_waiting_{false};
  mutable base::Mutex cost_mu_;               // held for nothing else, inside of mu_
  LineFit prompt_cost_ GUARDED_BY(cost_mu_);  // seconds over prompt tokens of a step
  mutable base::Mutex begun_mu_;              // likewise
  // By the engine_id of each stay that is in an engine: whether a step has had it.
  std::unordered_map<std::uint64_t, bool> begun_ GUARDED_BY(begun_mu_);
  std::optional<telemetry::QueuePart> queue_part_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace coxswain::fleet
