#include "rpc/engine_service.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>

#include "rpc/attachment_owners.h"
#include "rpc/convert.h"
#include "rpc/kept_attachments.h"
#include "rpc/peer_fetch.h"
#include "rpc/plan_check.h"
#include "rpc/shared_bytes.h"
#include "rpc/ucx_carrier.h"
#include "rpc/weights_sender.h"

namespace coxswain::rpc {

namespace {

// Of an attachment, so that no message of it comes near the limit.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;
// Of an attachment's way by UCX.
constexpr std::chrono::seconds kUcxTimeMax{3};

class CallCarrier final : public StepCarrier {
 public:
  using Stream = grpc::ServerReaderWriter<pb::StepsResponse, pb::StepsRequest>;

  CallCarrier(grpc::ServerContext& context, Stream& stream) : context_(context), stream_(stream) {}

  bool read(pb::StepsRequest& to) override { return stream_.Read(&to); }
  bool write(const pb::StepsResponse& from) override { return stream_.Write(from); }
  void cut() override { context_.TryCancel(); }

 private:
  grpc::ServerContext& context_;
  Stream& stream_;
};

class EngineService final : public pb::Engine::Service {
 public:
  EngineService(const EngineServiceParts& parts, const security::PeerFiles& peer_files)
      : steps_(parts.steps),
        owners_(steps_.owners),
        kept_(steps_.kept),
        ucx_(parts.ucx),
        fetch_(peer_files, steps_.message_bytes_max),
        runner_(steps_.runner),
        weights_(parts.weights),
        log_(steps_.log) {}

  grpc::Status Info(grpc::ServerContext* context,
                    const pb::InfoRequest*,
                    pb::InfoResponse* response) override {
    to_proto(runner_.info(), *response);
    response->set_step_sockets(!is_other_machine(*context));
    return grpc::Status::OK;
  }

  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<pb::StepsResponse, pb::StepsRequest>* stream) override {
    CallCarrier carrier(*context, *stream);
    if (!serve_steps(steps_, carrier))
      return {grpc::StatusCode::ABORTED, "displaced by a newer stream"};
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

  grpc::Status Export(grpc::ServerContext* context,
                      const pb::ExportRequest* request,
                      pb::ExportResponse* response) override {
    Status status = check_epoch(request->epoch());
    if (status.ok()) status = export_blocks(*context, *request);
    if (!status.ok()) to_proto(status, *response->mutable_status());
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
      if (context->IsCancelled()) kept_.erase(request->id());  // nobody waits for it any more
      return grpc::Status::OK;
    }
    if (request->share() && !is_other_machine(*context) && share(*taken, response)) {
      writer->Write(response);
      if (context->IsCancelled()) kept_.erase(request->id());  // likewise
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
    COXSWAIN_RETURN_IF_ERROR(keep(context, id, runner_.attach(std::move(attachment))));
    return by;
  }

  Status export_blocks(grpc::ServerContext& context, const pb::ExportRequest& request) {
    COXSWAIN_ASSIGN_OR_RETURN(const BlockTransfer transfer, from_proto(request.blocks()));
    COXSWAIN_RETURN_IF_ERROR(check_export(transfer, runner_.info()));
    owners_.add(transfer.attachment, request.stream());
    return keep(context, transfer.attachment, runner_.export_blocks(transfer));
  }

  // An attachment whose owner has been told: it came, or was made, or why not.
  Status keep(grpc::ServerContext& context, std::uint64_t id, const Status& came) {
    COXSWAIN_RETURN_IF_ERROR(came);
    const bool waits = !context.IsCancelled();
    if (!waits) owners_.remove(id);
    if (!waits || !owners_.has(id)) (void)runner_.detach(id);  // the stream has ended meanwhile
    return waits ? Status() : Status(Code::kCancelled, "nobody waits for it any more");
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

  const StepStreamParts steps_;
  AttachmentOwners& owners_;
  KeptAttachments& kept_;
  UcxCarrier* const ucx_;
  PeerFetch fetch_;
  StepRunner& runner_;
  WeightsSender* const weights_;
  telemetry::Logger& log_;
};

}  // namespace

std::shared_ptr<grpc::Service> make_engine_service(const EngineServiceParts& parts,
                                                   const security::PeerFiles& peer_files) {
  return std::make_shared<EngineService>(parts, peer_files);
}

}  // namespace coxswain::rpc
