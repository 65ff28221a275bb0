#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <coxswain/batch_manager.h>
#include <coxswain/local_model.h>
#include <coxswain/retention.h>
#include <sys/prctl.h>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "kvspill/spill_tier.h"
#include "manager/manager_loop.h"
#include "manager/safe_callbacks.h"

namespace coxswain {

namespace manager {
namespace {

constexpr std::chrono::microseconds kTimerSlackMax{1'000};

}  // namespace

// The thread around a ManagerLoop.
class Worker {
 public:
  Worker(std::shared_ptr<StepRunner> runner,
         const ManagerLoop::Settings& settings,
         BatchManagerCallbacks callbacks)
      : idle_poll_(settings.options.idle_poll),
        callbacks_(std::move(callbacks)),
        loop_(std::move(runner), settings, callbacks_, [this] { notify(); }),
        thread_([this] {
          base::name_thread("manager");
          run();
        }) {}
  ~Worker() {
    {
      base::MutexLock lock(mu_);
      leaving_ = true;
    }
    called_.notify_one();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void notify() {
    {
      base::MutexLock lock(mu_);
      notified_ = true;
    }
    called_.notify_one();
  }
  CallbackFailures failures() const { return callbacks_.failures(); }
  KvEvents kv_events() { return loop_.kv_events(); }
  std::string gauges() const {
    base::MutexLock lock(mu_);
    return gauges_of(stats_);
  }

 private:
  void run() {
    // Another timer of this core may end a wait, too: a wake-up of its own costs a thread more than what it does then.
    const std::chrono::nanoseconds slack = std::min(idle_poll_ / 2, kTimerSlackMax);
    prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack.count()));
    bool idle = false;
    for (;;) {
      const bool leaving = wait(idle);
      const bool was_idle = std::exchange(idle, !loop_.turn(leaving));
      if (!idle || !was_idle) publish();
      if (idle && loop_.is_empty() && (leaving || loop_.has_left())) return;
    }
  }

  void publish() {
    base::MutexLock lock(mu_);
    stats_ = loop_.stats();
  }

  // Whether the worker shall leave; where there is nothing to do, once somebody calls or it is time to ask again.
  bool wait(bool idle) {
    base::MutexLock lock(mu_);
    if (idle)
      called_.wait_for(lock, idle_poll_, [&]() REQUIRES(mu_) { return notified_ || leaving_; });
    notified_ = false;
    return leaving_;
  }

