#include "peers/peer_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "rpc/convert.h"
#include "rpc/peer_channel.h"
#include "rpc/unix_socket.h"
#include "weights/image_store.h"

namespace coxswain::peers {

namespace pb = engine::v1;

namespace {

// Of a lane that is ahead of the others.
constexpr std::size_t kPiecesAheadMax = 4;
// What was lost more often is not asked again.
constexpr int kLossesMax = 2;
// A source that waits for one of its own is waited for so many times as long: that one has to be left first. It ends at
// all because two shards may have come to wait for each other.
constexpr int kWaitsMax = 4;
constexpr std::size_t kMessageBytesMax = std::size_t{4} << 20;

Status unavailable(std::string message) {
  return {Code::kUnavailable, ErrorKind::kUnavailable, std::move(message)};
}

Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address,
                                                    const PeerWeightsOptions& options) {
  if (const std::string machine = rpc::address_of_place(address); !machine.empty())
    return rpc::open_peer_channel(machine, options.peer_files, kMessageBytesMax);
  const std::string path = rpc::path_of_url(address);
  COXSWAIN_ASSIGN_OR_RETURN(rpc::Descriptor fd, rpc::connect_unix(path, options.connect_timeout));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMessageBytesMax));
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(kMessageBytesMax));
  return grpc::CreateCustomInsecureChannelFromFd("unix:" + path, fd.release(), arguments);
}

}  // namespace

struct PeerWeights::Source {
  std::string address;
  bool is_refused = false;  // has other weights, or sent what was damaged
  int n_losses = 0;

  bool may_be_asked() const { return !is_refused && n_losses <= kLossesMax; }
};

// A call to one source, and the thread that reads it.
struct PeerWeights::Lane {
  Lane(Source& source_in,
       const std::shared_ptr<grpc::Channel>& channel,
       const pb::WeightsRequest& request)
      : source(source_in), stub(pb::Engine::NewStub(channel)) {
    thread = std::thread([this, request] {
      base::name_thread("weights");
      read_all(request);
    });
  }
  ~Lane() {
    stop();
    thread.join();
  }

  void stop() {
    context.TryCancel();
    {
      const base::MutexLock lock(mu);
      is_stopped = true;
    }
    changed.notify_all();
  }

  void read_all(const pb::WeightsRequest& request) {
    const auto reader = stub->Weights(&context, request);  // waits for a connection
    pb::WeightsPart part;
    while (reader->Read(&part)) {
      base::MutexLock lock(mu);
      last_sign = Clock::now();
      if (part.part().empty() && part.fingerprint() == 0 && !part.has_status()) continue;
      changed.wait(lock,
                   [&]() REQUIRES(mu) { return is_stopped || parts.size() < kPiecesAheadMax; });
      if (is_stopped) break;
      parts.push_back(std::move(part));
      changed.notify_all();
    }
    context.TryCancel();
    const grpc::Status status = reader->Finish();
    const base::MutexLock lock(mu);
    end = unavailable(status.ok()                      ? "it has no more"
                      : status.error_message().empty() ? "the connection was closed"
                                                       : status.error_message());
    changed.notify_all();
  }

  // Errors: what the source says; kUnavailable: it has ended, says nothing for so long, or waits itself for too long.
  Result<pb::WeightsPart> next(std::chrono::milliseconds time_max) {
    base::MutexLock lock(mu);
    const TimePoint begin = Clock::now();
    const TimePoint limit = begin + kWaitsMax * time_max;
    while (parts.empty()) {
      if (!end.ok()) return end;
      const TimePoint until = std::min(limit, std::max(begin, last_sign) + time_max);
      if (Clock::now() >= until) {
        return unavailable((until == limit ? "it waits itself for " : "nothing came for ") +
                           std::to_string((until - begin) / std::chrono::milliseconds(1)) + " ms");
      }
      changed.wait_until(lock, until, [&]() REQUIRES(mu) { return !parts.empty() || !end.ok(); });
    }
    pb::WeightsPart out = std::move(parts.front());
    parts.pop_front();
    changed.notify_all();
    if (!out.has_status()) return out;
    const Status said = rpc::from_proto(out.status());
    return said.ok() ? invalid_argument("its last message says nothing") : said;
  }

  Source& source;
  std::unique_ptr<pb::Engine::Stub> stub;
  grpc::ClientContext context;
  base::Mutex mu;
  base::CondVar changed;
  std::deque<pb::WeightsPart> parts GUARDED_BY(mu);
  TimePoint last_sign GUARDED_BY(mu);
  Status end GUARDED_BY(mu);  // of the call
  bool is_stopped GUARDED_BY(mu) = false;
  std::thread thread;
};

struct PeerWeights::Lanes {
  base::Mutex mu;
  bool stopped GUARDED_BY(mu) = false;
  std::vector<std::unique_ptr<Lane>> open GUARDED_BY(mu);  // changed by the thread that reads

  // In the place of those that are open. False: stopped.
  bool replace(std::vector<std::unique_ptr<Lane>> by) {
    {
      const base::MutexLock lock(mu);
      open.swap(by);
    }
    by.clear();  // without the lock: their threads end first
    const base::MutexLock lock(mu);
    return !stopped;
  }
};

PeerWeights::PeerWeights(PeerWeightsOptions options)
    : options_(std::move(options)), lanes_(std::make_unique<Lanes>()) {
  for (const std::string& address : options_.addresses) sources_.push_back({.address = address});
}

PeerWeights::~PeerWeights() = default;

