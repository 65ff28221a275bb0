#include "rpc/shard_link.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>
#include <proto/generate_v3.grpc.pb.h>
#include <sys/socket.h>

#include "rpc/convert.h"
#include "rpc/hangup_watch.h"
#include "rpc/message_room.h"
#include "rpc/peer_channel.h"
#include "rpc/step_socket.h"
#include "rpc/unix_socket.h"

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;

Status unavailable(std::string message) {
  return {Code::kUnavailable, ErrorKind::kUnavailable, std::move(message)};
}

// A failed unary call, or a stream that ended: what the peer is in now is unknown.
Status lost(const std::string& what, const grpc::Status& status) {
  const std::string detail =
      status.error_message().empty() ? "the connection was closed" : status.error_message();
  return unavailable(what + ": " + detail);
}

Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& path,
                                                    const ClientOptions& options,
                                                    std::unique_ptr<HangupWatch>* watch) {
  COXSWAIN_ASSIGN_OR_RETURN(Descriptor fd, connect_unix(path, options.connect_timeout));
  if (watch != nullptr && options.on_lost)
    *watch = std::make_unique<HangupWatch>(fd, options.on_lost);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  arguments.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
  return grpc::CreateCustomInsecureChannelFromFd("unix:" + path, fd.release(), arguments);
}

// Of an attachment, so that no message of it comes near the limit.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

// The events of the stream, and of the Health call beside it. gRPC hands the address of one back as its tag.
enum class Event : std::uint8_t { kStarted, kWritten, kRead, kFinished, kProbed };

// A Health call beside the stream.
struct Probe {
  grpc::ClientContext context;
  v3::HealthResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v3::HealthResponse>> call;
  bool outlived = false;  // the stream has given a sign of life since
};

OfferedBytes offer_of(const pb::TakeResponse& message,
                      const std::string& address,
                      std::uint64_t epoch,
                      std::uint64_t id) {
  OfferedBytes out{.address = address,
                   .epoch = epoch,
                   .id = id,
                   .ticket = message.ticket(),
                   .n_bytes = message.n_bytes()};
  if (message.has_ucx())
    out.ucx = UcxOffer{.address = message.ucx().address(), .ticket = message.ucx().ticket()};
  return out;
}

}  // namespace

struct ShardLink::Impl {
  using Stream = grpc::ClientAsyncReaderWriter<pb::StepsRequest, pb::StepsResponse>;

  Impl(std::string path_in, const ClientOptions& options_in)
      : path(std::move(path_in)), address(address_of_place(path)), options(options_in) {}

  // Lets the calls that still run end, and takes their events out of the queue.
  ~Impl() {
    if (stream) {
      context.TryCancel();
      if (!finishing) stream->Finish(&final_status, tag_of(Event::kFinished));
    }
    if (probe) probe->context.TryCancel();
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }

  std::chrono::system_clock::time_point attachment_deadline(TimePoint until) const {
    const Clock::duration left = until - Clock::now();
    return std::chrono::system_clock::now() +
           std::min<Clock::duration>(left, options.attach_timeout);
  }

  template <typename Call>
  grpc::Status unary(Call&& call) const {
    return unary_within(options.call_timeout, std::forward<Call>(call));
  }
  template <typename Call>
  static grpc::Status unary_within(std::chrono::milliseconds limit, Call&& call) {
    grpc::ClientContext call_context;
    call_context.set_deadline(std::chrono::system_clock::now() + limit);
    return call(&call_context);
  }

  // Whether somebody answers there. Any answer will do: what it serves is asked later.
  Result<std::shared_ptr<grpc::Channel>> connect_peer() const {
    COXSWAIN_ASSIGN_OR_RETURN(
        auto channel, open_peer_channel(address, options.peer_files, options.message_bytes_max));
    const auto stub = pb::Engine::NewStub(channel);
    pb::InfoResponse response;
    const grpc::Status status = unary_within(options.connect_timeout, [&](grpc::ClientContext* c) {
      return stub->Info(c, pb::InfoRequest(), &response);
    });
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
      return lost("cannot connect to " + address, status);
    return channel;
  }

