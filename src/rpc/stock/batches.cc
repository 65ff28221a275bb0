#include "rpc/stock/batches.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <proto/generate_v3.pb.h>

#include "base/numbers.h"

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;

constexpr int kBatchRequestsMax = 65'536;

Status not_found(std::uint64_t id) {
  return {Code::kNotFound,
          ErrorKind::kGeneration,
          "Batch ID " + std::to_string(id) + " not found in cache."};
}

void add_alternatives(const OutputToken& token, v3::Tokens& to) {
  for (const TokenAlternative& alternative : token.alternatives) {
    to.add_ids(static_cast<std::uint32_t>(alternative.id));
    to.add_logprobs(alternative.logprob);
    to.add_texts(alternative.text);
    to.add_is_special(alternative.special);
  }
}

}  // namespace

StockBatches::StockBatches(StepRunner& runner, const TextCodec& codec, Share share)
    : runner_(runner), codec_(codec), share_(share), info_(runner.info()) {
  for (const KvGroup& group : info_.kv_groups) books_.emplace_back(group.n_blocks);
}

Result<std::vector<BlockBook::Claim>> StockBatches::claim_blocks(const StockRequest& request,
                                                                 StockUse use) {
  std::vector<BlockBook::Claim> claims;
  const std::uint32_t n_blocks = base::ceil_div(request.n_positions, info_.block_tokens);
  for (std::size_t group = 0; group < books_.size(); ++group) {
    // A stock router knows one pool; tables of the others are ours.
    const bool named = group == 0 && use == StockUse::kGenerate && !request.blocks.empty();
    auto claim = named ? books_[group].claim(request.blocks, request.cache_len / info_.block_tokens)
                       : books_[group].allocate(n_blocks);
    if (!claim.ok()) {
      for (std::size_t i = 0; i < claims.size(); ++i) books_[i].release(claims[i]);
      return claim.status();
    }
    claims.push_back(std::move(claim).value());
  }
  return claims;
}

Result<StockBatches::Sequence> StockBatches::make_sequence(StockRequest request, StockUse use) {
  if (request.cache_len != 0 && books_.size() > 1) {
    return invalid_argument("`cache_len` must be 0 for a model with several KV groups",
                            "cache_len");
  }
  Sequence sequence;
  COXSWAIN_ASSIGN_OR_RETURN(sequence.claims, claim_blocks(request, use));
  sequence.request_id = request.request_id;
  sequence.spec = std::move(request.spec);
  sequence.spec.id = SequenceId{next_sequence_++};
  sequence.n_computed = request.cache_len;
  sequence.next_chunk = request.first_chunk;
  return sequence;
}

Result<StockBatches::Batch> StockBatches::make_batch(const v3::Batch& from, StockUse use) {
  if (from.requests_size() == 0)
    return invalid_argument("Batch must have at least one request", "requests");
  if (from.requests_size() > kBatchRequestsMax) {
    return invalid_argument("`requests` must have at most " + std::to_string(kBatchRequestsMax) +
                                " entries. Given: " + std::to_string(from.requests_size()),
                            "requests");
  }
  Batch batch{.id = from.id(), .sequences = {}};
  std::set<std::uint64_t> ids;
  for (const v3::Request& request : from.requests()) {
    Status status;
    if (use == StockUse::kGenerate && !ids.insert(request.id()).second) {
      status = invalid_argument(
          "request id " + std::to_string(request.id()) + " is twice in the batch", "requests");
    } else if (auto parsed = read_stock_request(request, codec_, info_, use, grammars_);
               !parsed.ok()) {
      status = parsed.status();
    } else if (auto sequence = make_sequence(std::move(parsed).value(), use); !sequence.ok()) {
      status = sequence.status();
    } else {
      batch.sequences.push_back(std::move(sequence).value());
    }
    if (!status.ok()) {
      drop(batch);
      return status;
    }
  }
  return batch;
}

Result<StockBatches::Batch> StockBatches::take(std::uint64_t id) {
  const auto found = batches_.find(id);
  if (found == batches_.end()) return not_found(id);
  Batch batch = std::move(found->second);
  batches_.erase(found);
  return batch;
}

void StockBatches::finish(Sequence& sequence) {
  if (sequence.finished) return;
  sequence.finished = true;
  if (sequence.known_to_runner) dropped_.push_back(sequence.spec.id);
  for (std::size_t group = 0; group < sequence.claims.size(); ++group)
    books_[group].release(sequence.claims[group]);
  sequence.claims.clear();
}

void StockBatches::drop(Batch& batch) {
  for (Sequence& sequence : batch.sequences) finish(sequence);
}

