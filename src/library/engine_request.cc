#include "library/engine_request.h"

#include <optional>
#include <string>
#include <utility>

namespace coxswain::library {

Status require_one_sequence(std::uint32_t n) {
  if (n == 1) return {};
  return invalid_argument("`n` must be 1 where one answer is read. Given: " + std::to_string(n),
                          std::string(batch::kSequencesField));
}

Result<batch::GenerationRequest> make_engine_request(Request request,
                                                     RequestId id,
                                                     const request::RequestLimits& limits) {
  COXSWAIN_RETURN_IF_ERROR(request::check_stop_sequences(request.stopping.stop_sequences, limits));
  if (request.n == 0 || request.n > limits.n_max) {
    return invalid_argument("`n` must be > 0 and <= " + std::to_string(limits.n_max) +
                                ". Given: " + std::to_string(request.n),
                            std::string(batch::kSequencesField));
  }
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
  out.beams = request.beams;
  if (request.beams.width > 1) {
    out.n_beam_answers = request.n;
  } else {
    for (std::uint32_t i = 1; i < request.n; ++i) out.more_seeds.push_back(out.sampling.seed + i);
  }
  out.stopping = std::move(request.stopping);
  out.prompt_logprobs = request.prompt_logprobs;
  out.outputs = request.outputs;
  out.cache_salt = std::move(request.cache_salt);
  out.retention = std::move(request.retention);
  out.cache_prompt = request.cache_prompt;
  out.cache_generation = request.cache_generation;
  out.priority = request.priority;
  out.queue_deadline = request.queue_deadline;
  out.deadline = request.deadline;
  return out;
}

}  // namespace coxswain::library
