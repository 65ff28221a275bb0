#include "peers/weights_service.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>
#include <proto/engine_v1.pb.h>

#include "weights/image_store.h"

namespace coxswain::peers {
namespace {

namespace pb = coxswain::engine::v1;

// A receiver hears so often from a shard that waits, too.
constexpr std::chrono::milliseconds kSignInterval{500};
// A cancelled call is noticed so soon.
constexpr std::chrono::milliseconds kLookInterval{50};
constexpr std::uint32_t kLanesMax = 64;

std::string_view line_at(std::string_view text, std::size_t& at) {
  const std::size_t end = std::min(text.find('\n', at), text.size());
  const std::string_view out = text.substr(at, end - at);
  at = std::min(end + 1, text.size());
  return out;
}

// The first line in which two keys differ.
Status other_weights(std::string_view here, std::string_view wanted) {
  std::size_t at_here = 0;
  std::size_t at_wanted = 0;
  while (at_here < here.size() || at_wanted < wanted.size()) {
    const std::string_view own = line_at(here, at_here);
    const std::string_view other = line_at(wanted, at_wanted);
    if (own == other) continue;
    constexpr std::size_t kShownMax = 120;
    return invalid_argument("the weights here are others: `" +
                                std::string(own.substr(0, kShownMax)) + "`. Wanted: `" +
                                std::string(other.substr(0, kShownMax)) + "`",
                            "key");
  }
  return invalid_argument("the weights here are others", "key");
}

// Whether it was not cancelled.
bool sleep_until(TimePoint until, const grpc::ServerContext& context) {
  while (!context.IsCancelled()) {
    const TimePoint now = Clock::now();
    if (now >= until) return true;
    std::this_thread::sleep_for(std::min<Clock::duration>(until - now, kLookInterval));
  }
  return false;
}

}  // namespace

TimePoint RateLimit::take(std::size_t bytes) {
  const TimePoint::rep now = Clock::now().time_since_epoch().count();
  if (bytes_max_ == 0) return TimePoint(Clock::duration(now));
  const std::chrono::duration<double> time(static_cast<double>(bytes) /
                                           static_cast<double>(bytes_max_));
  const TimePoint::rep lasts = std::chrono::duration_cast<Clock::duration>(time).count();
  TimePoint::rep before = next_;
  while (!next_.compare_exchange_weak(before, std::max(now, before) + lasts)) {
  }
  return TimePoint(Clock::duration(std::max(now, before) + lasts));
}

WeightsService::WeightsService(std::shared_ptr<const weights::ImageStore> store,
                               std::uint64_t rate_max_bytes)
    : store_(std::move(store)), limit_(rate_max_bytes) {}

Status WeightsService::send(grpc::ServerContext& context,
                            const pb::WeightsRequest& request,
                            grpc::ServerWriter<pb::WeightsPart>& writer) {
  COXSWAIN_RETURN_IF_ERROR(check(request));
  if (++n_receivers_ > kReceiversMax) {
    --n_receivers_;
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "weights are sent to at most " + std::to_string(kReceiversMax) + " receivers at once"};
  }
  Status out = send_pieces(context, request, writer);
  --n_receivers_;
  return out;
}

Status WeightsService::check(const pb::WeightsRequest& request) const {
  const auto what = store_ == nullptr ? std::nullopt : store_->description();
  if (!what)
    return {Code::kUnavailable, ErrorKind::kUnavailable, "this shard has no weights to send"};
  if (request.lanes() > kLanesMax || request.lane() >= std::max(request.lanes(), 1U)) {
    return invalid_argument(
        "`lane` must be below `lanes`, and that at most " + std::to_string(kLanesMax) +
            ". Given: " + std::to_string(request.lane()) + " of " + std::to_string(request.lanes()),
        "lane");
  }
  if (request.key() != what->key) return other_weights(what->key, request.key());
  return {};
}

Status WeightsService::send_pieces(grpc::ServerContext& context,
                                   const pb::WeightsRequest& request,
                                   grpc::ServerWriter<pb::WeightsPart>& writer) {
  pb::WeightsPart part;
  part.set_fingerprint(store_->description()->fingerprint);
  part.set_loading(!store_->is_complete());
  if (!writer.Write(part)) return {};
  RateLimit own(request.rate_max_bytes());
  const std::uint32_t lanes = std::max(request.lanes(), 1U);
  // Says that it waits, as often as it takes. False: nobody listens.
  const auto wait = [&](auto& result, const auto& look) {
    result = look(Clock::now() + kSignInterval);
    while (result.status().code() == Code::kDeadlineExceeded) {
      if (context.IsCancelled() || !writer.Write(pb::WeightsPart())) return false;
      result = look(Clock::now() + kSignInterval);
    }
    return true;
  };
  std::size_t piece = request.first_piece();
  for (std::size_t section = request.first_section();; ++section, piece = 0) {
    Result<std::optional<weights::StoredImage>> image = std::optional<weights::StoredImage>();
    if (!wait(image, [&](TimePoint until) { return store_->image(section, until); })) return {};
    COXSWAIN_RETURN_IF_ERROR(image.status());
    if (!*image) return {};
    for (; piece < weights::piece_count((*image)->bytes.size()); ++piece) {
      if ((section + piece) % lanes != request.lane()) continue;
      Result<std::span<const std::byte>> bytes = std::span<const std::byte>();
      if (!wait(bytes, [&](TimePoint until) { return store_->piece(section, piece, until); }))
        return {};
      COXSWAIN_RETURN_IF_ERROR(bytes.status());
      part.Clear();
      part.set_section(static_cast<std::uint32_t>(section));
      part.set_piece(static_cast<std::uint32_t>(piece));
      part.set_identity((*image)->identity);
      part.set_section_bytes((*image)->bytes.size());
      part.set_hash(store_->hash(section, piece));
      part.set_part(bytes->data(), bytes->size());
      const TimePoint due = std::max(limit_.take(bytes->size()), own.take(bytes->size()));
      if (!sleep_until(due, context) || !writer.Write(part)) return {};
    }
  }
}

}  // namespace coxswain::peers
