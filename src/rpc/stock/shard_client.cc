#include "rpc/stock/shard_client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <proto/generate_v3.pb.h>

#include "base/random.h"

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;

// What a shard that does not tell its capacity is taken to hold, as its own router does.
constexpr std::uint32_t kCapacityTokensMin = 16'000;
constexpr std::uint32_t kSpeculateMax = 1024;

Status not_supported(const std::string& what) {
  return {Code::kUnimplemented,
          ErrorKind::kUnavailable,
          "stock shards that " + what + " are not supported yet"};
}

// The calls have been applied or not, nobody knows.
Status unknown_state(const Status& status) {
  return {Code::kUnavailable, ErrorKind::kUnavailable, status.message()};
}

Result<RunnerInfo> describe(const v3::InfoResponse& from, const StockClientOptions& options) {
  if (from.requires_padding()) return not_supported("pad their batches");
  if (from.block_size() == 0) return internal_error("the shard tells no block size");
  RunnerInfo info;
  info.epoch = base::random_u64();
  info.model_type = "unknown";
  info.dtype = from.dtype();
  info.device_type = from.device_type();
  info.kernel_set_id = "generate.v3";
  info.vocab_size = options.vocab_size;
  info.block_tokens = from.block_size();
  if (from.speculate() > kSpeculateMax) {
    return internal_error("the shard guesses " + std::to_string(from.speculate()) +
                          " tokens ahead; at most " + std::to_string(kSpeculateMax) +
                          " make sense");
  }
  info.capabilities.draft_tokens_max = from.speculate();
  return info;
}

// The limits that all shards can keep.
void add_limits(const std::vector<v3::WarmupResponse>& answers,
                const WarmupLimits& asked,
                RunnerInfo& info) {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t supported = kNone;
  info.max_input_tokens = kNone;
  info.max_total_tokens = kNone;
  for (const v3::WarmupResponse& answer : answers) {
    if (answer.has_max_supported_total_tokens())
      supported = std::min(supported, answer.max_supported_total_tokens());
    info.max_input_tokens = std::min(info.max_input_tokens, answer.max_input_tokens());
    info.max_total_tokens = std::min(info.max_total_tokens, answer.max_total_tokens());
  }
  if (supported == kNone) {
    supported = std::max({kCapacityTokensMin, info.max_total_tokens, asked.prefill_tokens_max});
  }
  info.kv_groups = {{.n_blocks = supported / info.block_tokens}};
}

const v3::CachedBatch* batch_of(const v3::PrefillResponse& response) {
  return response.has_batch() ? &response.batch() : nullptr;
}
const v3::CachedBatch* batch_of(const v3::DecodeResponse& response) {
  return response.has_batch() ? &response.batch() : nullptr;
}

}  // namespace

StockShardClient::StockShardClient(std::unique_ptr<StockLink> link,
                                   std::shared_ptr<const TextCodec> codec,
                                   RunnerInfo info)
    : link_(std::move(link)), codec_(std::move(codec)), info_(std::move(info)) {}

StockShardClient::~StockShardClient() {
  link_->cancel();
  if (running_.valid()) running_.wait();
}

Result<std::unique_ptr<StockShardClient>> StockShardClient::connect(
    const std::string& path,
    const StockClientOptions& options,
    std::shared_ptr<const TextCodec> codec) {
  COXSWAIN_ASSIGN_OR_RETURN(auto link, StockLink::connect(path, options.link, options.timeouts));
  COXSWAIN_RETURN_IF_ERROR(link->clear(v3::ClearCacheRequest()));
  COXSWAIN_ASSIGN_OR_RETURN(const auto infos, link->info());
  COXSWAIN_ASSIGN_OR_RETURN(RunnerInfo info, describe(infos.back(), options));
  v3::WarmupRequest warmup;
  to_warmup_request(options.limits, warmup);
  COXSWAIN_ASSIGN_OR_RETURN(const auto answers, link->warmup(warmup));
  add_limits(answers, options.limits, info);
  return std::unique_ptr<StockShardClient>(
      new StockShardClient(std::move(link), std::move(codec), std::move(info)));
}

Result<StepTicket> StockShardClient::submit(StepPlan plan) {
  if (is_lost_) return unknown_state(internal_error("the shard is lost"));
  if (ticket_) return internal_error("too many plans in flight");
  if (plan.epoch != info_.epoch) return unknown_state(internal_error("a plan of another epoch"));
  ticket_ = StepTicket{plan.step};
  submitted_ = std::move(plan);
  return *ticket_;
}

