#include "rpc/stock/link.h"

#include <deque>
#include <utility>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <proto/generate_v3.grpc.pb.h>

#include "base/mutex.h"
#include "rpc/hangup_watch.h"
#include "rpc/unix_socket.h"

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;
using Stub = v3::TextGenerationService::Stub;
using std::chrono::milliseconds;

template <typename Request, typename Response>
using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// Stock shards report every failure of their own as INTERNAL, or UNKNOWN if an exception got out.
Status to_status(const grpc::Status& status, const std::string& path) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return {};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return {Code::kUnavailable,
              ErrorKind::kUnavailable,
              "the shard at " + path + " is lost: " + status.error_message()};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {
          Code::kUnimplemented, ErrorKind::kUnavailable, "Server does not support v3 interface"};
    default:
      return {Code::kInternal, ErrorKind::kGeneration, "Server error: " + status.error_message()};
  }
}

Result<std::unique_ptr<Stub>> open_stub(const std::string& path,
                                        const ClientOptions& options,
                                        std::unique_ptr<HangupWatch>* watch) {
  COXSWAIN_ASSIGN_OR_RETURN(Descriptor fd, connect_unix(path, options.connect_timeout));
  if (watch != nullptr && options.on_lost)
    *watch = std::make_unique<HangupWatch>(fd, options.on_lost);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  arguments.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
  return v3::TextGenerationService::NewStub(
      grpc::CreateCustomInsecureChannelFromFd("unix:" + path, fd.release(), arguments));
}

}  // namespace

struct StockLink::Impl {
  struct Shard {
    std::string path;
    std::unique_ptr<Stub> calls;
    std::unique_ptr<Stub> health;
    std::unique_ptr<HangupWatch> watch;  // of `calls`; gone before the connections
  };

  Impl(const ClientOptions& options_in, const StockTimeouts& timeouts_in)
      : options(options_in), timeouts(timeouts_in) {}

  Status add(const std::string& path) {
    Shard shard;
    shard.path = path;
    COXSWAIN_ASSIGN_OR_RETURN(shard.calls, open_stub(path, options, &shard.watch));
    COXSWAIN_ASSIGN_OR_RETURN(shard.health, open_stub(path, options, nullptr));
    shards.push_back(std::move(shard));
    return {};
  }

  template <typename Request, typename Response>
  Result<std::vector<Response>> call(Method<Request, Response> method,
                                     const Request& request,
                                     milliseconds limit) {
    struct Pending {
      grpc::ClientContext context;
      Response response;
      grpc::Status status;
      std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
    };
    grpc::CompletionQueue queue;
    std::deque<Pending> pending;
    for (const Shard& shard : shards) {
      Pending& one = pending.emplace_back();
      one.context.set_deadline(std::chrono::system_clock::now() + limit);
      one.reader = ((*shard.calls).*method)(&one.context, request, &queue);
      one.reader->Finish(&one.response, &one.status, &one);
    }
    {
      base::MutexLock lock(mu);
      for (Pending& one : pending) running.push_back(&one.context);
      if (cancelled) cancel_running();
    }
    void* tag = nullptr;
    bool ok = false;
    for (std::size_t i = 0; i < pending.size(); ++i) queue.Next(&tag, &ok);
    {
      base::MutexLock lock(mu);
      running.clear();
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    std::vector<Response> out;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      COXSWAIN_RETURN_IF_ERROR(to_status(pending[i].status, shards[i].path));
      out.push_back(std::move(pending[i].response));
    }
    return out;
  }

  void cancel_running() REQUIRES(mu) {
    for (grpc::ClientContext* context : running) context->TryCancel();
  }

  const ClientOptions options;
  const StockTimeouts timeouts;
  std::vector<Shard> shards;  // by rank
  base::Mutex mu;
  std::vector<grpc::ClientContext*> running GUARDED_BY(mu);
  bool cancelled GUARDED_BY(mu) = false;
};

StockLink::StockLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StockLink::~StockLink() = default;

Result<std::unique_ptr<StockLink>> StockLink::connect(const std::string& path,
                                                      const ClientOptions& options,
                                                      const StockTimeouts& timeouts) {
  const std::string master = path_of_url(path);
  Impl first(options, timeouts);
  COXSWAIN_RETURN_IF_ERROR(first.add(master));
  COXSWAIN_ASSIGN_OR_RETURN(
      const auto found,
      first.call(
          &Stub::AsyncServiceDiscovery, v3::ServiceDiscoveryRequest(), options.call_timeout));
  auto impl = std::make_unique<Impl>(options, timeouts);
  for (const std::string& url : found.front().urls()) {
    COXSWAIN_RETURN_IF_ERROR(impl->add(path_of_url(url)));
  }
  if (impl->shards.empty()) {
    return Status(Code::kUnavailable, ErrorKind::kUnavailable, "Sharded results are empty");
  }
  return std::unique_ptr<StockLink>(new StockLink(std::move(impl)));
}

Result<std::vector<v3::InfoResponse>> StockLink::info() {
  return impl_->call(&Stub::AsyncInfo, v3::InfoRequest(), impl_->options.call_timeout);
}

Result<std::vector<v3::WarmupResponse>> StockLink::warmup(const v3::WarmupRequest& request) {
  return impl_->call(&Stub::AsyncWarmup, request, impl_->timeouts.warmup);
}

Result<std::vector<v3::PrefillResponse>> StockLink::prefill(const v3::PrefillRequest& request) {
  return impl_->call(&Stub::AsyncPrefill, request, impl_->timeouts.step);
}

Result<std::vector<v3::DecodeResponse>> StockLink::decode(const v3::DecodeRequest& request) {
  return impl_->call(&Stub::AsyncDecode, request, impl_->timeouts.step);
}

Status StockLink::filter(const v3::FilterBatchRequest& request) {
  return impl_->call(&Stub::AsyncFilterBatch, request, impl_->timeouts.step).status();
}

Status StockLink::clear(const v3::ClearCacheRequest& request) {
  return impl_->call(&Stub::AsyncClearCache, request, impl_->timeouts.step).status();
}

void StockLink::cancel() {
  base::MutexLock lock(impl_->mu);
  impl_->cancelled = true;
  impl_->cancel_running();
}

Status StockLink::health() const {
  for (const Impl::Shard& shard : impl_->shards) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + impl_->options.call_timeout);
    v3::HealthResponse response;
    COXSWAIN_RETURN_IF_ERROR(
        to_status(shard.health->Health(&context, v3::HealthRequest(), &response), shard.path));
  }
  return {};
}

}  // namespace coxswain::rpc
