#include "library/stats_json.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "json/json.h"

namespace coxswain::library {
namespace {

void count(json::Object& out, const char* key, std::uint64_t value) {
  out.append_new(key, json::Value::unsigned_integer(value));
}

void milliseconds(json::Object& out, const char* key, std::chrono::nanoseconds value) {
  out.append_new(key, json::Value::real(std::chrono::duration<double, std::milli>(value).count()));
}

json::Value value_of(const KvCacheStats& kv) {
  json::Object out;
  count(out, "maxNumBlocks", kv.blocks_max);
  count(out, "freeNumBlocks", kv.blocks_free);
  count(out, "usedNumBlocks", kv.blocks_used);
  count(out, "tokensPerBlock", kv.block_tokens);
  count(out, "allocTotalBlocks", kv.use.allocated);
  count(out, "allocNewBlocks", kv.use.allocated_new);
  count(out, "reusedBlocks", kv.use.reused);
  count(out, "missedBlocks", kv.use.missed);
  out.append_new("cacheHitRate", json::Value::real(kv.use.hit_rate()));
  return {std::move(out)};
}

json::Value value_of(const IterationStats& step) {
  json::Object batch;
  count(batch, "numScheduledRequests", step.n_scheduled);
  count(batch, "numContextRequests", step.n_context);
  count(batch, "numGenRequests", step.n_generation);
  count(batch, "numPausedRequests", step.n_paused);
  count(batch, "numCtxTokens", step.n_context_tokens);
  count(batch, "microBatchId", 0);
  batch.append_new("avgNumDecodedTokensPerIter", json::Value::real(step.decoded_tokens_mean()));
  json::Object out;
  count(out, "iter", step.iteration);
  milliseconds(out, "iterLatencyMS", step.duration);
  milliseconds(out, "newActiveRequestsQueueLatencyMS", step.new_active_queue_time);
  count(out, "numNewActiveRequests", step.n_new_active);
  count(out, "numActiveRequests", step.n_active);
  count(out, "numQueuedRequests", step.n_queued);
  count(out, "numCompletedRequests", step.n_completed);
  count(out, "maxNumActiveRequests", step.batch_size_max);
  out.append_new("kvCacheStats", value_of(step.kv));
  out.append_new("inflightBatchingStats", json::Value(std::move(batch)));
  out.append_new("queueHeadWaitsFor", name_of(step.wait));
  return {std::move(out)};
}

}  // namespace

std::string json_of(std::span<const IterationStats> iterations) {
  json::Array out;
  for (const IterationStats& step : iterations) out.push_back(value_of(step));
  return json::write(json::Value(std::move(out)));
}

}  // namespace coxswain::library
