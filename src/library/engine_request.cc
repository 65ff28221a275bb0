#include "library/engine_request.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace coxswain::library {

namespace {

Status check_sequences(const Request& request, const request::RequestLimits& limits) {
  if (request.n == 0 || request.n > limits.n_max) {
    return invalid_argument("`n` must be > 0 and <= " + std::to_string(limits.n_max) +
                                ". Given: " + std::to_string(request.n),
                            std::string(batch::kSequencesField));
  }
  if (request.beams.width > 1 && chooses_answers(request)) {
    return invalid_argument(
        "`best_of` must be 0 beside a beam search. Given: " + std::to_string(request.best_of),
        "best_of");
  }
  if (request.best_of == 0 || (request.best_of >= request.n && request.best_of <= limits.n_max))
    return {};
  return invalid_argument("`best_of` must be 0, or >= `n`, " + std::to_string(request.n) +
                              ", and <= " + std::to_string(limits.n_max) +
                              ". Given: " + std::to_string(request.best_of),
                          "best_of");
}

// The type, and what belongs to one type alone.
Status check_type(const Request& request) {
  const bool generates_alone = request.type == RequestType::kGenerationOnly;
  if (request.context_phase.has_value() != generates_alone) {
    return invalid_argument(generates_alone
                                ? "`context_phase` must be given to a generation-only request"
                                : "`context_phase` is for a generation-only request",
                            "context_phase");
  }
  if (request.type == RequestType::kContextAndGeneration) return {};
  if (request.n != 1 || chooses_answers(request) || request.beams.width > 1) {
    return invalid_argument(
        "a context-only or generation-only request has one sequence: `n` and `best_of` must be 1, "
        "and there are no beams",
        std::string(batch::kSequencesField));
  }
  if (request.type == RequestType::kContextOnly) {
    if (request.context_lease.count() > 0) return {};
    return invalid_argument(
        "`context_lease` must be > 0 ms. Given: " + std::to_string(request.context_lease.count()),
        "context_lease");
  }
  if (!request.context_phase->first_tokens.empty()) return {};
  return invalid_argument("`context_phase.first_tokens` must have a token", "context_phase");
}

}  // namespace

Status require_one_answer(const Request& request) {
  if (request.n == 1) return {};
  return invalid_argument(
      "`n` must be 1 where one answer is read. Given: " + std::to_string(request.n),
      std::string(batch::kSequencesField));
}

Status require_whole_request(const Request& request) {
  if (request.type == RequestType::kContextAndGeneration) return {};
  return invalid_argument(
      "`type` must be context and generation here: an Executor's enqueue(Request) takes the others",
      "type");
}

Status require_one_sequence(const Request& request) {
  COXSWAIN_RETURN_IF_ERROR(require_one_answer(request));
  if (!chooses_answers(request)) return {};
  return invalid_argument("`best_of` must be 0 or 1 where an answer is read as it comes. Given: " +
                              std::to_string(request.best_of),
                          "best_of");
}

Result<batch::GenerationRequest> make_engine_request(Request request,
                                                     RequestId id,
                                                     const request::RequestLimits& limits) {
  COXSWAIN_RETURN_IF_ERROR(request::check_stop_sequences(request.stopping.stop_sequences, limits));
  COXSWAIN_RETURN_IF_ERROR(check_sequences(request, limits));
  COXSWAIN_RETURN_IF_ERROR(check_type(request));
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
  out.draft = std::move(request.draft);
  out.sampling = std::move(request.sampling);
  out.beams = request.beams;
  if (request.beams.width > 1) {
    out.n_beam_answers = request.n;
  } else {
    const std::uint32_t n_sequences = std::max(request.n, request.best_of);
    for (std::uint32_t i = 1; i < n_sequences; ++i) out.more_seeds.push_back(out.sampling.seed + i);
  }
  out.stopping = std::move(request.stopping);
  if (request.type == RequestType::kContextOnly) out.context_only = request.context_lease;
  if (request.context_phase) {
    for (const OutputToken& token : request.context_phase->first_tokens)
      out.progress.ids.push_back(token.id);
    out.progress.cumulative_logprob = request.context_phase->cumulative_logprob;
  }
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