  Result<std::shared_ptr<grpc::Channel>> connect_one(bool watched) {
    if (address.empty()) return open_channel(path, options, watched ? &watch : nullptr);
    COXSWAIN_ASSIGN_OR_RETURN(auto channel, connect_peer());
    if (watched && options.on_lost) {
      peer_watch = std::make_unique<PeerWatch>(channel, [this] {
        is_gone = true;
        options.on_lost();
      });
    }
    return channel;
  }

  // The stream's own socket, if the shard has one for it.
  Status connect_steps() {
    COXSWAIN_ASSIGN_OR_RETURN(Descriptor fd, connect_unix(path, options.connect_timeout));
    if (::send(fd.get(), &kStepsFirst, 1, MSG_NOSIGNAL) != 1)
      return unavailable("the connection to " + path + " has ended");
    socket = std::make_unique<StepSocket>(std::move(fd), options.message_bytes_max);
    return {};
  }

  // As next_event(). While Health is asked, too, whose answer comes elsewhere, both are looked at in turns.
  std::optional<Event> next_of_socket(std::chrono::milliseconds limit) {
    constexpr std::chrono::milliseconds kTurn{5};
    if (probe) {
      if (const auto event = next_of_calls(std::chrono::milliseconds(0))) return event;
      limit = std::min(limit, kTurn);
    }
    const auto wanted = socket->has_unsent() ? StepSocket::For::kBoth : StepSocket::For::kReading;
    if (!socket->wait(wanted, limit)) return std::nullopt;
    if (!socket->flush() || !socket->fill()) broken = true;
    return Event::kRead;
  }

  // Takes one event. None if none came before `limit`.
  std::optional<Event> next_event(std::chrono::milliseconds limit) {
    return socket ? next_of_socket(limit) : next_of_calls(limit);
  }

