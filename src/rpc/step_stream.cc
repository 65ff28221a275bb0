#include "rpc/step_stream.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <proto/engine_v1.pb.h>

#include "base/bounded_queue.h"
#include "base/thread_name.h"
#include "rpc/attachment_owners.h"
#include "rpc/convert.h"
#include "rpc/kept_attachments.h"
#include "rpc/message_room.h"
#include "rpc/plan_check.h"
#include "rpc/runner_gate.h"

namespace coxswain::rpc {

namespace {

// Queue of a stream, whatever the runner says; the runner's own limit is checked beside it.
constexpr std::size_t kUnansweredMax = 16;

// A plan as it came: to be run, or wrong.
struct Incoming {
  std::uint64_t step = 0;
  std::uint64_t stream = 0;
  bool early = false;  // first tokens are wanted ahead
  Status status;
  StepPlan plan;
};

// What the two threads of a stream share.
struct StreamState {
  base::BoundedQueue<Incoming> plans{kUnansweredMax};
  std::atomic<std::size_t> n_unanswered{0};
  std::atomic<bool> stopped{false};  // nothing more is to be run
};

std::size_t unanswered_max(const RunnerInfo& info) {
  return std::clamp<std::size_t>(info.capabilities.plans_in_flight_max, 1, kUnansweredMax);
}

Incoming read_plan(const pb::StepsRequest& message, const RunnerInfo& info) {
  Incoming in{.step = message.plan().step(), .status = {}, .plan = {}};
  auto plan = from_proto(message.plan());
  if (!plan.ok()) {
    in.status = plan.status();
  } else if (plan->epoch != info.epoch) {
    in.status = Status(Code::kUnavailable,
                       ErrorKind::kUnavailable,
                       "epoch " + std::to_string(plan->epoch) + " is over, this shard is in " +
                           std::to_string(info.epoch));
  } else if (in.status = check_plan(*plan, info); in.status.ok()) {
    in.plan = std::move(plan).value();
  }
  return in;
}

// A result of fewer rows is not divided.
constexpr std::size_t kEarlyRowsMin = 16;

// The first token of a sequence that goes on, and nothing else that somebody would have to keep.
bool is_plain(const SequenceResult& sequence) {
  return sequence.status.ok() && !sequence.tokens.empty() && !sequence.finish &&
         sequence.prompt.empty() && sequence.outputs == nullptr;
}

// Rows that sample behind a prompt, by their place in the plan, if there are so many others that it pays.
std::vector<std::size_t> first_token_rows(const StepPlan& plan) {
  std::vector<std::size_t> out;
  if (plan.rows.size() < kEarlyRowsMin) return out;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    if (plan.rows[i].emit == Emit::kSample && !plan.rows[i].continues) out.push_back(i);
  }
  return out;
}

// Runs the plans of one stream in order and answers each.
class StepLoop {
 public:
  StepLoop(const StepStreamParts& parts, StepCarrier& carrier)
      : runner_(parts.runner),
        owners_(parts.owners),
        info_(runner_.info()),
        in_flight_max_(info_.capabilities.look_ahead ? unanswered_max(info_) : 1),
        message_bytes_max_(parts.message_bytes_max),
        carrier_(carrier) {}

  // Returns when the plans are closed or the peer is gone; the runner then holds nothing of this stream.
  void run(StreamState& state) {
    while (!state.stopped) {
      if (in_flight_.empty() && pending_.empty()) {
        auto first = state.plans.pop();
        if (!first) break;
        pending_.push_back(std::move(*first));
      }
      for (Incoming& next : state.plans.drain()) pending_.push_back(std::move(next));
      while (!pending_.empty() && in_flight_.size() < in_flight_max_) {
        start(std::move(pending_.front()));
        pending_.pop_front();
      }
      if (!finish_oldest(state)) break;
    }
    drop_everything();
  }

 private:
  struct Started {
    std::uint64_t step = 0;
    Result<StepTicket> ticket;
    std::vector<std::uint64_t> used;  // attachments that it reads
    std::vector<SequenceId> dropped;
    std::vector<std::size_t> first;  // rows whose tokens are wanted early
  };

  void start(Incoming in) {
    last_step_ = in.step;
    if (!in.status.ok()) {
      in_flight_.push_back({in.step, in.status, {}, {}, {}});
      return;
    }
    for (const SequenceSpec& spec : in.plan.new_sequences) live_.insert(spec.id);
    for (const SequenceEdit& edit : in.plan.edits) live_.insert(edit.sequence);
    for (const BlockTransfer& transfer : in.plan.exports)
      owners_.add(transfer.attachment, in.stream);
    if (in.plan.hidden_out != 0) owners_.add(in.plan.hidden_out, in.stream);
    std::vector<std::uint64_t> used;
    used.reserve(in.plan.imports.size() + 1);
    for (const BlockTransfer& transfer : in.plan.imports) used.push_back(transfer.attachment);
    if (in.plan.hidden_in != 0) used.push_back(in.plan.hidden_in);
    std::vector<SequenceId> dropped = in.plan.dropped;
    std::vector<std::size_t> first =
        in.early ? first_token_rows(in.plan) : std::vector<std::size_t>();
    in_flight_.push_back({in.step,
                          runner_.submit(std::move(in.plan)),
                          std::move(used),
                          std::move(dropped),
                          std::move(first)});
  }

