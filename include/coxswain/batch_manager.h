#pragma once
// BatchManager: an engine for programs that were written for TensorRT-LLM's batch manager. One worker thread asks for
// requests, computes and answers, all through callbacks; requests and answers are named tensors.
//
// An iteration, each part on the worker thread and in this order:
//
//     get_requests -> plan and compute one step -> send_response -> poll_stop_signals -> return_stats
//
// Guarantees:
//  - The responses of a sequence come in order. Exactly one of a request is final, and it is the last; one with an
//    error is final.
//  - Before its final response everything that was held for a request is free: its KV blocks, its tensors (the shared
//    pointer is let go), its id, which a new request may have from then on.
//  - A request whose id is being served is refused: it gets a final response with an error, the other one goes on.
//  - A token is sent once, also when a request was paused and resumed.
//  - The destructor takes no new requests, serves those that it has to their end, and joins the worker. Who wants it
//    to be quick lets poll_stop_signals name all of them.
//  - return_stats is not called in an iteration without a request.
//  - What a request yields does not depend on what else runs, nor on batching type, policy or options.
//
// While no request is there the worker asks for some every `idle_poll`, and at once after notify(). A wait may last
// longer by half of that, at most by 1 ms, so that the kernel wakes the worker together with others.
//
// Exceptions that a callback throws are caught and counted (callback_failures()). They mean: get_requests: nothing was
// returned. send_response: nobody listens; the request is stopped and, unless that response was its final one, gets one
// more call, final and with the exception's text as the error. poll_stop_signals: the empty set. return_stats: nothing.
//
// kv_cache_config.h sets the options of the KV cache from a kvCacheConfig.
//
// Tensors, parameters, and what is refused and why: docs/batch-manager.md.
//
// Thread rule: notify(), callback_failures(), kv_events() and gauges() from any thread; callbacks are called by the
// worker, one at a time, and must not block for long; they must not destroy the manager.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <coxswain/capacity_policy.h>
#include <coxswain/export.h>
#include <coxswain/kv_events.h>
#include <coxswain/logits_processor.h>
#include <coxswain/named_tensor.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain {

namespace manager {
class Worker;
}

enum class BatchingType : std::uint8_t {
  kV1,             // requests begin together: while one of a batch runs none joins it
  kInflight,       // the same as kInflightFused: prompts and answers share a step
  kInflightFused,  // requests join and leave with every iteration
};

struct BatchManagerCallbacks {
  // Must be there. `max_new`: how many requests can be taken now, 0 among them; negative = any number. An empty list
  // is no error. What is returned above `max_new` is refused by a final response with an error.
  std::function<std::vector<std::shared_ptr<InferenceRequest>>(std::int32_t max_new)> get_requests;
  // Must be there. `outputs` live until the call returns. A streaming request gets a call in each iteration that
  // yielded tokens of it, with those; another one gets one call with everything. `error` is empty, or says why the
  // request ended, and `final` is true then.
  std::function<void(
      std::uint64_t id, std::span<const NamedTensor> outputs, bool final, const std::string& error)>
      send_response;
  // Each request named is stopped: its final response has what was produced, and no error. Other ids are ignored.
  std::function<std::unordered_set<std::uint64_t>()> poll_stop_signals;
  // One JSON object.
  std::function<void(const std::string& json)> return_stats;
};