void StockBatches::flush_drops() {
  if (dropped_.empty()) return;
  StepPlan plan;
  plan.step = next_step_++;
  plan.epoch = info_.epoch;
  plan.dropped = dropped_;
  if (runner_.run(std::move(plan)).ok()) dropped_.clear();
}

void StockBatches::drop_all() {
  for (auto& [id, batch] : batches_) drop(batch);
  batches_.clear();
  flush_drops();
}

Row StockBatches::next_row(const Sequence& sequence) const {
  Row row;
  row.sequence = sequence.spec.id;
  row.first_position = sequence.n_computed;
  if (!sequence.known_to_runner) {
    for (std::size_t group = 0; group < sequence.claims.size(); ++group) {
      row.table_changes.push_back({.kv_group = static_cast<std::uint32_t>(group),
                                   .first_index = 0,
                                   .blocks = sequence.claims[group].table});
    }
  }
  if (sequence.next_chunk == 0) {
    row.tokens = sequence.tail;
    row.emit = Emit::kSample;
    row.n_draft_max = std::min(info_.capabilities.draft_tokens_max,
                               sequence.spec.stopping.max_new_tokens - sequence.n_generated - 1);
  } else {
    const auto begin = sequence.spec.prompt.begin() + sequence.n_computed;
    row.tokens.assign(begin, begin + sequence.next_chunk);
    row.prompt_logprobs = sequence.spec.prompt_logprobs;
    const bool complete = sequence.n_computed + sequence.next_chunk == sequence.spec.prompt.size();
    row.emit = complete ? Emit::kSample : Emit::kNone;
  }
  row.n_tokens = static_cast<std::uint32_t>(row.tokens.size());
  return row;
}

Result<StepResult> StockBatches::step(Batch& batch) {
  StepPlan plan;
  plan.step = next_step_++;
  plan.epoch = info_.epoch;
  plan.dropped = dropped_;
  for (Sequence& sequence : batch.sequences) {
    if (sequence.finished) continue;
    plan.rows.push_back(next_row(sequence));
    if (!sequence.known_to_runner) plan.new_sequences.push_back(sequence.spec);
    sequence.known_to_runner = true;
  }
  const std::size_t n_rows = plan.rows.size();
  COXSWAIN_ASSIGN_OR_RETURN(StepResult result, runner_.run(std::move(plan)));
  dropped_.clear();  // a step that failed may have dropped nobody
  if (result.sequences.size() != n_rows)
    return internal_error("the runner answered other rows than it was given");
  COXSWAIN_RETURN_IF_ERROR(apply(result, batch));
  return result;
}

// Moves every sequence on by its row. A failure of one is a failure of the call: the protocol has
// no other word for it.
Status StockBatches::apply(const StepResult& result, Batch& batch) {
  Status failure;
  auto row = result.sequences.begin();
  for (Sequence& sequence : batch.sequences) {
    if (sequence.finished) continue;
    const SequenceResult& outcome = *row++;
    if (!outcome.status.ok()) {
      sequence.known_to_runner = false;  // it has dropped the sequence itself
      if (failure.ok()) failure = outcome.status;
      continue;
    }
    const std::uint32_t n_row = sequence.tail.empty()
                                    ? sequence.next_chunk
                                    : static_cast<std::uint32_t>(sequence.tail.size());
    sequence.n_computed =
        outcome.next_position != 0 ? outcome.next_position : sequence.n_computed + n_row;
    const bool complete = sequence.n_computed >= sequence.spec.prompt.size();
    sequence.next_chunk =
        complete ? 0
                 : static_cast<std::uint32_t>(sequence.spec.prompt.size()) - sequence.n_computed;
    sequence.prompt_tokens.insert(
        sequence.prompt_tokens.end(), outcome.prompt.begin(), outcome.prompt.end());
    if (!complete) continue;
    if (outcome.tokens.empty())
      return internal_error("the runner gave no token where one was asked for");
    sequence.n_generated += static_cast<std::uint32_t>(outcome.tokens.size());
    if (outcome.finish) continue;
    for (const OutputToken& token : outcome.tokens) sequence.tail.push_back(token.id);
    // Of the last one there is none in any case.
    const std::size_t n_known = sequence.spec.prompt.size() + sequence.n_generated;
    if (sequence.n_computed >= n_known || n_known - sequence.n_computed > sequence.tail.size())
      return internal_error("the runner stands at a position that the row cannot reach");
    sequence.tail.erase(
        sequence.tail.begin(),
        sequence.tail.end() - static_cast<std::ptrdiff_t>(n_known - sequence.n_computed));
  }
  return failure;
}