  const std::chrono::microseconds idle_poll_;
  SafeCallbacks callbacks_;
  mutable base::Mutex mu_;
  base::CondVar called_;
  ManagerStats stats_ GUARDED_BY(mu_);
  bool notified_ GUARDED_BY(mu_) = false;
  bool leaving_ GUARDED_BY(mu_) = false;
  ManagerLoop loop_;  // the worker's alone; it may call notify() as long as it lives
  std::thread thread_;
};

}  // namespace manager

namespace {

Status refuse(std::string name, std::string_view legal, std::string_view given) {
  std::string text = "`" + name + "` must be ";
  text.append(legal).append(". Given: ").append(given);
  return invalid_argument(std::move(text), std::move(name));
}

Status check(std::int32_t max_beam_width,
             const BatchManagerCallbacks& callbacks,
             const BatchManagerOptions& options) {
  if (!callbacks.get_requests) return refuse("get_requests", "there", "no function");
  if (!callbacks.send_response) return refuse("send_response", "there", "no function");
  if (max_beam_width < 1 || max_beam_width > std::int32_t{kBeamWidthMax}) {
    return refuse("max_beam_width",
                  ">= 1 and <= " + std::to_string(kBeamWidthMax),
                  std::to_string(max_beam_width));
  }
  if (options.idle_poll.count() <= 0)
    return refuse("idle_poll", "> 0 us", std::to_string(options.idle_poll.count()) + " us");
  if (options.max_batch_size == 0) return refuse("max_batch_size", ">= 1", "0");
  if (options.max_num_tokens == 0) return refuse("max_num_tokens", ">= 1", "0");
  const double share = options.kv_cache_free_gpu_mem_fraction.value_or(1.0);
  if (!(share > 0.0 && share <= 1.0))
    return refuse("kv_cache_free_gpu_mem_fraction", "> 0 and <= 1", std::to_string(share));
  if (const auto least = options.secondary_offload_min_priority;
      least && *least > kRetentionPriorityMax) {
    return refuse("secondary_offload_min_priority",
                  ">= 0 and <= " + std::to_string(kRetentionPriorityMax),
                  std::to_string(*least));
  }
  return {};
}

// There is no log: what could not be kept is refused.
Status add_tier(batch::EngineOptions& engine,
                const BatchManagerOptions& options,
                const RunnerInfo& info) {
  const std::uint64_t bytes = options.kv_cache_host_memory_bytes;
  std::string why;
  COXSWAIN_ASSIGN_OR_RETURN(
      engine.tier,
      kvspill::make_tier(
          {.memory_bytes_max = bytes, .warn = [&](std::string_view line) { why = line; }}, info));
  engine.tier_priority_min = options.secondary_offload_min_priority.value_or(0);
  if (engine.tier == nullptr || engine.tier->takes()) return {};
  return refuse("kv_cache_host_memory_bytes", "0, " + why, std::to_string(bytes));
}

batch::EngineOptions engine_options(BatchingType type,
                                    CapacityPolicy policy,
                                    const BatchManagerOptions& options) {
  batch::EngineOptions out;
  out.policy = type == BatchingType::kV1 ? CapacityPolicy::kStaticBatch : policy;
  out.batch_size_max = options.max_batch_size;
  out.prefill_tokens_max = options.max_num_tokens;
  if (!options.enable_chunked_context) out.chunking = batch::ChunkingPolicy::kWholePrompts;
  out.batch_total_tokens_max = options.max_tokens_in_paged_kv_cache;
  out.prefix_caching = options.enable_kv_cache_reuse;
  out.partial_reuse = options.enable_partial_reuse;
  out.final_after_retire = true;
  return out;
}

Result<std::unique_ptr<BatchManager>> start(std::shared_ptr<StepRunner> runner,
                                            BatchingType type,
                                            std::int32_t max_beam_width,
                                            CapacityPolicy policy,
                                            BatchManagerCallbacks callbacks,
                                            const BatchManagerOptions& options) {
  manager::ManagerLoop::Settings settings{.engine = engine_options(type, policy, options),
                                          .type = type,
                                          .max_beam_width = max_beam_width,
                                          .options = options};
  COXSWAIN_RETURN_IF_ERROR(add_tier(settings.engine, options, runner->info()));
  try {
    return std::unique_ptr<BatchManager>(new BatchManager(
        std::make_unique<manager::Worker>(std::move(runner), settings, std::move(callbacks))));
  } catch (const std::exception& e) {  // memory or a thread that the system does not give
    return Status(Code::kResourceExhausted, std::string("cannot start a worker: ") + e.what());
  }
}

}  // namespace

BatchManager::BatchManager(std::unique_ptr<manager::Worker> worker) : worker_(std::move(worker)) {}
BatchManager::~BatchManager() = default;

Result<std::unique_ptr<BatchManager>> BatchManager::create(std::shared_ptr<StepRunner> runner,
                                                           BatchingType type,
                                                           std::int32_t max_beam_width,
                                                           CapacityPolicy policy,
                                                           BatchManagerCallbacks callbacks,
                                                           const BatchManagerOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(check(max_beam_width, callbacks, options));
  if (runner == nullptr) return refuse("runner", "there", "a null pointer");
  if (options.kv_cache_free_gpu_mem_fraction) {
    return refuse("kv_cache_free_gpu_mem_fraction",
                  "absent, the runner has its KV cache already",
                  std::to_string(*options.kv_cache_free_gpu_mem_fraction));
  }
  if (!options.logits_processors.empty()) {
    return refuse("logits_processors",
                  "empty, the runner has its processors already",
                  std::to_string(options.logits_processors.size()));
  }
  if (!options.max_attention_window.empty()) {
    return refuse("max_attention_window",
                  "empty, the runner has its model already",
                  std::to_string(options.max_attention_window.size()) + " windows");
  }
  if (options.sink_token_length > 0) {
    return refuse("sink_token_length",
                  "0, the runner has its model already",
                  std::to_string(options.sink_token_length));
  }
  return start(std::move(runner), type, max_beam_width, policy, std::move(callbacks), options);
}

Result<std::unique_ptr<BatchManager>> BatchManager::create(const std::string& folder,
                                                           BatchingType type,
                                                           std::int32_t max_beam_width,
                                                           CapacityPolicy policy,
                                                           BatchManagerCallbacks callbacks,
                                                           const BatchManagerOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(check(max_beam_width, callbacks, options));
  COXSWAIN_ASSIGN_OR_RETURN(
      const LocalModel model,
      open_model(folder,
                 {.kv_fraction = options.kv_cache_free_gpu_mem_fraction.value_or(1.0),
                  .max_attention_window = options.max_attention_window,
                  .sink_token_length = options.sink_token_length,
                  .prefill_tokens_max = options.max_num_tokens,
                  .batch_size_max = options.max_batch_size,
                  .output_bytes_max = options.output_bytes_max,
                  .logits_processors = options.logits_processors}));
  return start(model.runner(), type, max_beam_width, policy, std::move(callbacks), options);
}

void BatchManager::notify() {
  worker_->notify();
}

KvEvents BatchManager::kv_events() {
  return worker_->kv_events();
}

std::string BatchManager::gauges() const {
  return worker_->gauges();
}

CallbackFailures BatchManager::callback_failures() const {
  return worker_->failures();
}

}  // namespace coxswain
