#include "library/engine_request.h"

#include <algorithm>
#include <string>
#include <utility>

#include "request/token_limits.h"

namespace coxswain::library {
namespace {

Status require_positive(std::string_view option, std::uint64_t value) {
  if (value > 0) return {};
  return invalid_argument("`" + std::string(option) + "` must be > 0. Given: 0",
                          std::string(option));
}

std::uint32_t at_most(std::uint32_t wanted, std::uint32_t limit) {
  return limit == 0 ? wanted : std::min(wanted, limit);
}

}  // namespace

Result<EngineSetup> make_setup(const ExecutorOptions& options,
                               const RunnerInfo& info,
                               std::uint32_t model_batch,
                               std::uint32_t model_prefill) {
  COXSWAIN_RETURN_IF_ERROR(require_positive("batch_size_max", options.batch_size_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("prefill_tokens_max", options.prefill_tokens_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("queue_requests_max", options.queue_requests_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("queue_tokens_max", options.queue_tokens_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("requests_max", options.requests_max));
  COXSWAIN_RETURN_IF_ERROR(require_positive("unread_tokens_max", options.unread_tokens_max));
  request::TokenLimitOptions asked;
  asked.batch_prefill_tokens_max = at_most(options.prefill_tokens_max, model_prefill);
  if (options.batch_total_tokens_max > 0)
    asked.batch_total_tokens_max = options.batch_total_tokens_max;
  COXSWAIN_ASSIGN_OR_RETURN(const request::TokenLimits tokens,
                            request::resolve_limits(asked, info));
  EngineSetup out;
  out.options.batch_size_max = at_most(options.batch_size_max, model_batch);
  out.options.prefill_tokens_max = tokens.batch_prefill_tokens_max;
  out.options.batch_total_tokens_max = options.batch_total_tokens_max;
  out.options.queue_requests_max = options.queue_requests_max;
  out.options.queue_tokens_max = options.queue_tokens_max;
  out.options.prefix_caching = options.prefix_caching;
  out.options.stall_timeout = options.stall_timeout;
  out.limits.input_tokens_max = tokens.input_tokens_max;
  out.limits.total_tokens_max = tokens.total_tokens_max;
  out.limits.stop_sequences_max = options.stop_sequences_max;
  out.limits.stop_bytes_max = options.stop_bytes_max;
  out.limits.vocab_size = info.vocab_size;
  return out;
}

Result<batch::GenerationRequest> make_engine_request(Request request,
                                                     RequestId id,
                                                     const request::RequestLimits& limits) {
  COXSWAIN_RETURN_IF_ERROR(request::check_stop_sequences(request.stopping.stop_sequences, limits));
  const std::size_t n_prompt = request.prompt.ids.size();
  const bool wants_all = request.stopping.max_new_tokens == 0;
  if (n_prompt > limits.total_tokens_max || (wants_all && n_prompt == limits.total_tokens_max)) {
    return invalid_argument("`prompt` must have less than " +
                                std::to_string(limits.total_tokens_max) +
                                " tokens. Given: " + std::to_string(n_prompt),
                            std::string(batch::kPromptField));
  }
  if (wants_all) {
    request.stopping.max_new_tokens =
        request::resolve_max_new_tokens(std::nullopt, n_prompt, limits);
  }
  batch::GenerationRequest out;
  out.id = id;
  out.prompt = std::move(request.prompt.ids);
  out.sampling = std::move(request.sampling);
  out.stopping = std::move(request.stopping);
  out.prompt_logprobs = request.prompt_logprobs;
  out.cache_salt = std::move(request.cache_salt);
  out.priority = request.priority;
  out.queue_deadline = request.queue_deadline;
  out.deadline = request.deadline;
  return out;
}

}  // namespace coxswain::library
