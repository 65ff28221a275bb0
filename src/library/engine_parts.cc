#include "library/engine_parts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kvspill/spill_tier.h"
#include "request/token_limits.h"

namespace coxswain::library {
namespace {

Status require_positive(std::string_view option, std::uint64_t value) {
  if (value > 0) return {};
  return invalid_argument("`" + std::string(option) + "` must be > 0. Given: 0",
                          std::string(option));
}

Status check(const ExecutorOptions& options) {
  COXSWAIN_RETURN_IF_ERROR(require_positive("batch_size_max", options.batch_size_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("prefill_tokens_max", options.prefill_tokens_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("queue_requests_max", options.queue_requests_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("queue_tokens_max", options.queue_tokens_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("requests_max", options.requests_max));
  if (options.kv_offload_priority_min > kRetentionPriorityMax) {
    return invalid_argument(
        "`kv_offload_priority_min` must be >= 0 and <= " + std::to_string(kRetentionPriorityMax) +
            ". Given: " + std::to_string(options.kv_offload_priority_min),
        "kv_offload_priority_min");
  }
  return require_positive("unread_tokens_max", options.unread_tokens_max);
}

kvspill::SpillOptions spill_options(const ExecutorOptions& options) {
  const auto warn = [log = options.log](std::string_view line) {
    if (!log) return;
    try {
      log(LogLevel::kWarning, line);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log that fails has nowhere to say so
    }
  };
  return {.memory_bytes_max = options.kv_host_bytes_max,
          .path = options.kv_spill_path,
          .file_bytes_max = options.kv_spill_bytes_max,
          .warn = warn};
}

}  // namespace

Result<EngineParts> make_parts(std::shared_ptr<StepRunner> runner, const ExecutorOptions& options) {
  if (runner == nullptr) return invalid_argument("`runner` must not be null", "runner");
  COXSWAIN_RETURN_IF_ERROR(check(options));
  const RunnerInfo info = runner->info();
  request::TokenLimitOptions asked;
  asked.batch_prefill_tokens_max = options.prefill_tokens_max;
  if (options.batch_total_tokens_max > 0)
    asked.batch_total_tokens_max = options.batch_total_tokens_max;
  COXSWAIN_ASSIGN_OR_RETURN(const request::TokenLimits tokens,
                            request::resolve_limits(asked, info));
  EngineParts out;
  out.runner = std::move(runner);
  out.options.policy = options.policy;
  out.options.batch_size_max = options.batch_size_max;
  out.options.prefill_tokens_max = tokens.batch_prefill_tokens_max;
  out.options.batch_total_tokens_max = options.batch_total_tokens_max;
  out.options.queue_requests_max = options.queue_requests_max;
  out.options.queue_tokens_max = options.queue_tokens_max;
  out.options.prefix_caching = options.prefix_caching;
  out.options.partial_reuse = options.partial_reuse;
  out.options.stall_timeout = options.stall_timeout;
  COXSWAIN_ASSIGN_OR_RETURN(out.options.tier, kvspill::make_tier(spill_options(options), info));
  out.options.tier_priority_min = options.kv_offload_priority_min;
  out.limits.input_tokens_max = tokens.input_tokens_max;
  out.limits.total_tokens_max = tokens.total_tokens_max;
  out.limits.n_max = options.queue_requests_max;
  out.limits.stop_sequences_max = options.stop_sequences_max;
  out.limits.stop_bytes_max = options.stop_bytes_max;
  out.limits.vocab_size = info.vocab_size;
  return out;
}

Result<EngineParts> make_parts(const LocalModel& model, const ExecutorOptions& options) {
  const ModelState& state = *model.state();
  COXSWAIN_ASSIGN_OR_RETURN(ModelLease lease, ModelLease::take(model.state()));
  ExecutorOptions inside = options;
  inside.batch_size_max = std::min(options.batch_size_max, state.batch_size_max);
  inside.prefill_tokens_max = std::min(options.prefill_tokens_max, state.prefill_tokens_max);
  COXSWAIN_ASSIGN_OR_RETURN(EngineParts out, make_parts(model.runner(), inside));
  out.lease = std::move(lease);
  out.codec = model.codec();
  return out;
}

}  // namespace coxswain::library
