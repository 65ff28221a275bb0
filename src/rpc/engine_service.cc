#include "rpc/engine_service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <google/protobuf/arena.h>
#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>

#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "rpc/convert.h"
#include "rpc/kept_attachments.h"
#include "rpc/peer_fetch.h"
#include "rpc/plan_check.h"
#include "rpc/runner_gate.h"
#include "rpc/shared_bytes.h"
#include "rpc/ucx_carrier.h"
#include "rpc/weights_sender.h"

namespace coxswain::rpc {

namespace {

// Queue of a stream, whatever the runner says; the runner's own limit is checked beside it.
constexpr std::size_t kUnansweredMax = 16;
// Of an attachment, so that no message of it comes near the limit.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;
// Of an attachment's way by UCX.
constexpr std::chrono::seconds kUcxTimeMax{3};

// A plan as it came: to be run, or wrong.
struct Incoming {
  std::uint64_t step = 0;
  std::uint64_t stream = 0;
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

// Which stream an attachment goes with: those that a router brought or had made and did not take leave with it.
//
// Thread rule: any thread.
class AttachmentOwners {
 public:
  void add(std::uint64_t id, std::uint64_t stream) {
    base::MutexLock lock(mu_);
    stream_of_[id] = stream;
  }
  void remove(std::uint64_t id) {
    base::MutexLock lock(mu_);
    stream_of_.erase(id);
  }
  bool has(std::uint64_t id) {
    base::MutexLock lock(mu_);
    return stream_of_.contains(id);
  }
  std::vector<std::uint64_t> remove_stream(std::uint64_t stream) {
    base::MutexLock lock(mu_);
    std::vector<std::uint64_t> out;
    std::erase_if(stream_of_, [&](const auto& entry) {
      if (entry.second != stream) return false;
      out.push_back(entry.first);
      return true;
    });
    return out;
  }

 private:
  base::Mutex mu_;
  std::unordered_map<std::uint64_t, std::uint64_t> stream_of_ GUARDED_BY(mu_);
};

// Runs the plans of one stream in order and answers each.
class StepLoop {
 public:
  using Write = std::function<bool(const pb::StepsResponse&)>;

  StepLoop(StepRunner& runner, AttachmentOwners& owners, std::size_t message_bytes_max, Write write)
      : runner_(runner),
        owners_(owners),
        info_(runner.info()),
        in_flight_max_(info_.capabilities.look_ahead ? unanswered_max(info_) : 1),
        message_bytes_max_(message_bytes_max),
        write_(std::move(write)) {}

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
  };