  std::optional<Event> next_of_calls(std::chrono::milliseconds limit) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + limit;
    if (queue.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT)
      return std::nullopt;
    const Event event = *static_cast<Event*>(tag);
    switch (event) {
      case Event::kStarted:
        started = true;
        break;
      case Event::kWritten:
        writing = false;
        break;
      case Event::kRead:
        reading = false;
        arrived = ok;
        break;
      case Event::kFinished:
        finished = true;
        break;
      case Event::kProbed:
        return event;
    }
    if (!ok && !finished) broken = true;
    return event;
  }

  // Waits until `done()`; the peer may be slow as long as it answers Health, also over many calls with an early
  // `until`.
  template <typename Done>
  Status wait_for(Done&& done, TimePoint until = TimePoint::max()) {
    if (!silent_since) silent_since = Clock::now();
    while (!done()) {
      if (broken) return end_stream();
      if (!probe && Clock::now() >= *silent_since + options.heartbeat_limit) begin_probe();
      const TimePoint look_again = (probe ? Clock::now() : *silent_since) + options.heartbeat_limit;
      const auto limit =
          std::chrono::ceil<std::chrono::milliseconds>(std::min(look_again, until) - Clock::now());
      const auto event = next_event(std::max(limit, std::chrono::milliseconds(0)));
      if (event == Event::kProbed) {
        COXSWAIN_RETURN_IF_ERROR(end_probe());
      } else if (event) {
        if (probe) probe->outlived = true;
      } else if (Clock::now() >= until) {
        return {Code::kDeadlineExceeded, "no answer yet"};
      } else {
        continue;
      }
      silent_since = Clock::now();
    }
    silent_since.reset();
    return {};
  }

  // Asks the broken stream why it ended.
  Status end_stream() {
    if (socket) return fail(lost("the stream to " + path + " is lost", {}));
    if (!finishing) {
      finishing = true;
      stream->Finish(&final_status, tag_of(Event::kFinished));
    }
    while (!finished) {
      if (!next_event(options.call_timeout))
        return fail(unavailable("the stream to " + path + " is lost"));
    }
    return fail(lost("the stream to " + path + " is lost", final_status));
  }

  Status fail(Status status) {
    is_lost = true;
    loss = status;
    return status;
  }

  // Asks Health without waiting for it: whoever waits for an answer until a certain time has no time for that.
  void begin_probe() {
    probe.emplace();
    probe->context.set_deadline(std::chrono::system_clock::now() + options.call_timeout);
    probe->call = health->AsyncHealth(&probe->context, v3::HealthRequest(), &queue);
    probe->call->Finish(&probe->response, &probe->status, tag_of(Event::kProbed));
  }

  // Its answer is there. What the stream has brought meanwhile counts more.
  Status end_probe() {
    Status alive;
    if (!probe->status.ok() && !probe->outlived)
      alive = fail(health_lost(probe->status).with_context("no answer from the shard"));
    probe.reset();
    return alive;
  }

  // What is asked of a machine that has vanished would wait until the connection that it is asked over knows.
  Status reachable() const {
    return is_gone ? unavailable("the connection to " + path + " has ended") : Status();
  }

  Status health_lost(const grpc::Status& status) const { return lost("health of " + path, status); }

  void* tag_of(Event event) { return &tags[static_cast<std::size_t>(event)]; }

  // Whether the next answer is there; it is then `given`.
  bool take_answer() {
    if (socket) {
      const StepSocket::Taken taken = socket->take(*given);
      if (taken == StepSocket::Taken::kBroken) broken = true;
      return taken == StepSocket::Taken::kMessage;
    }
    if (!arrived) return false;
    given = &messages[next_message];
    next_message = 1 - next_message;
    arrived = false;
    read_next();
    return true;
  }

  void read_next() {
    messages[next_message].Clear();
    reading = true;
    stream->Read(&messages[next_message], tag_of(Event::kRead));
  }

  const std::string path;
  const std::string address;  // empty: `path` is a socket
  const ClientOptions options;
  std::unique_ptr<v3::TextGenerationService::Stub> control;
  std::unique_ptr<v3::TextGenerationService::Stub> health;
  std::unique_ptr<pb::Engine::Stub> engine;
  std::unique_ptr<pb::Engine::Stub> attachments;
  std::atomic<bool> is_lost{false};
  Status loss;
  std::atomic<bool> is_gone{false};  // one of its connections has ended

  std::array<Event, 5> tags{
      Event::kStarted, Event::kWritten, Event::kRead, Event::kFinished, Event::kProbed};

  // Gone before the connections, whose end is then nobody's loss. The other connection ends with this one.
  std::unique_ptr<HangupWatch> watch;
  std::unique_ptr<PeerWatch> peer_watch;

  bool has_step_sockets = false;
  std::unique_ptr<StepSocket> socket;  // carries the stream; else `stream` does
  pb::StepsResponse* given = nullptr;  // to the caller of receive(), or about to be
  MessageRoom room;                    // of those that come over the socket

  // The stream, and the probe. Declared last: their members go before the connections.
  grpc::CompletionQueue queue;
  std::optional<Probe> probe;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
  std::array<pb::StepsResponse, 2> messages;  // one is given, the other read to
  std::size_t next_message = 0;               // is read to
  grpc::Status final_status;
  bool started = false;
  bool writing = false;
  bool reading = false;
  bool arrived = false;                   // what is read to holds an answer
  std::optional<TimePoint> silent_since;  // while somebody waits: the last sign of life
  bool broken = false;
  bool finishing = false;
  bool finished = false;
};

ShardLink::ShardLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardLink::~ShardLink() = default;

Result<std::unique_ptr<ShardLink>> ShardLink::connect(const std::string& path,
                                                      const ClientOptions& options) {
  auto impl = std::make_unique<Impl>(path, options);
  COXSWAIN_ASSIGN_OR_RETURN(auto channel, impl->connect_one(true));
  COXSWAIN_ASSIGN_OR_RETURN(auto health_channel, impl->connect_one(false));
  impl->control = v3::TextGenerationService::NewStub(channel);
  impl->engine = pb::Engine::NewStub(channel);
  impl->health = v3::TextGenerationService::NewStub(health_channel);
  impl->attachments = pb::Engine::NewStub(health_channel);
  return std::unique_ptr<ShardLink>(new ShardLink(std::move(impl)));
}

Result<std::vector<std::string>> ShardLink::discover() {
  v3::ServiceDiscoveryResponse response;
  const grpc::Status status = impl_->unary([&](grpc::ClientContext* c) {
    return impl_->control->ServiceDiscovery(c, v3::ServiceDiscoveryRequest(), &response);
  });
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Status(
        Code::kUnimplemented, ErrorKind::kUnavailable, "Server does not support v3 interface");
  }
  if (!status.ok()) return lost("Could not connect to Text Generation server", status);
  std::vector<std::string> paths;
  for (const std::string& url : response.urls()) paths.push_back(path_of_url(url));
  if (paths.empty()) return unavailable("Sharded results are empty");
  return paths;
}