void PeerWeights::say(const std::string& line) const {
  if (options_.on_event) options_.on_event(line);
}

void PeerWeights::stop() {
  const base::MutexLock lock(lanes_->mu);
  lanes_->stopped = true;
  for (const auto& lane : lanes_->open) lane->stop();
}

Result<std::uint64_t> PeerWeights::open(const std::string& key) {
  key_ = key;
  COXSWAIN_RETURN_IF_ERROR(open_lanes());
  return *fingerprint_;
}

// What has other weights is never asked again, what only was not there is.
void PeerWeights::leave(Lane& lane, const Status& why) {
  const bool is_loss = why.code() == Code::kUnavailable || why.code() == Code::kResourceExhausted;
  if (!is_loss) lane.source.is_refused = true;
  ++lane.source.n_losses;
  say(lane.source.address + " is left: " + why.message());
}

// How many lanes there are is part of what each is asked for, so all begin again where one is not to be one.
Status PeerWeights::open_lanes() {
  std::string said;
  std::vector<Source*> candidates;
  for (Source& source : sources_) {
    if (source.may_be_asked()) candidates.push_back(&source);
  }
  while (!candidates.empty()) {
    lanes_->replace({});
    const std::size_t n = std::min(candidates.size(), kLanesMax);
    std::vector<std::unique_ptr<Lane>> lanes;
    std::vector<Source*> failed;
    const auto fail = [&](Source& source, const Status& why) {
      said += (said.empty() ? "" : "; ") + source.address + ": " + why.message();
      failed.push_back(&source);
    };
    for (std::size_t i = 0; i < n; ++i) {
      auto channel = open_channel(candidates[i]->address, options_);
      if (!channel.ok()) {
        fail(*candidates[i], channel.status());
        continue;
      }
      pb::WeightsRequest request;
      request.set_key(key_);
      request.set_first_section(static_cast<std::uint32_t>(section_));
      request.set_first_piece(static_cast<std::uint32_t>(piece_));
      request.set_lane(static_cast<std::uint32_t>(i));
      request.set_lanes(static_cast<std::uint32_t>(n));
      if (options_.rate_max_bytes != 0)
        request.set_rate_max_bytes(std::max<std::uint64_t>(options_.rate_max_bytes / n, 1));
      lanes.push_back(std::make_unique<Lane>(*candidates[i], *channel, request));
    }
    std::vector<Source*> complete;
    for (const auto& lane : lanes) {
      auto head = lane->next(options_.piece_time_max);
      if (head.ok() && fingerprint_.value_or(head->fingerprint()) != head->fingerprint())
        head = invalid_argument("its weights are made of other files");
      if (head.ok()) {
        fingerprint_ = head->fingerprint();
        if (!head->loading()) complete.push_back(&lane->source);
        continue;
      }
      leave(*lane, head.status());
      fail(lane->source, head.status());
    }
    // Who still loads is a source only where nobody has all, and then alone.
    if (failed.empty() && lanes.size() > std::max<std::size_t>(complete.size(), 1)) {
      if (complete.empty()) complete.push_back(&lanes.front()->source);
      candidates = complete;
      continue;
    }
    if (failed.empty()) {
      for (const auto& lane : lanes) say("weights come from " + lane->source.address);
      return lanes_->replace(std::move(lanes)) ? Status() : unavailable("stopped");
    }
    std::erase_if(candidates, [&](Source* source) {
      return std::ranges::find(failed, source) != failed.end();
    });
  }
  lanes_->replace({});
  return unavailable("no other shard sends weights: " + (said.empty() ? "none is left" : said));
}

Status PeerWeights::read(std::uint64_t identity, std::span<std::byte> out, Arrived arrived) {
  const std::size_t n = weights::piece_count(out.size());
  for (piece_ = 0; piece_ < n; ++piece_) {
    COXSWAIN_RETURN_IF_ERROR(read_piece(identity, out, piece_));
    arrived(piece_ * weights::ImageFile::kPieceBytes + weights::piece_bytes(out.size(), piece_));
  }
  ++section_;
  piece_ = 0;
  return {};
}

Status PeerWeights::read_piece(std::uint64_t identity,
                               std::span<std::byte> out,
                               std::size_t piece) {
  const std::size_t n = weights::piece_bytes(out.size(), piece);
  const auto check = [&](const pb::WeightsPart& part) {
    if (part.section() != section_ || part.piece() != piece)
      return invalid_argument("it sent another piece than the next");
    if (part.identity() != identity || part.section_bytes() != out.size() ||
        part.part().size() != n)
      return invalid_argument("its matrices have another form");
    if (weights::piece_hash(std::as_bytes(std::span(part.part()))) != part.hash())
      return Status(Code::kDataLoss, "it sent bytes that do not fit their checksum");
    return Status();
  };
  while (true) {
    Lane* lane = nullptr;
    {
      const base::MutexLock lock(lanes_->mu);
      if (lanes_->stopped) return unavailable("stopped");
      if (!lanes_->open.empty())
        lane = lanes_->open[(section_ + piece) % lanes_->open.size()].get();
    }
    if (lane == nullptr) return unavailable("no other shard is left that sends weights");
    auto part = lane->next(options_.piece_time_max);
    Status status = part.ok() ? check(*part) : part.status();
    if (status.ok()) {
      std::memcpy(out.data() + piece * weights::ImageFile::kPieceBytes, part->part().data(), n);
      return {};
    }
    leave(*lane, status);
    COXSWAIN_RETURN_IF_ERROR(open_lanes());
  }
}

}  // namespace coxswain::peers