// The budget goes to the prompts of a batch from the last to the first, at least one token each.
void StockBatches::plan_chunks(Batch& batch) const {
  std::uint32_t n_rows = 0;
  for (const Sequence& sequence : batch.sequences) n_rows += sequence.finished ? 0 : 1;
  std::uint32_t budget =
      prefill_tokens_max_ - std::min(prefill_tokens_max_, n_rows == 0 ? 0 : n_rows - 1);
  for (auto sequence = batch.sequences.rbegin(); sequence != batch.sequences.rend(); ++sequence) {
    if (sequence->finished || sequence->next_chunk == 0) continue;
    sequence->next_chunk = std::max<std::uint32_t>(1, std::min(sequence->next_chunk, budget));
    budget -= std::min(budget, sequence->next_chunk);
  }
}

void StockBatches::describe(const Batch& batch, v3::CachedBatch& to) const {
  to.set_id(batch.id);
  std::uint32_t n_blocks = 0;
  std::uint32_t n_tokens = 0;
  for (const Sequence& sequence : batch.sequences) {
    to.add_request_ids(sequence.request_id);
    if (sequence.finished) continue;
    if (!sequence.claims.empty())
      n_blocks += static_cast<std::uint32_t>(sequence.claims[0].table.size());
    n_tokens += std::max<std::uint32_t>(1, sequence.next_chunk);
  }
  to.set_size(static_cast<std::uint32_t>(batch.sequences.size()));
  to.set_max_tokens(n_blocks * info_.block_tokens);
  to.set_current_tokens(n_tokens);
}

void StockBatches::add_tokens(const Sequence& sequence,
                              const SequenceResult& result,
                              v3::Generation& to) {
  to.set_request_id(sequence.request_id);
  if (sequence.spec.prompt_logprobs && sequence.n_generated == 1) {
    v3::Tokens& prompt = *to.mutable_prefill_tokens();
    for (const PromptToken& token : sequence.prompt_tokens) {
      prompt.add_ids(static_cast<std::uint32_t>(token.id));
      prompt.add_logprobs(token.logprob);
      prompt.add_texts(token.text);
    }
  }
  v3::Tokens& tokens = *to.mutable_tokens();
  for (const OutputToken& token : result.tokens) {
    tokens.add_ids(static_cast<std::uint32_t>(token.id));
    tokens.add_logprobs(token.logprob);
    tokens.add_texts(token.text);
    tokens.add_is_special(token.special);
    if (sequence.spec.sampling.n_top_tokens > 0) add_alternatives(token, *to.add_top_tokens());
  }
  if (!result.finish) return;
  v3::GeneratedText& text = *to.mutable_generated_text();
  text.set_text(result.finish->generated_text);
  text.set_generated_tokens(sequence.n_generated);
  static_assert(static_cast<int>(FinishReason::kStopSequence) == v3::FINISH_REASON_STOP_SEQUENCE);
  text.set_finish_reason(static_cast<v3::FinishReason>(result.finish->reason));
  if (sequence.spec.sampling.do_sample) text.set_seed(sequence.spec.sampling.seed);
}

template <typename Response>
Status StockBatches::run_into(Batch batch, Response& response) {
  auto result = step(batch);
  if (!result.ok()) {
    drop(batch);
    flush_drops();
    return result.status();
  }
  auto row = result->sequences.begin();
  bool all_finished = true;
  for (Sequence& sequence : batch.sequences) {
    if (sequence.finished) continue;
    const SequenceResult& outcome = *row++;
    const bool ours = sequence.request_id % share_.n_ranks == share_.rank;
    if (sequence.next_chunk == 0 && ours)
      add_tokens(sequence, outcome, *response.add_generations());
    if (sequence.next_chunk == 0) sequence.prompt_tokens.clear();
    if (outcome.finish) finish(sequence);
    all_finished = all_finished && sequence.finished;
  }
  response.set_forward_ns(static_cast<std::uint64_t>(result->timings.forward.count()));
  response.set_decode_ns(static_cast<std::uint64_t>(result->timings.sample.count()));
  response.set_total_ns(static_cast<std::uint64_t>(result->timings.total.count()));
  if (all_finished) {
    flush_drops();
    return {};
  }
  plan_chunks(batch);
  describe(batch, *response.mutable_batch());
  batches_.insert_or_assign(batch.id, std::move(batch));
  return {};
}

