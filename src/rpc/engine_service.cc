#include "rpc/engine_service.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>

#include "base/bounded_queue.h"
#include "rpc/convert.h"
#include "rpc/plan_check.h"

namespace coxswain::rpc {

namespace {

constexpr std::size_t kUnansweredMax = 2;

// A plan as it came: to be run, or wrong.
struct Incoming {
  std::uint64_t step = 0;
  Status status;
  StepPlan plan;
};

// What the two threads of a stream share.
struct StreamState {
  base::BoundedQueue<Incoming> plans{kUnansweredMax};
  std::atomic<std::size_t> n_unanswered{0};
  std::atomic<bool> stopped{false};  // nothing more is to be run
};

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

// Runs the plans of one stream in order and answers each.
class StepLoop {
 public:
  using Write = std::function<bool(const pb::StepsResponse&)>;

  StepLoop(StepRunner& runner, std::size_t message_bytes_max, Write write)
      : runner_(runner),
        info_(runner.info()),
        in_flight_max_(info_.capabilities.look_ahead ? kUnansweredMax : 1),
        message_bytes_max_(message_bytes_max),
        write_(std::move(write)) {}

  // Returns when the plans are closed or the peer is gone; the runner then holds nothing of this
  // stream.
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
  };

  void start(Incoming in) {
    last_step_ = in.step;
    if (!in.status.ok()) {
      in_flight_.push_back({in.step, in.status});
      return;
    }
    for (const SequenceSpec& spec : in.plan.new_sequences) live_.insert(spec.id);
    std::vector<SequenceId> dropped = in.plan.dropped;
    in_flight_.push_back({in.step, runner_.submit(std::move(in.plan))});
    // A refused plan may not have dropped anything.
    if (in_flight_.back().ticket.ok()) {
      for (const SequenceId id : dropped) live_.erase(id);
    }
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
    in_flight_.pop_front();
    // The next plan, which has come meanwhile, starts before this answer is written.
    for (Incoming& next : state.plans.drain()) pending_.push_back(std::move(next));
    if (!pending_.empty()) {
      start(std::move(pending_.front()));
      pending_.pop_front();
    }
    pb::StepsResponse response;
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
    return write_(response);
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
  const RunnerInfo info_;
  const std::size_t in_flight_max_;
  const std::size_t message_bytes_max_;
  const Write write_;
  std::deque<Incoming> pending_;   // at most two
  std::deque<Started> in_flight_;  // at most two
  std::set<SequenceId> live_;      // brought by this stream and not dropped yet
  std::uint64_t last_step_ = 0;
};

class EngineService final : public pb::Engine::Service {
 public:
  EngineService(StepRunner& runner,
                RunnerGate& gate,
                std::size_t message_bytes_max,
                telemetry::Logger& log)
      : runner_(runner), gate_(gate), message_bytes_max_(message_bytes_max), log_(log) {}

  grpc::Status Info(grpc::ServerContext*,
                    const pb::InfoRequest*,
                    pb::InfoResponse* response) override {
    to_proto(runner_.info(), *response);
    return grpc::Status::OK;
  }

  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<pb::StepsResponse, pb::StepsRequest>* stream) override {
    auto lease = gate_.open_stream([context] { context->TryCancel(); });
    if (!lease) return {grpc::StatusCode::ABORTED, "displaced by a newer stream"};
    log_.info("an engine stream is open");

    const RunnerInfo info = runner_.info();
    StreamState state;
    StepLoop loop(runner_, message_bytes_max_, [&](const pb::StepsResponse& response) {
      return stream->Write(response);
    });
    std::thread executor([&] {
      loop.run(state);
      // If the peer is gone, the read below must end too.
      if (!state.stopped.exchange(true)) context->TryCancel();
    });
    pb::StepsRequest message;
    while (stream->Read(&message)) {
      Incoming plan = read_plan(message, info);
      if (++state.n_unanswered > kUnansweredMax || !state.plans.try_push(plan)) {
        log_.warn("an engine stream is cut: more than two plans were unanswered");
        context->TryCancel();
        break;
      }
    }
    state.stopped = true;
    state.plans.close();
    executor.join();
    log_.info("an engine stream has ended");
    return grpc::Status::OK;
  }

 private:
  StepRunner& runner_;
  RunnerGate& gate_;
  const std::size_t message_bytes_max_;
  telemetry::Logger& log_;
};

}  // namespace

std::shared_ptr<grpc::Service> make_engine_service(StepRunner& runner,
                                                   RunnerGate& gate,
                                                   std::size_t message_bytes_max,
                                                   telemetry::Logger& log) {
  return std::make_shared<EngineService>(runner, gate, message_bytes_max, log);
}

}  // namespace coxswain::rpc