Result<RunnerInfo> ShardLink::info() {
  v3::InfoResponse stock;
  grpc::Status status = impl_->unary(
      [&](grpc::ClientContext* c) { return impl_->control->Info(c, v3::InfoRequest(), &stock); });
  if (!status.ok()) return lost("info of " + impl_->path, status);
  if (stock.engine_version().empty()) {
    return Status(
        Code::kUnimplemented,
        ErrorKind::kUnavailable,
        impl_->path + " is served by another implementation; its shards are not supported yet");
  }
  pb::InfoResponse response;
  status = impl_->unary(
      [&](grpc::ClientContext* c) { return impl_->engine->Info(c, pb::InfoRequest(), &response); });
  if (!status.ok()) return lost("info of " + impl_->path, status);
  impl_->has_step_sockets = response.step_sockets();
  return from_proto(response);
}

Status ShardLink::open_stream() {
  if (impl_->has_step_sockets) return impl_->connect_steps();
  impl_->stream =
      impl_->engine->AsyncSteps(&impl_->context, &impl_->queue, impl_->tag_of(Event::kStarted));
  COXSWAIN_RETURN_IF_ERROR(impl_->wait_for([&] { return impl_->started && !impl_->broken; }));
  impl_->read_next();
  return {};
}

Status ShardLink::send(const pb::StepsRequest& message) {
  if (impl_->is_lost) return impl_->loss;
  if (const std::size_t size = message.ByteSizeLong(); size > impl_->options.message_bytes_max) {
    return {Code::kResourceExhausted,
            ErrorKind::kInternal,
            "a plan of " + std::to_string(size) + " bytes is above the limit of " +
                std::to_string(impl_->options.message_bytes_max)};
  }
  if (impl_->socket) {
    COXSWAIN_RETURN_IF_ERROR(impl_->wait_for([&] { return !impl_->socket->has_unsent(); }));
    impl_->socket->put(message);
    if (!impl_->socket->flush()) impl_->broken = true;
    return {};
  }
  COXSWAIN_RETURN_IF_ERROR(impl_->wait_for([&] { return !impl_->writing; }));
  impl_->writing = true;
  impl_->stream->Write(message, impl_->tag_of(Event::kWritten));
  return {};
}

Result<const pb::StepsResponse*> ShardLink::receive(TimePoint until) {
  if (impl_->is_lost) return impl_->loss;
  if (impl_->socket) impl_->given = &impl_->room.make<pb::StepsResponse>();
  COXSWAIN_RETURN_IF_ERROR(impl_->wait_for([&] { return impl_->take_answer(); }, until));
  return impl_->given;
}

Result<TakenBy> ShardLink::attach(const SharedAttachment& shared,
                                  std::uint64_t epoch,
                                  std::uint64_t stream,
                                  TimePoint until) {
  COXSWAIN_RETURN_IF_ERROR(impl_->reachable());
  const Attachment& attachment = shared.attachment;
  pb::AttachRequest message;
  message.set_stream(stream);
  message.set_epoch(epoch);
  message.set_id(attachment.id);
  message.set_kind(static_cast<pb::AttachmentKind>(attachment.kind));
  message.set_n_bytes(attachment.bytes.size());
  if (shared.where) {
    message.set_n_bytes(shared.where->n_bytes);
    message.mutable_shared()->set_pid(shared.where->pid);
    message.mutable_shared()->set_fd(shared.where->fd);
  }
  if (shared.offer) {
    message.set_n_bytes(shared.offer->n_bytes);
    pb::OfferedBytes& offered = *message.mutable_offered();
    offered.set_address(shared.offer->address);
    offered.set_epoch(shared.offer->epoch);
    offered.set_id(shared.offer->id);
    offered.set_ticket(shared.offer->ticket);
    if (shared.offer->ucx) {
      offered.mutable_ucx()->set_address(shared.offer->ucx->address);
      offered.mutable_ucx()->set_ticket(shared.offer->ucx->ticket);
    }
  }
  grpc::ClientContext context;
  context.set_deadline(impl_->attachment_deadline(until));
  pb::AttachResponse response;
  const auto writer = impl_->attachments->Attach(&context, &response);
  const std::string_view bytes = attachment.bytes;
  std::size_t at = 0;
  do {
    const std::string_view part = bytes.substr(at, kPartBytes);
    message.set_part(part.data(), part.size());
    if (!writer->Write(message)) break;  // refused early: the answer says why
    at += part.size();
    message.Clear();
  } while (at < bytes.size());
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return lost("an attachment for " + impl_->path, status);
  if (response.has_status()) return from_proto(response.status());
  return response.by_ucx() ? TakenBy::kUcx : TakenBy::kMessages;
}