Result<StepResult> StockShardClient::wait(StepTicket ticket, TimePoint until) {
  if (!ticket_ || ticket_->step != ticket.step) {
    return internal_error("step " + std::to_string(ticket.step) + " is not in flight");
  }
  if (!running_.valid() && until != TimePoint::max())
    running_ = std::async(std::launch::async, [this] { return make_calls(); });
  if (running_.valid() && until != TimePoint::max() &&
      running_.wait_until(until) != std::future_status::ready) {
    return not_yet(ticket);
  }
  auto result = running_.valid() ? running_.get() : make_calls();
  ticket_.reset();
  return result;
}

Result<StepResult> StockShardClient::make_calls() {
  const StepPlan plan = *std::exchange(submitted_, std::nullopt);
  ++n_calls_;
  auto result = run(plan);
  ++n_calls_;
  if (result.status().code() == Code::kUnavailable) is_lost_ = true;
  return result;
}

Status StockShardClient::healthy() {
  if (is_lost_) return unknown_state(internal_error("the shard is lost"));
  const std::uint64_t before = n_calls_;
  if (before % 2 == 1) return {};
  const Status status = link_->health();
  // A step that began meanwhile keeps the shard from answering.
  return n_calls_ == before ? status : Status();
}

Result<StepResult> StockShardClient::run(const StepPlan& plan) {
  std::vector<SequenceId> dropped = std::exchange(abandoned_, {});
  dropped.insert(dropped.end(), plan.dropped.begin(), plan.dropped.end());
  if (const Status status = forget(dropped); !status.ok()) return unknown_state(status);
  if (plan.rows.empty()) return StepResult{.step = plan.step, .epoch = plan.epoch};
  return plan.new_sequences.empty() ? decode(plan) : prefill(plan);
}

Status StockShardClient::forget(const std::vector<SequenceId>& ids) {
  for (const SequenceId id : ids) sequences_.erase(id);
  for (Batch& batch : batches_) {
    std::vector<SequenceId> kept;
    std::ranges::copy_if(batch.sequences, std::back_inserter(kept), [&](SequenceId id) {
      return sequences_.contains(id);
    });
    if (kept.size() == batch.sequences.size()) continue;
    COXSWAIN_RETURN_IF_ERROR(shrink(batch, kept));
    batch.sequences = std::move(kept);
  }
  std::erase_if(batches_, [](const Batch& batch) { return batch.sequences.empty(); });
  return {};
}

Status StockShardClient::shrink(const Batch& batch, const std::vector<SequenceId>& kept) {
  if (kept.empty()) {
    v3::ClearCacheRequest request;
    request.set_id(batch.id);
    return link_->clear(request);
  }
  v3::FilterBatchRequest request;
  request.set_batch_id(batch.id);
  for (const SequenceId id : kept) request.add_request_ids(static_cast<std::uint64_t>(id));
  return link_->filter(request);
}

// The shards hold these batches no longer: a call that fails takes its batches with it.
void StockShardClient::lose_batches() {
  for (const Batch& batch : std::exchange(batches_, {})) {
    (void)shrink(batch, {});
    for (const SequenceId id : batch.sequences) sequences_.erase(id);
  }
}

Result<StepResult> StockShardClient::prefill(const StepPlan& plan) {
  v3::PrefillRequest request;
  v3::Batch& batch = *request.mutable_batch();
  Batch added{.id = next_batch_++, .sequences = {}};
  std::map<SequenceId, Status> refused;
  std::uint32_t n_blocks_most = 0;
  std::uint32_t n_blocks = 0;
  for (const Row& row : plan.rows) {
    const auto spec = std::ranges::find(plan.new_sequences, row.sequence, &SequenceSpec::id);
    if (spec == plan.new_sequences.end() || row.first_position != 0 ||
        row.n_tokens != spec->prompt.size() || row.table_changes.size() != 1) {
      return internal_error("a stock shard takes new prompts alone, and each of them whole");
    }
    const std::vector<BlockId>& blocks = row.table_changes[0].blocks;
    v3::Request one;
    if (Status s = to_stock_request(*spec, blocks, info_, *codec_, one); !s.ok()) {
      refused.emplace(row.sequence, std::move(s));
      continue;
    }
    *batch.add_requests() = std::move(one);
    n_blocks += static_cast<std::uint32_t>(blocks.size());
    n_blocks_most = std::max(n_blocks_most, static_cast<std::uint32_t>(blocks.size()));
    added.sequences.push_back(row.sequence);
    sequences_[row.sequence] = {.spec = *spec};
  }
  std::vector<v3::PrefillResponse> responses;
  if (!added.sequences.empty()) {
    batch.set_id(added.id);
    batch.set_size(static_cast<std::uint32_t>(added.sequences.size()));
    batch.set_max_tokens(n_blocks * info_.block_tokens);
    batch.set_max_blocks(n_blocks_most);
    auto answered = link_->prefill(request);
    if (!answered.ok()) {
      for (const SequenceId id : added.sequences) sequences_.erase(id);
      (void)shrink(added, {});
      return answered.status();
    }
    responses = std::move(answered).value();
    if (batch_of(responses.back()) != nullptr) batches_.push_back(std::move(added));
  }
  StepResult result = collect(plan, responses);
  for (SequenceResult& sequence : result.sequences) {
    const auto found = refused.find(sequence.sequence);
    if (found != refused.end()) sequence.status = found->second;
  }
  return result;
}

