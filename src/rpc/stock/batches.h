#pragma once
// StockBatches: what the calls of generate.v3 mean, over any StepRunner.
//
// A stock router keeps batches by id in the shard: Prefill makes one, Decode runs one step of it
// (several are joined, the first id stays), FilterBatch keeps some of its requests, ClearCache
// forgets. Every call takes its batches out of the dictionary first, so a call that fails leaves
// nothing of them behind. A request whose prompt comes in chunks stays in its batch and yields
// nothing until the prompt is complete; this side chooses the later chunks. Finished requests stay
// listed until the router filters them out, but are not run and hold no blocks.
//
// Each call becomes one StepPlan. Sequence ids are ours: those of routers need not be unique (all
// warm-up requests have id 0).
//
// Thread rule: one call at a time (RunnerGate).

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "rpc/stock/block_book.h"
#include "rpc/stock/request.h"

namespace generate::v3 {
class Batch;
class CachedBatch;
class ClearCacheRequest;
class DecodeRequest;
class DecodeResponse;
class FilterBatchRequest;
class FilterBatchResponse;
class Generation;
class PrefillRequest;
class PrefillResponse;
class WarmupRequest;
class WarmupResponse;
}  // namespace generate::v3

namespace coxswain::rpc {

class StockBatches {
 public:
  // This shard answers for the requests with id % n_ranks == rank.
  struct Share {
    std::uint32_t rank = 0;
    std::uint32_t n_ranks = 1;
  };

  // Both must outlive this object.
  StockBatches(StepRunner& runner, const TextCodec& codec, Share share);

  Status warmup(const generate::v3::WarmupRequest& request, generate::v3::WarmupResponse& response);
  Status prefill(const generate::v3::PrefillRequest& request,
                 generate::v3::PrefillResponse& response);
  Status decode(const generate::v3::DecodeRequest& request, generate::v3::DecodeResponse& response);
  Status filter(const generate::v3::FilterBatchRequest& request,
                generate::v3::FilterBatchResponse& response);
  Status clear(const generate::v3::ClearCacheRequest& request);

  // Forgets every batch, and the runner every sequence of them.
  void drop_all();

 private:
  struct Sequence {
    std::uint64_t request_id = 0;
    SequenceSpec spec;
    std::vector<BlockBook::Claim> claims;  // one per KV group; empty once finished
    std::uint32_t n_computed = 0;          // positions in the KV cache
    std::uint32_t next_chunk = 0;  // prompt tokens of the next step; 0 when the prompt is complete
    std::uint32_t n_generated = 0;
    std::vector<TokenId> tail;               // of the output: not in the KV cache
    std::vector<PromptToken> prompt_tokens;  // collected until the first token
    bool known_to_runner = false;
    bool finished = false;
  };
  struct Batch {
    std::uint64_t id = 0;
    std::vector<Sequence> sequences;
  };

  Result<Batch> make_batch(const generate::v3::Batch& from, StockUse use);
  Result<Sequence> make_sequence(StockRequest request, StockUse use);
  Result<std::vector<BlockBook::Claim>> claim_blocks(const StockRequest& request, StockUse use);
  Result<Batch> take(std::uint64_t id);
  // Runs one step of every sequence that is not finished.
  Result<StepResult> step(Batch& batch);
  Row next_row(const Sequence& sequence) const;
  Status apply(const StepResult& result, Batch& batch);
  // Like step(), with the outcome written as generations; drops the batch on failure.
  template <typename Response>
  Status run_into(Batch batch, Response& response);
  void plan_chunks(Batch& batch) const;
  void finish(Sequence& sequence);
  void drop(Batch& batch);
  // Tells the runner now about sequences that were dropped.
  void flush_drops();
  void describe(const Batch& batch, generate::v3::CachedBatch& to) const;
  static void add_tokens(const Sequence& sequence,
                         const SequenceResult& result,
                         generate::v3::Generation& to);

  StepRunner& runner_;
  const TextCodec& codec_;
  const Share share_;
  const RunnerInfo info_;
  grammar::Compiler grammars_;
  std::vector<BlockBook> books_;  // one per KV group
  std::map<std::uint64_t, Batch> batches_;
  std::vector<SequenceId> dropped_;  // to be named in the next plan
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_step_ = 1;
  std::uint32_t prefill_tokens_max_ = 0xFFFFFFFFu;  // of one step, from Warmup
};

}  // namespace coxswain::rpc