  Result<StepResult> take_oldest() {
    const Result<StepTicket> ticket = std::move(in_flight_.front().ticket);
    if (!ticket.ok()) return ticket.status();
    return runner_.wait(*ticket);
  }

  // False if the peer is gone.
  bool finish_oldest(StreamState& state) {
    const std::uint64_t step = in_flight_.front().step;
    auto result = take_oldest();
    const bool is_there = !result.ok() || write_first_tokens(*result);
    if (result.ok()) {  // a step that failed may have used up and dropped nothing
      for (const std::uint64_t id : in_flight_.front().used) owners_.remove(id);
      for (const SequenceId id : in_flight_.front().dropped) live_.erase(id);
    }
    in_flight_.pop_front();
    if (!is_there) return false;
    // The next plan, which has come meanwhile, starts before this answer is written.
    for (Incoming& next : state.plans.drain()) pending_.push_back(std::move(next));
    if (!pending_.empty()) {
      start(std::move(pending_.front()));
      pending_.pop_front();
    }
    auto& response = room_.make<pb::StepsResponse>();
    if (result.ok()) {
      for (const SequenceResult& sequence : result->sequences) {
        if (!sequence.status.ok()) live_.erase(sequence.sequence);
      }
      to_proto(*result, *response.mutable_result());
      if (response.ByteSizeLong() > message_bytes_max_) {
        result = Status(Code::kResourceExhausted,
                        ErrorKind::kInternal,
                        "the result of the step is too large to be sent");
      }
    }
    if (!result.ok()) {
      response.mutable_failure()->set_step(step);
      to_proto(result.status(), *response.mutable_failure()->mutable_status());
    }
    --state.n_unanswered;  // before the peer can know
    return carrier_.write(response);
  }

  // Ahead of all that is done with the other rows. False if the peer is gone.
  bool write_first_tokens(const StepResult& result) {
    StepResult first{.step = result.step, .epoch = result.epoch};
    for (const std::size_t row : in_flight_.front().first) {
      if (row < result.sequences.size() && is_plain(result.sequences[row]))
        first.sequences.push_back(result.sequences[row]);
    }
    if (first.sequences.empty()) return true;
    auto& response = room_.make<pb::StepsResponse>();
    to_proto(first, *response.mutable_early());
    // Then the result is, too, and is refused below without harm to the stream.
    if (response.ByteSizeLong() > message_bytes_max_) return true;
    return carrier_.write(response);
  }

  void drop_everything() {
    while (!in_flight_.empty()) {
      (void)take_oldest();
      in_flight_.pop_front();
    }
    if (live_.empty()) return;
    StepPlan plan;
    plan.step = last_step_ + 1;
    plan.epoch = info_.epoch;
    plan.dropped.assign(live_.begin(), live_.end());
    (void)runner_.run(std::move(plan));
  }

  StepRunner& runner_;
  AttachmentOwners& owners_;
  const RunnerInfo info_;
  const std::size_t in_flight_max_;
  const std::size_t message_bytes_max_;
  StepCarrier& carrier_;
  std::deque<Incoming> pending_;   // at most unanswered_max()
  std::deque<Started> in_flight_;  // likewise
  std::set<SequenceId> live_;      // brought by this stream and not dropped yet
  std::uint64_t last_step_ = 0;
  MessageRoom room_;
};

}  // namespace

bool serve_steps(const StepStreamParts& parts, StepCarrier& carrier) {
  auto lease = parts.gate.open_stream([&carrier] { carrier.cut(); });
  if (!lease) return false;
  parts.log.info("an engine stream is open");

  const RunnerInfo info = parts.runner.info();
  StreamState state;
  StepLoop loop(parts, carrier);
  std::thread executor([&] {
    base::name_thread("steps");
    loop.run(state);
    // If the peer is gone, the read below must end too.
    if (!state.stopped.exchange(true)) carrier.cut();
  });
  pb::StepsRequest message;
  std::uint64_t stream_id = 0;
  while (carrier.read(message)) {
    if (message.stream() != 0) stream_id = message.stream();
    Incoming plan = read_plan(message, info);
    plan.stream = stream_id;
    plan.early = message.early();
    if (++state.n_unanswered > unanswered_max(info) || !state.plans.try_push(plan)) {
      parts.log.warn("an engine stream is cut: too many plans were unanswered");
      carrier.cut();
      break;
    }
  }
  state.stopped = true;
  state.plans.close();
  executor.join();
  for (const std::uint64_t id : parts.owners.remove_stream(stream_id)) {
    parts.kept.erase(id);
    (void)parts.runner.detach(id);
  }
  parts.log.info("an engine stream has ended");
  return true;
}

}  // namespace coxswain::rpc