  void start(Incoming in) {
    last_step_ = in.step;
    if (!in.status.ok()) {
      in_flight_.push_back({in.step, in.status, {}, {}});
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
    in_flight_.push_back(
        {in.step, runner_.submit(std::move(in.plan)), std::move(used), std::move(dropped)});
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
    if (result.ok()) {  // a step that failed may have used up and dropped nothing
      for (const std::uint64_t id : in_flight_.front().used) owners_.remove(id);
      for (const SequenceId id : in_flight_.front().dropped) live_.erase(id);
    }
    in_flight_.pop_front();
    // The next plan, which has come meanwhile, starts before this answer is written.
    for (Incoming& next : state.plans.drain()) pending_.push_back(std::move(next));
    if (!pending_.empty()) {
      start(std::move(pending_.front()));
      pending_.pop_front();
    }
    google::protobuf::Arena arena;  // a message of many rows is many small pieces
    auto& response = *google::protobuf::Arena::CreateMessage<pb::StepsResponse>(&arena);
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
  AttachmentOwners& owners_;
  const RunnerInfo info_;
  const std::size_t in_flight_max_;
  const std::size_t message_bytes_max_;
  const Write write_;
  std::deque<Incoming> pending_;   // at most unanswered_max()
  std::deque<Started> in_flight_;  // likewise
  std::set<SequenceId> live_;      // brought by this stream and not dropped yet
  std::uint64_t last_step_ = 0;
};

class EngineService final : public pb::Engine::Service {
 public:
  EngineService(const EngineServiceParts& parts,
                const security::PeerFiles& peer_files,
                std::size_t message_bytes_max)
      : kept_(parts.kept),
        ucx_(parts.ucx),
        fetch_(peer_files, message_bytes_max),
        runner_(parts.runner),
        gate_(parts.gate),
        weights_(parts.weights),
        message_bytes_max_(message_bytes_max),
        log_(parts.log) {}

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
    StepLoop loop(runner_, owners_, message_bytes_max_, [&](const pb::StepsResponse& response) {
      return stream->Write(response);
    });
    std::thread executor([&] {
      base::name_thread("steps");
      loop.run(state);
      // If the peer is gone, the read below must end too.
      if (!state.stopped.exchange(true)) context->TryCancel();
    });
    pb::StepsRequest message;
    std::uint64_t stream_id = 0;
    while (stream->Read(&message)) {
      if (message.stream() != 0) stream_id = message.stream();
      Incoming plan = read_plan(message, info);
      plan.stream = stream_id;
      if (++state.n_unanswered > unanswered_max(info) || !state.plans.try_push(plan)) {
        log_.warn("an engine stream is cut: too many plans were unanswered");
        context->TryCancel();
        break;
      }
    }
    state.stopped = true;
    state.plans.close();
    executor.join();
    for (const std::uint64_t id : owners_.remove_stream(stream_id)) (void)forget(id);
    log_.info("an engine stream has ended");
    return grpc::Status::OK;
  }

  grpc::Status Attach(grpc::ServerContext* context,
                      grpc::ServerReader<pb::AttachRequest>* reader,
                      pb::AttachResponse* response) override {
    const auto by = read_attachment(*context, *reader);
    if (!by.ok()) to_proto(by.status(), *response->mutable_status());
    response->set_by_ucx(by.ok() && *by == TakenBy::kUcx);
    return grpc::Status::OK;
  }

  grpc::Status Detach(grpc::ServerContext*,
                      const pb::DetachRequest* request,
                      pb::DetachResponse* response) override {
    Status status = check_epoch(request->epoch());
    if (status.ok()) status = forget(request->id());
    if (!status.ok()) to_proto(status, *response->mutable_status());
    owners_.remove(request->id());
    return grpc::Status::OK;
  }

  grpc::Status Take(grpc::ServerContext* context,
                    const pb::TakeRequest* request,
                    grpc::ServerWriter<pb::TakeResponse>* writer) override {
    if (!request->ticket().empty()) return give_offered(*request, *writer);
    pb::TakeResponse response;
    auto taken = take(*request);
    if (!taken.ok()) {
      to_proto(taken.status(), *response.mutable_status());
      writer->Write(response);
      return grpc::Status::OK;
    }
    response.set_kind(static_cast<pb::AttachmentKind>(taken->kind));
    response.set_n_bytes(taken->bytes.size());
    if (request->offer()) {
      offer(std::move(taken).value(), response);
      writer->Write(response);
      return grpc::Status::OK;
    }
    if (request->share() && !is_other_machine(*context) && share(*taken, response)) {
      writer->Write(response);
      return grpc::Status::OK;
    }
    owners_.remove(request->id());
    write_parts(taken->bytes, response, *writer);
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext*,
                     grpc::ServerReader<pb::WatchRequest>* reader,
                     pb::WatchResponse*) override {
    pb::WatchRequest message;
    while (reader->Read(&message)) {
    }
    return grpc::Status::OK;
  }

  grpc::Status Weights(grpc::ServerContext* context,
                       const pb::WeightsRequest* request,
                       grpc::ServerWriter<pb::WeightsPart>* writer) override {
    const Status status = weights_ != nullptr
                              ? weights_->send(*context, *request, *writer)
                              : Status(Code::kUnavailable, "this shard has no weights to send");
    if (status.ok()) return grpc::Status::OK;
    log_.warn("weights are not sent: " + status.message());
    pb::WeightsPart part;
    to_proto(status, *part.mutable_status());
    writer->Write(part);
    return grpc::Status::OK;
  }

 private:
  // One that came over TCP: numbers of processes and descriptors there mean nothing here.
  static bool is_other_machine(const grpc::ServerContext& context) {
    return context.auth_context()->IsPeerAuthenticated();
  }

  static void write_parts(std::string_view bytes,
                          pb::TakeResponse& response,
                          grpc::ServerWriter<pb::TakeResponse>& writer) {
    std::size_t at = 0;
    do {
      const std::string_view part = bytes.substr(at, kPartBytes);
      response.set_part(part.data(), part.size());
      if (!writer.Write(response)) break;
      at += part.size();
      response.Clear();
    } while (at < bytes.size());
  }

  grpc::Status give_offered(const pb::TakeRequest& request,
                            grpc::ServerWriter<pb::TakeResponse>& writer) {
    pb::TakeResponse response;
    Status status = check_epoch(request.epoch());
    const auto offered = status.ok() ? kept_.redeem(request.id(), request.ticket()) : nullptr;
    if (offered == nullptr) {
      if (status.ok()) status = Status(Code::kNotFound, "nothing is offered for this ticket");
      to_proto(status, *response.mutable_status());
      writer.Write(response);
      return grpc::Status::OK;
    }
    response.set_kind(static_cast<pb::AttachmentKind>(offered->kind));
    response.set_n_bytes(offered->bytes.size());
    write_parts(offered->bytes, response, writer);
    return grpc::Status::OK;
  }

  void offer(Attachment attachment, pb::TakeResponse& response) {
    const std::uint64_t id = attachment.id;
    response.set_ticket(kept_.offer(std::move(attachment)));
    if (ucx_ != nullptr) {
      response.mutable_ucx()->set_address(ucx_->address());
      response.mutable_ucx()->set_ticket(kept_.add_ticket(id));
    }
    // If the stream has ended meanwhile nobody takes it.
    if (!owners_.has(id)) kept_.erase(id);
  }

  Status check_epoch(std::uint64_t epoch) const {
    const std::uint64_t own = runner_.info().epoch;
    if (epoch == own) return {};
    return {Code::kUnavailable,
            ErrorKind::kUnavailable,
            "epoch " + std::to_string(epoch) + " is over, this shard is in " + std::to_string(own)};
  }

  Result<Attachment> take(const pb::TakeRequest& request) {
    COXSWAIN_RETURN_IF_ERROR(check_epoch(request.epoch()));
    if (auto shared = kept_.take(request.id())) return *std::move(shared);
    return runner_.take(request.id());
  }

  // False: its bytes have to be sent.
  bool share(const Attachment& attachment, pb::TakeResponse& response) {
    const Result<SharedBytes> where = kept_.share(attachment);
    if (!where.ok()) return false;
    response.mutable_shared()->set_pid(where->pid);
    response.mutable_shared()->set_fd(where->fd);
    // If the stream has ended meanwhile nobody takes it.
    if (!owners_.has(attachment.id)) kept_.erase(attachment.id);
    return true;
  }

  Status forget(std::uint64_t id) {
    kept_.erase(id);
    return runner_.detach(id);
  }

  // The size is said first and checked before a byte is kept.
  Result<TakenBy> read_attachment(grpc::ServerContext& context,
                                  grpc::ServerReader<pb::AttachRequest>& reader) {
    TakenBy by = TakenBy::kMessages;
    pb::AttachRequest message;
    if (!reader.Read(&message)) return invalid_argument("an attachment without a message");
    COXSWAIN_RETURN_IF_ERROR(check_epoch(message.epoch()));
    if (!pb::AttachmentKind_IsValid(message.kind()))
      return invalid_argument("`kind` has the unknown value " + std::to_string(message.kind()),
                              "kind");
    Attachment attachment{.id = message.id(), .kind = static_cast<AttachmentKind>(message.kind())};
    const std::uint64_t n_bytes = message.n_bytes();
    const Capabilities can = runner_.info().capabilities;
    if (!can.attachments) {
      COXSWAIN_RETURN_IF_ERROR(runner_.attach(std::move(attachment)));  // says why not
      return by;
    }
    if (n_bytes > can.attachment_bytes_max) {
      return Status(Code::kResourceExhausted,
                    ErrorKind::kOverloaded,
                    "an attachment of " + std::to_string(n_bytes) +
                        " bytes exceeds attachment_bytes_max " +
                        std::to_string(can.attachment_bytes_max));
    }
    const std::uint64_t stream_id = message.stream();
    if (message.has_shared() && is_other_machine(context))
      return Status(Code::kUnimplemented, "memory of another machine cannot be read");
    if (message.has_offered()) {
      auto taken = take_by_ucx(context, message.offered(), attachment.kind, n_bytes);
      if (taken) {
        by = TakenBy::kUcx;
        attachment.bytes = std::move(*taken);
      } else {
        COXSWAIN_ASSIGN_OR_RETURN(
            attachment.bytes, fetch_.fetch(context, message.offered(), attachment.kind, n_bytes));
      }
    }
    if (message.has_shared()) {
      COXSWAIN_ASSIGN_OR_RETURN(
          attachment.bytes,
          read_shared(
              {.pid = message.shared().pid(), .fd = message.shared().fd(), .n_bytes = n_bytes}));
    }
    while (attachment.bytes.size() < n_bytes || !message.part().empty()) {
      if (message.part().size() > n_bytes - attachment.bytes.size())
        return invalid_argument("an attachment is longer than it says", "part");
      attachment.bytes += message.part();
      if (!reader.Read(&message)) break;
    }
    if (attachment.bytes.size() != n_bytes)
      return invalid_argument("an attachment is cut off", "part");
    const std::uint64_t id = attachment.id;
    owners_.add(id, stream_id);
    if (Status status = runner_.attach(std::move(attachment)); !status.ok()) return status;
    if (!owners_.has(id)) (void)runner_.detach(id);  // the stream has ended meanwhile
    return by;
  }

  // Nothing: they have to be taken otherwise.
  std::optional<std::string> take_by_ucx(const grpc::ServerContext& call,
                                         const pb::OfferedBytes& offered,
                                         AttachmentKind kind,
                                         std::uint64_t n_bytes) {
    if (ucx_ == nullptr || !offered.has_ucx() || !ucx_->reaches(offered.ucx().address())) return {};
    // Half of the time stays for the other way.
    const auto left = call.deadline() - std::chrono::system_clock::now();
    auto taken = ucx_->take({.address = offered.ucx().address(),
                             .id = offered.id(),
                             .ticket = offered.ucx().ticket(),
                             .kind = kind,
                             .n_bytes = n_bytes},
                            Clock::now() + std::min<Clock::duration>(kUcxTimeMax, left / 2));
    if (taken.ok()) return std::move(taken).value();
    log_.warn_limited("rpc.ucx",
                      std::chrono::minutes(1),
                      "blocks do not pass by UCX",
                      {{"reason", taken.status().message()}});
    return {};
  }

  AttachmentOwners owners_;
  KeptAttachments& kept_;
  UcxCarrier* const ucx_;
  PeerFetch fetch_;
  StepRunner& runner_;
  RunnerGate& gate_;
  WeightsSender* const weights_;
  const std::size_t message_bytes_max_;
  telemetry::Logger& log_;
};

}  // namespace

std::shared_ptr<grpc::Service> make_engine_service(const EngineServiceParts& parts,
                                                   const security::PeerFiles& peer_files,
                                                   std::size_t message_bytes_max) {
  return std::make_shared<EngineService>(parts, peer_files, message_bytes_max);
}

}  // namespace coxswain::rpc
