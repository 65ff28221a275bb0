#pragma once
// Executor: an engine for programs with threads of their own: enqueue requests, await their responses.
//
//     auto id = engine.enqueue(std::move(request));
//     for (;;) {
//       Response piece = engine.await(id.value());
//       std::cout << piece.text;
//       if (piece.final) break;
//     }
//
// Every accepted request gets responses in order, exactly one of them final. What a request yields does not depend on
// what else runs (docs/engine.md). A request's id is known until its final response has been collected; awaiting any
// other id is an error, never a wait.
//
// An Executor has one thread, and one more once a LatestState is given; they sleep while nothing is to be done. It
// prints nothing, sets no signal handler, ends no process and throws nothing; its few log lines go to
// ExecutorOptions::log, if that is set.
//
// Thread rule: all methods from any thread, but the destructor, which no call may outlast. Several threads may await
// the same request: each response goes to one of them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/capacity_policy.h>
#include <coxswain/export.h>
#include <coxswain/kv_events.h>
#include <coxswain/latest_state.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>
#include <coxswain/stats.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain {

namespace batch {
class Engine;
}
namespace library {
class SessionTable;
}

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

struct ExecutorOptions {
  // What must be free in the KV cache for a request to begin, and who gives way when it fills up.
  CapacityPolicy policy = CapacityPolicy::kAdaptive;
  // Sequences in one step; never more than the model was opened for.
  std::uint32_t batch_size_max = 256;
  std::uint32_t prefill_tokens_max = 4096;   // prompt tokens in one step, likewise
  std::uint32_t batch_total_tokens_max = 0;  // tokens held in the KV cache; 0 = what it holds
  std::uint32_t queue_requests_max = 1024;   // that were never in a step
  std::size_t queue_tokens_max = std::size_t{16} << 20;  // of all that wait
  // Requests whose final response has not been collected.
  std::uint32_t requests_max = 16384;
  // A request with so many tokens that nobody has awaited is not computed further until somebody does; one that nobody
  // reads for stall_timeout is cancelled.
  std::uint32_t unread_tokens_max = 4096;
  std::chrono::milliseconds stall_timeout{30'000};
  std::uint32_t stop_sequences_max = 64;  // of a request
  std::size_t stop_bytes_max = 4096;      // of a stop string
  bool prefix_caching = true;
  // A prefix that ends inside a cached block takes the beginning of it, as a copy.
  bool partial_reuse = true;
  // Bytes of memory, beside the model's, that keep whole KV blocks of requests that have ended: a later request that
  // begins alike takes them from there, when the KV cache needed the room. 0: none are kept.
  std::uint64_t kv_host_bytes_max = 0;
  // The same in files below a folder, of up to so many bytes, which a later process over the same model finds again;
  // memory is asked first. One engine at a time uses the folder. Empty, or 0: none. The files hold what was said.
  std::string kv_spill_path = {};
  std::uint64_t kv_spill_bytes_max = 0;
  // 0 to 100: neither keeps blocks of a lower priority (Request::retention) and what follows them in their request.
  std::uint32_t kv_offload_priority_min = 0;
  // Of how many steps the statistics are kept for iteration_stats() and request_stats(); 0 = of none, and a step costs
  // nothing for them. The oldest go first.
  std::size_t iteration_stats_max = 1000;
  std::size_t request_stats_max = 0;
  // Events of the KV cache that are kept for kv_events(); 0 = none are made.
  std::size_t kv_events_max = 0;
  // A line for the program's log. Called by the Executor's own thread; must neither block nor call the Executor.
  std::function<void(LogLevel, std::string_view)> log = {};
};

enum class Shutdown : std::uint8_t {
  kDrain,   // what was accepted is answered
  kCancel,  // what was accepted ends with kCancelled
};

class COXSWAIN_EXPORT Executor {
 public:
  // Does not fail: if the model is in use by another engine, or an option is out of range, every request is refused
  // with that reason, and status() says it.
  explicit Executor(const LocalModel& model, ExecutorOptions options = {});
  // `runner` is shared with no other engine.
  explicit Executor(std::shared_ptr<StepRunner> runner, ExecutorOptions options = {});
  // shutdown(kCancel), and the model is free for another engine.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Status status() const;
  // Prompt and answer of one request; 0 where status() is not ok.
  std::uint32_t total_tokens_max() const;

  // Errors, each naming field or option, limit and value; nothing is owned then: kInvalidArgument for a field, a prompt
  // or an answer that is too long; kResourceExhausted for a queue that is full or a request that never fits;
  // kFailedPrecondition where the model is in use; kUnavailable after shutdown() or without a runner.
  Result<RequestId> enqueue(Request request);
  // All of them, or none and the first one's error.
  Result<std::vector<RequestId>> enqueue(std::vector<Request> requests);

  // The same for who takes the newest state in the place of responses: the request cannot be awaited. `state` serves
  // one request, a refused one counted; kFailedPrecondition if it has had one.
  Result<RequestId> enqueue(Request request, const std::shared_ptr<LatestState>& state);

  // Blocks until the request has something new and hands over all of it. An id that is unknown, or whose final response
  // was collected: a final response with kNotFound.
  Response await(RequestId id);
  // The same; after `timeout` a response that is empty() and not final.
  Response await(RequestId id, std::chrono::milliseconds timeout);
  // One response for each id, in their order, as await() gives them one after the other; `timeout` is for all.
  std::vector<Response> await(std::span<const RequestId> ids);
  std::vector<Response> await(std::span<const RequestId> ids, std::chrono::milliseconds timeout);
  // Of the request that has had something new for longest. Without any request: final, with kNotFound.
  Response await_any();
  Response await_any(std::chrono::milliseconds timeout);
  // Requests that await() would answer at once.
  std::size_t n_ready() const;

  // Of the steps since the last call, oldest first (ExecutorOptions::iteration_stats_max, request_stats_max).
  std::vector<IterationStats> iteration_stats();
  std::vector<RequestStatsOfIteration> request_stats();

  // What has become of cached prefixes since the last call (ExecutorOptions::kv_events_max).
  KvEvents kv_events();

  // The request ends with kCancelled, unless it is answered already. Unknown ids are ignored.
  void cancel(RequestId id);

  // Refuses new requests from here on and returns once all are answered; after `grace` what is left is cancelled.
  // Responses can still be collected, and none that nobody reads holds a drain up.
  void shutdown(Shutdown how, std::chrono::milliseconds grace = std::chrono::milliseconds::max());

 private:
  friend class library::SessionTable;
  batch::Engine* engine() const;  // null where status() is not ok
  RunnerInfo runner_info() const;
  // await_any() and n_ready() leave it alone.
  Result<RequestId> enqueue_apart(Request request);

  class COXSWAIN_HIDDEN Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace coxswain
