#include "rpc/step_stream.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <proto/engine_v1.pb.h>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "rpc/attachment_owners.h"
#include "rpc/convert.h"
#include "rpc/kept_attachments.h"
#include "rpc/message_room.h"
#include "rpc/plan_check.h"
#include "rpc/runner_gate.h"

namespace coxswain::rpc {

namespace {

// Of a stream, whatever the runner says; the runner's own limit is checked beside it.
constexpr std::size_t kUnansweredMax = 16;

// A plan as it came: to be run, or wrong.
struct Incoming {
  std::uint64_t step = 0;
  std::uint64_t stream = 0;
  bool early = false;  // first tokens are wanted ahead
  Status status;
  StepPlan plan;
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

// The plans of one stream. They are submitted as they come, so that the runner has the next one when a step ends, and
// answered in order.
class StepLoop {
 public:
  StepLoop(const StepStreamParts& parts, StepCarrier& carrier)
      : runner_(parts.runner),
        owners_(parts.owners),
        info_(runner_.info()),
        in_flight_max_(info_.capabilities.look_ahead ? unanswered_max(info_) : 1),
        message_bytes_max_(parts.message_bytes_max),
        carrier_(carrier) {}

  // Of the thread that reads. Waits until the runner has room. False: too many plans are unanswered.
  bool take(Incoming in) {
    base::MutexLock lock(mu_);
    if (++n_unanswered_ > unanswered_max(info_)) return false;
    changed_.wait(lock,
                  [&]() REQUIRES(mu_) { return ended_ || in_flight_.size() < in_flight_max_; });
    if (ended_) return true;
    start(std::move(in));
    lock.unlock();
    changed_.notify_all();
    return true;
  }
  // Of the same: no more plans come, and nobody waits for answers.
  void close() {
    {
      const base::MutexLock lock(mu_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  // Returns when it is closed or the peer is gone, which it says; the runner then holds nothing of this stream.
  bool run() {
    bool is_there = true;
    while (is_there) {
      const Started* oldest = wait_for_plan();
      if (oldest == nullptr) break;
      is_there = finish(*oldest);
    }
    drop_everything();
    return is_there;
  }

 private:
  struct Started {
    std::uint64_t step = 0;
    Result<StepTicket> ticket;
    std::vector<std::uint64_t> used;  // attachments that it reads
    std::vector<SequenceId> dropped;
    std::vector<std::size_t> first;  // rows whose tokens are wanted early
  };

  void start(Incoming in) REQUIRES(mu_) {
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

  // The oldest one, which stays where it is until settle(). Null: it is closed.
  const Started* wait_for_plan() {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return closed_ || !in_flight_.empty(); });
    return closed_ ? nullptr : &in_flight_.front();
  }

  Result<StepResult> wait_for(const Started& plan) {
    if (!plan.ticket.ok()) return plan.ticket.status();
    return runner_.wait(*plan.ticket);
  }

  // False if the peer is gone.
  bool finish(const Started& plan) {
    const std::uint64_t step = plan.step;
    auto result = wait_for(plan);
    const bool is_there = !result.ok() || write_first_tokens(plan, *result);
    settle(plan, result);
    if (!is_there) return false;
    auto& response = room_.make<pb::StepsResponse>();
    if (result.ok()) {
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
    return carrier_.write(response);
  }

  // Ahead of all that is done with the other rows. False if the peer is gone.
  bool write_first_tokens(const Started& plan, const StepResult& result) {
    StepResult first{.step = result.step, .epoch = result.epoch};
    for (const std::size_t row : plan.first) {
      if (row < result.sequences.size() && is_plain(result.sequences[row]))
        first.sequences.push_back(result.sequences[row]);
    }
    if (first.sequences.empty()) return true;
    auto& response = room_.make<pb::StepsResponse>();
    to_proto(first, *response.mutable_early());
    // Then the result is, too, and is refused by finish() without harm to the stream.
    if (response.ByteSizeLong() > message_bytes_max_) return true;
    return carrier_.write(response);
  }

  // Before the peer can know of it. `plan` is gone then.
  void settle(const Started& plan, const Result<StepResult>& result) {
    {
      const base::MutexLock lock(mu_);
      if (result.ok()) {  // a step that failed may have used up and dropped nothing
        for (const std::uint64_t id : plan.used) owners_.remove(id);
        for (const SequenceId id : plan.dropped) live_.erase(id);
        for (const SequenceResult& sequence : result->sequences) {
          if (!sequence.status.ok()) live_.erase(sequence.sequence);
        }
      }
      in_flight_.pop_front();
      --n_unanswered_;
    }
    changed_.notify_all();
  }

  void drop_everything() {
    const base::MutexLock lock(mu_);
    ended_ = true;
    changed_.notify_all();
    for (const Started& started : in_flight_) (void)wait_for(started);
    in_flight_.clear();
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
  MessageRoom room_;  // of the thread that answers

  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<Started> in_flight_ GUARDED_BY(mu_);
  std::size_t n_unanswered_ GUARDED_BY(mu_) = 0;
  std::set<SequenceId> live_ GUARDED_BY(mu_);  // brought by this stream and not dropped yet
  std::uint64_t last_step_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;  // nothing more comes
  bool ended_ GUARDED_BY(mu_) = false;   // nothing more is taken
};

}  // namespace

bool serve_steps(const StepStreamParts& parts, StepCarrier& carrier) {
  auto lease = parts.gate.open_stream([&carrier] { carrier.cut(); });
  if (!lease) return false;
  parts.log.info("an engine stream is open");

  const RunnerInfo info = parts.runner.info();
  StepLoop loop(parts, carrier);
  std::thread executor([&] {
    base::name_thread("steps");
    if (!loop.run()) carrier.cut();  // the read below must end, too
  });
  pb::StepsRequest message;
  std::uint64_t stream_id = 0;
  while (carrier.read(message)) {
    if (message.stream() != 0) stream_id = message.stream();
    Incoming plan = read_plan(message, info);
    plan.stream = stream_id;
    plan.early = message.early();
    if (!loop.take(std::move(plan))) {
      parts.log.warn("an engine stream is cut: too many plans were unanswered");
      carrier.cut();
      break;
    }
  }
  loop.close();
  executor.join();
  for (const std::uint64_t id : parts.owners.remove_stream(stream_id)) {
    parts.kept.erase(id);
    (void)parts.runner.detach(id);
  }
  parts.log.info("an engine stream has ended");
  return true;
}

}  // namespace coxswain::rpc