Status StockBatches::prefill(const v3::PrefillRequest& request, v3::PrefillResponse& response) {
  // Whatever goes wrong, the router counts the cached batch as failed too.
  Batch joined;
  if (request.has_cached_batch()) {
    COXSWAIN_ASSIGN_OR_RETURN(joined, take(request.cached_batch().id()));
  }
  if (auto old = take(request.batch().id()); old.ok()) drop(*old);
  auto batch = make_batch(request.batch(), StockUse::kGenerate);
  if (!batch.ok()) {
    drop(joined);
    flush_drops();
    return batch.status();
  }
  if (!request.has_cached_batch()) return run_into(std::move(batch).value(), response);
  const auto begin = Clock::now();
  std::move(batch->sequences.begin(), batch->sequences.end(), std::back_inserter(joined.sequences));
  response.set_concat_ns(
      static_cast<std::uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1)));
  return run_into(std::move(joined), response);
}

Status StockBatches::decode(const v3::DecodeRequest& request, v3::DecodeResponse& response) {
  if (request.batches_size() == 0)
    return invalid_argument("Must provide at least one batch", "batches");
  const auto begin = Clock::now();
  Batch joined;
  for (int i = 0; i < request.batches_size(); ++i) {
    auto batch = take(request.batches(i).id());
    if (!batch.ok()) {
      drop(joined);
      flush_drops();
      return batch.status();
    }
    if (i == 0) {
      joined = std::move(batch).value();
    } else {
      std::move(
          batch->sequences.begin(), batch->sequences.end(), std::back_inserter(joined.sequences));
    }
  }
  if (request.batches_size() > 1) {
    response.set_concat_ns(
        static_cast<std::uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1)));
  }
  return run_into(std::move(joined), response);
}

Status StockBatches::filter(const v3::FilterBatchRequest& request,
                            v3::FilterBatchResponse& response) {
  COXSWAIN_ASSIGN_OR_RETURN(Batch batch, take(request.batch_id()));
  Batch kept{.id = batch.id, .sequences = {}};
  Status status;
  if (request.request_ids_size() == 0) {
    status = invalid_argument("Batch must have at least one request", "request_ids");
  }
  std::map<std::uint64_t, Sequence*> by_id;
  for (Sequence& sequence : batch.sequences) by_id.emplace(sequence.request_id, &sequence);
  for (const std::uint64_t id : request.request_ids()) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) {
      status = Status(Code::kNotFound,
                      ErrorKind::kGeneration,
                      "Request ID " + std::to_string(id) + " not found in batch " +
                          std::to_string(batch.id) + ".");
      break;
    }
    kept.sequences.push_back(std::move(*found->second));
    found->second->finished = true;  // moved from: nothing is left to be dropped
    by_id.erase(found);
  }
  drop(batch);
  if (!status.ok()) drop(kept);
  flush_drops();
  if (!status.ok()) return status;
  describe(kept, *response.mutable_batch());
  batches_.insert_or_assign(kept.id, std::move(kept));
  return {};
}

Status StockBatches::clear(const v3::ClearCacheRequest& request) {
  if (!request.has_id()) {
    drop_all();
    return {};
  }
  if (auto batch = take(request.id()); batch.ok()) drop(*batch);
  flush_drops();
  return {};
}

Status StockBatches::warmup(const v3::WarmupRequest& request, v3::WarmupResponse& response) {
  drop_all();
  auto batch = make_batch(request.batch(), StockUse::kWarmup);
  if (!batch.ok()) {
    flush_drops();
    if (batch.status().code() != Code::kResourceExhausted) return batch.status();
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "Not enough memory to handle " + std::to_string(request.max_prefill_tokens()) +
                " prefill tokens. You need to decrease `--max-batch-prefill-tokens`"};
  }
  auto result = step(*batch);
  drop(*batch);
  flush_drops();
  if (!result.ok()) return result.status();
  if (request.max_prefill_tokens() != 0) prefill_tokens_max_ = request.max_prefill_tokens();

  // Sequences of a stock router keep their blocks in every group.
  std::uint64_t n_blocks = info_.kv_groups.empty() ? 0 : info_.kv_groups[0].n_blocks;
  for (const KvGroup& group : info_.kv_groups)
    n_blocks = std::min<std::uint64_t>(n_blocks, group.n_blocks);
  const auto supported = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      n_blocks * info_.block_tokens, std::numeric_limits<std::uint32_t>::max()));
  std::uint32_t total = supported;
  if (info_.max_position_embeddings != 0) total = std::min(total, info_.max_position_embeddings);
  if (info_.max_total_tokens != 0) total = std::min(total, info_.max_total_tokens);
  if (request.has_max_total_tokens()) total = request.max_total_tokens();
  response.set_max_supported_total_tokens(supported);
  response.set_max_total_tokens(total);
  response.set_max_input_tokens(request.has_max_input_tokens() ? request.max_input_tokens()
                                                               : total - std::min(total, 1U));
  return {};
}

}  // namespace coxswain::rpc