struct BatchManagerOptions {
  // How often get_requests is called while no request is there; > 0.
  std::chrono::microseconds idle_poll{2'000};
  // Requests served at once (maxNumRequests), each of their sequences counted; get_requests is asked for as many as are
  // missing. 0 = no limit: it is asked with a negative number.
  std::uint32_t max_num_requests = 256;
  // Of these, such as were in no step yet; 0 = no limit.
  std::uint32_t max_queue_size = 0;
  // Sequences in one step.
  std::uint32_t max_batch_size = 256;
  // Prompt tokens in one step; longer prompts are computed in several.
  std::uint32_t max_num_tokens = 4096;
  // False: a prompt is computed in one step, and one that is longer than max_num_tokens is refused. What a pause has
  // made longer than that is divided.
  bool enable_chunked_context = true;
  // Upper bound on the tokens held in the KV cache (maxTokensInPagedKvCache). 0 = what it holds.
  std::uint32_t max_tokens_in_paged_kv_cache = 0;
  // Share of the free memory that the KV cache takes, (0, 1]; empty = all that is useful. Only where the manager opens
  // the model: another runner has its cache already.
  std::optional<double> kv_cache_free_gpu_mem_fraction = {};
  // Only where the manager opens the model, as the former: bytes of logits that requests may ask for at once, 0 = they
  // may ask for none; and what they may name as their logits post-processor.
  std::uint64_t output_bytes_max = std::uint64_t{64} << 20;
  std::map<std::string, std::shared_ptr<LogitsProcessor>> logits_processors = {};
  // As in LocalModelOptions (maxAttentionWindow, sinkTokenLength), likewise only where the manager opens the model.
  std::vector<std::uint32_t> max_attention_window = {};
  std::uint32_t sink_token_length = 0;
  // Finished prefixes are found again by later requests (enableBlockReuse), also the beginning of a block, by a copy.
  bool enable_kv_cache_reuse = true;
  bool enable_partial_reuse = true;
  // Bytes of memory behind the KV cache, for blocks of requests that have ended (hostCacheSize); 0 = none. Refused
  // where blocks cannot be kept. Those of a priority below secondary_offload_min_priority (0 to 100; unless it is given
  // 0), and what follows them in their request, are not kept there.
  std::uint64_t kv_cache_host_memory_bytes = 0;
  std::optional<std::uint32_t> secondary_offload_min_priority = {};
  // Events of the KV cache that are kept for kv_events() (eventBufferMaxSize); 0 = none are made.
  std::size_t event_buffer_max_size = 0;
  // Accepted for programs that set it: the next step is always prepared while one runs.
  bool enable_trt_overlap = false;
  // output_ids of a request that does not stream begins behind the prompt.
  bool exclude_input_in_output = false;
  // A request with this id makes the worker leave, as the destructor does.
  std::optional<std::uint64_t> terminate_req_id = {};
  // False: requests with `streaming` are refused.
  bool decoupled = true;
  // The least time between two calls; 0 = in every iteration.
  std::chrono::milliseconds stop_signal_period{0};
  std::chrono::milliseconds stats_period{0};
};

// Exceptions of callbacks, since the start.
struct CallbackFailures {
  std::uint64_t count = 0;
  std::string last;  // "get_requests: " and what it says
};

class COXSWAIN_EXPORT BatchManager {
 public:
  // `runner` is shared with nobody. `max_beam_width`: the widest beam search of a request, 1 to 16.
  // Errors: kInvalidArgument naming the parameter, what is legal and what was given.
  static Result<std::unique_ptr<BatchManager>> create(std::shared_ptr<StepRunner> runner,
                                                      BatchingType type,
                                                      std::int32_t max_beam_width,
                                                      CapacityPolicy policy,
                                                      BatchManagerCallbacks callbacks,
                                                      const BatchManagerOptions& options = {});
  // The same over a model of this machine, opened for it alone. Errors: also those of open_model().
  static Result<std::unique_ptr<BatchManager>> create(const std::string& folder,
                                                      BatchingType type,
                                                      std::int32_t max_beam_width,
                                                      CapacityPolicy policy,
                                                      BatchManagerCallbacks callbacks,
                                                      const BatchManagerOptions& options = {});
  // The library's own.
  explicit BatchManager(std::unique_ptr<manager::Worker> worker);
  // Drains; see above. REQUIRES: not called from a callback.
  ~BatchManager();
  BatchManager(const BatchManager&) = delete;
  BatchManager& operator=(const BatchManager&) = delete;

  // There are requests: an idle worker calls get_requests at once.
  void notify();
  CallbackFailures callback_failures() const;
  // What has become of cached prefixes since the last call; what did not fit is counted.
  KvEvents kv_events();
  // The statistics of the last iteration as Triton's backend names them (nv_trt_llm_...), in Prometheus' text format.
  std::string gauges() const;

 private:
  std::unique_ptr<manager::Worker> worker_;
};

}  // namespace coxswain
