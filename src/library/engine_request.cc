#include "library/engine_request.h"

#include <optional>
#include <string>
#include <utility>

namespace coxswain::library {

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