// Everybody who runs has a row, and nobody else.
bool StockShardClient::is_everyone(const StepPlan& plan) const {
  const auto runs = [&](SequenceId id) {
    const auto found = sequences_.find(id);
    return found != sequences_.end() && !found->second.finished;
  };
  const auto n_running =
      std::ranges::count_if(sequences_, [](const auto& entry) { return !entry.second.finished; });
  return std::cmp_equal(n_running, plan.rows.size()) &&
         std::ranges::all_of(plan.rows, [&](const Row& row) { return runs(row.sequence); });
}

Result<StepResult> StockShardClient::decode(const StepPlan& plan) {
  if (batches_.empty()) return internal_error("the shard has ended its batches too early");
  if (!is_everyone(plan)) return internal_error("a stock shard cannot choose who gets a token");
  v3::DecodeRequest request;
  for (const Batch& batch : batches_) {
    v3::CachedBatch& cached = *request.add_batches();
    cached.set_id(batch.id);
    cached.set_size(static_cast<std::uint32_t>(batch.sequences.size()));
    for (const SequenceId id : batch.sequences)
      cached.add_request_ids(static_cast<std::uint64_t>(id));
  }
  auto responses = link_->decode(request);
  if (!responses.ok()) {
    lose_batches();
    return responses.status();
  }
  Batch joined{.id = batches_.front().id, .sequences = {}};
  for (const Batch& batch : batches_) {
    joined.sequences.insert(joined.sequences.end(), batch.sequences.begin(), batch.sequences.end());
  }
  batches_.clear();
  if (batch_of(responses->back()) != nullptr) batches_.push_back(std::move(joined));
  return collect(plan, *responses);
}

// Each shard answers for its own share of the sequences.
template <typename Response>
StepResult StockShardClient::collect(const StepPlan& plan, const std::vector<Response>& responses) {
  std::map<std::uint64_t, const v3::Generation*> by_id;
  StepResult out{.step = plan.step, .epoch = plan.epoch};
  for (const Response& response : responses) {
    for (const v3::Generation& generation : response.generations())
      by_id.emplace(generation.request_id(), &generation);
    const std::chrono::nanoseconds total(response.total_ns());
    if (total < out.timings.total) continue;
    out.timings = {.forward = std::chrono::nanoseconds(response.forward_ns()),
                   .sample = std::chrono::nanoseconds(response.decode_ns()),
                   .total = total};
  }
  for (const Row& row : plan.rows) {
    SequenceResult one{.sequence = row.sequence};
    const auto sequence = sequences_.find(row.sequence);
    const auto found = by_id.find(static_cast<std::uint64_t>(row.sequence));
    if (sequence == sequences_.end()) {  // refused before it was sent
      one.status = internal_error("the sequence is not with the shard");
    } else if (found == by_id.end()) {
      one.status = internal_error("the shard gave no token");
    } else if (auto read = from_stock(*found->second, sequence->second.spec); !read.ok()) {
      one.status = read.status();
    } else {
      one = std::move(read).value();
      Sequence& known = sequence->second;
      known.finished = one.finish.has_value();
      known.n_produced += static_cast<std::uint32_t>(one.tokens.size());
      one.next_position =
          static_cast<std::uint32_t>(known.spec.prompt.size()) + known.n_produced - 1;
      if (row.n_draft_max > 0) one.n_drafts = row.n_draft_max;
    }
    if (!one.status.ok()) abandoned_.push_back(row.sequence);
    out.sequences.push_back(std::move(one));
  }
  return out;
}

}  // namespace coxswain::rpc