Status ShardLink::detach(std::uint64_t id, std::uint64_t epoch) {
  COXSWAIN_RETURN_IF_ERROR(impl_->reachable());
  pb::DetachRequest request;
  request.set_epoch(epoch);
  request.set_id(id);
  pb::DetachResponse response;
  const grpc::Status status = impl_->unary(
      [&](grpc::ClientContext* c) { return impl_->attachments->Detach(c, request, &response); });
  if (!status.ok()) return lost("an attachment for " + impl_->path, status);
  return response.has_status() ? from_proto(response.status()) : Status();
}

Status ShardLink::export_blocks(const BlockTransfer& transfer,
                                std::uint64_t epoch,
                                std::uint64_t stream,
                                TimePoint until) {
  COXSWAIN_RETURN_IF_ERROR(impl_->reachable());
  pb::ExportRequest request;
  request.set_stream(stream);
  request.set_epoch(epoch);
  to_proto(transfer, *request.mutable_blocks());
  grpc::ClientContext context;
  context.set_deadline(impl_->attachment_deadline(until));
  pb::ExportResponse response;
  const grpc::Status status = impl_->attachments->Export(&context, request, &response);
  if (!status.ok()) return lost("blocks of " + impl_->path, status);
  return response.has_status() ? from_proto(response.status()) : Status();
}

Result<SharedAttachment> ShardLink::take(std::uint64_t id,
                                         std::uint64_t epoch,
                                         TakeHow how,
                                         TimePoint until) {
  COXSWAIN_RETURN_IF_ERROR(impl_->reachable());
  pb::TakeRequest request;
  request.set_epoch(epoch);
  request.set_id(id);
  request.set_share(how == TakeHow::kShare);
  request.set_offer(how == TakeHow::kOffer);
  grpc::ClientContext context;
  context.set_deadline(impl_->attachment_deadline(until));
  const auto reader = impl_->attachments->Take(&context, request);
  SharedAttachment whole{.attachment = {.id = id}};
  Attachment& out = whole.attachment;
  std::uint64_t n_bytes = 0;
  Status refused;
  bool first = true;
  pb::TakeResponse message;
  while (reader->Read(&message)) {
    if (first) {
      if (message.has_status()) refused = from_proto(message.status());
      if (!pb::AttachmentKind_IsValid(message.kind())) refused = internal_error("an unknown kind");
      out.kind = static_cast<AttachmentKind>(message.kind());
      n_bytes = message.n_bytes();
      if (message.has_shared()) {
        whole.where = SharedBytes{
            .pid = message.shared().pid(), .fd = message.shared().fd(), .n_bytes = n_bytes};
      }
      if (!message.ticket().empty()) whole.offer = offer_of(message, impl_->address, epoch, id);
      first = false;
    }
    out.bytes += message.part();
  }
  if (const grpc::Status status = reader->Finish(); !status.ok())
    return lost("an attachment of " + impl_->path, status);
  if (!refused.ok()) return refused;
  if (first || (!whole.where && !whole.offer && out.bytes.size() != n_bytes))
    return unavailable("an attachment of " + impl_->path + " is cut off");
  return whole;
}

const std::string& ShardLink::address() const {
  return impl_->address;
}

Status ShardLink::healthy() {
  if (impl_->is_lost) return unavailable("the stream to " + impl_->path + " is lost");
  COXSWAIN_RETURN_IF_ERROR(impl_->reachable());
  v3::HealthResponse response;
  const grpc::Status status = impl_->unary([&](grpc::ClientContext* c) {
    return impl_->health->Health(c, v3::HealthRequest(), &response);
  });
  return status.ok() ? Status() : impl_->health_lost(status);
}

}  // namespace coxswain::rpc
