#include "library/c_values.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "library/c_handles.h"
#include "library/c_struct.h"

namespace coxswain::library {
namespace {

// A field that is appended later must not lie where an older caller has padding.
static_assert(offsetof(coxswain_model_options, batch_size_max) + 4 == kModelOptionsBytes);
static_assert(offsetof(coxswain_engine_options, prefix_caching) + 4 == kEngineOptionsBytes);
static_assert(offsetof(coxswain_request, cache_salt) + sizeof(char*) == kRequestBytes);
static_assert(offsetof(coxswain_response, owned) + sizeof(void*) == kResponseBytes);
static_assert(offsetof(coxswain_engine_options, iteration_stats_max) + 4 ==
              sizeof(coxswain_engine_options));
static_assert(offsetof(coxswain_model_options, top_tokens_max) + 4 ==
              offsetof(coxswain_model_options, isa));
static_assert(offsetof(coxswain_model_options, isa) + sizeof(char*) ==
              sizeof(coxswain_model_options));
static_assert(offsetof(coxswain_request, beam_diversity_rate) + sizeof(float) ==
              offsetof(coxswain_request, draft));
static_assert(offsetof(coxswain_request, n_draft) + sizeof(std::size_t) ==
              sizeof(coxswain_request));
static_assert(offsetof(coxswain_response, n_accepted_draft_tokens) + 4 ==
              sizeof(coxswain_response));

std::string text_or_empty(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

// A C boolean. Errors: kInvalidArgument.
Status read_bool(std::int32_t given, const char* name, bool& out) {
  if (given != 0 && given != 1) {
    return invalid_argument(
        "`" + std::string(name) + "` must be 0 or 1. Given: " + std::to_string(given), name);
  }
  out = given == 1;
  return {};
}

// What lies too far ahead for the clock is never.
std::chrono::milliseconds milliseconds_of(std::uint64_t given) {
  constexpr auto kMax = std::chrono::milliseconds::max();
  return given < static_cast<std::uint64_t>(kMax.count()) ? std::chrono::milliseconds(given) : kMax;
}

std::optional<TimePoint> deadline_in(std::uint64_t timeout_ms) {
  if (timeout_ms == 0) return std::nullopt;
  const TimePoint now = Clock::now();
  const auto room = std::chrono::floor<std::chrono::milliseconds>(TimePoint::max() - now);
  return now + std::min(milliseconds_of(timeout_ms), room);
}

Status read_bias(const coxswain_request& given, SamplingParams& out) {
  if (given.n_logit_bias == 0) return {};
  if (given.logit_bias_tokens == nullptr) return must_be_set("logit_bias_tokens");
  if (given.logit_bias == nullptr) return must_be_set("logit_bias");
  for (std::size_t i = 0; i < given.n_logit_bias; ++i)
    out.logit_bias.emplace_back(given.logit_bias_tokens[i], given.logit_bias[i]);
  return {};
}

std::int32_t finish_of(const std::optional<FinishReason>& finish) {
  if (!finish) return COXSWAIN_FINISH_NONE;
  switch (*finish) {
    case FinishReason::kLength:
      return COXSWAIN_FINISH_LENGTH;
    case FinishReason::kEosToken:
      return COXSWAIN_FINISH_END_TOKEN;
    case FinishReason::kStopSequence:
      return COXSWAIN_FINISH_STOP;
  }
  return COXSWAIN_FINISH_NONE;
}

}  // namespace

std::chrono::milliseconds timeout_of(std::int64_t timeout_ms) {
  return timeout_ms < 0 ? std::chrono::milliseconds::max() : std::chrono::milliseconds(timeout_ms);
}

coxswain_model_options default_model_options() {
  const LocalModelOptions from;
  coxswain_model_options out{};
  out.struct_size = sizeof out;
  out.kv_bytes = from.kv_bytes;
  out.memory_budget_bytes = from.memory_budget_bytes;
  out.n_threads = static_cast<std::uint32_t>(from.n_threads);
  out.total_tokens_max = from.total_tokens_max;
  out.prefill_tokens_max = from.prefill_tokens_max;
  out.batch_size_max = from.batch_size_max;
  out.draft_tokens_max = from.draft_tokens_max;
  out.top_tokens_max = from.top_tokens_max;
  return out;
}

LocalModelOptions options_of(const coxswain_model_options& given) {
  LocalModelOptions out;
  out.dtype = text_or_empty(given.dtype);
  out.quantize = text_or_empty(given.quantize);
  out.kv_dtype = text_or_empty(given.kv_dtype);
  out.kv_bytes = given.kv_bytes;
  out.memory_budget_bytes = given.memory_budget_bytes;
  out.n_threads = given.n_threads;
  out.total_tokens_max = given.total_tokens_max;
  out.prefill_tokens_max = given.prefill_tokens_max;
  out.batch_size_max = given.batch_size_max;
  out.draft_tokens_max = given.draft_tokens_max;
  out.top_tokens_max = given.top_tokens_max;
  out.isa = text_or_empty(given.isa);
  return out;
}

coxswain_engine_options default_engine_options() {
  const ExecutorOptions from;
  coxswain_engine_options out{};
  out.struct_size = sizeof out;
  out.batch_size_max = from.batch_size_max;
  out.prefill_tokens_max = from.prefill_tokens_max;
  out.batch_total_tokens_max = from.batch_total_tokens_max;
  out.queue_requests_max = from.queue_requests_max;
  out.requests_max = from.requests_max;
  out.unread_tokens_max = from.unread_tokens_max;
  out.stall_timeout_ms = static_cast<std::uint64_t>(from.stall_timeout.count());
  out.stop_sequences_max = from.stop_sequences_max;
  out.prefix_caching = from.prefix_caching ? 1 : 0;
  const SessionsOptions sessions;
  out.session_tokens_max = sessions.tokens_max;
  out.sessions_max = sessions.sessions_max;
  out.iteration_stats_max = static_cast<std::uint32_t>(from.iteration_stats_max);
  return out;
}

Result<ExecutorOptions> options_of(const coxswain_engine_options& given) {
  ExecutorOptions out;
  out.batch_size_max = given.batch_size_max;
  out.prefill_tokens_max = given.prefill_tokens_max;
  out.batch_total_tokens_max = given.batch_total_tokens_max;
  out.queue_requests_max = given.queue_requests_max;
  out.requests_max = given.requests_max;
  out.unread_tokens_max = given.unread_tokens_max;
  out.stall_timeout = milliseconds_of(given.stall_timeout_ms);
  out.stop_sequences_max = given.stop_sequences_max;
  COXSWAIN_RETURN_IF_ERROR(read_bool(given.prefix_caching, "prefix_caching", out.prefix_caching));
  out.iteration_stats_max = given.iteration_stats_max;
  return out;
}

coxswain_request default_request() {
  const Request from;
  coxswain_request out{};
  out.struct_size = sizeof out;
  out.max_new_tokens = from.stopping.max_new_tokens;
  out.do_sample = from.sampling.do_sample ? 1 : 0;
  out.temperature = from.sampling.temperature;
  out.top_k = from.sampling.top_k;
  out.top_p = from.sampling.top_p;
  out.typical_p = from.sampling.typical_p;
  out.min_p = from.sampling.min_p;
  out.repetition_penalty = from.sampling.repetition_penalty;
  out.frequency_penalty = from.sampling.frequency_penalty;
  out.presence_penalty = from.sampling.presence_penalty;
  out.seed = from.sampling.seed;
  out.ignore_eos = from.stopping.ignore_eos ? 1 : 0;
  out.priority = from.priority;
  out.n = from.n;
  out.best_of = from.best_of;
  out.n_top_tokens = from.sampling.n_top_tokens;
  out.min_new_tokens = from.stopping.min_new_tokens;
  out.no_repeat_ngram_size = from.sampling.no_repeat_ngram_size;
  out.beam_width = from.beams.width;
  out.beam_length_penalty = from.beams.length_penalty;
  out.beam_early_stopping = from.beams.early_stopping;
  out.beam_diversity_rate = from.beams.diversity_rate;
  return out;
}

Result<Request> request_of(const coxswain_request& given) {
  if (given.n_stop > 0 && given.stop == nullptr) return must_be_set("stop");
  Request out;
  if (given.prompt != nullptr) out.prompt = given.prompt->prompt;
  SamplingParams& sampling = out.sampling;
  COXSWAIN_RETURN_IF_ERROR(read_bool(given.do_sample, "do_sample", sampling.do_sample));
  sampling.temperature = given.temperature;
  sampling.top_k = given.top_k;
  sampling.top_p = given.top_p;
  sampling.typical_p = given.typical_p;
  sampling.min_p = given.min_p;
  sampling.repetition_penalty = given.repetition_penalty;
  sampling.frequency_penalty = given.frequency_penalty;
  sampling.presence_penalty = given.presence_penalty;
  sampling.seed = given.seed;
  sampling.n_top_tokens = given.n_top_tokens;
  sampling.no_repeat_ngram_size = given.no_repeat_ngram_size;
  COXSWAIN_RETURN_IF_ERROR(read_bias(given, sampling));
  if (given.n_draft > 0 && given.draft == nullptr) return must_be_set("draft");
  out.draft.assign(given.draft, given.draft + given.n_draft);
  out.n = given.n;
  out.best_of = given.best_of;
  out.beams = {.width = given.beam_width,
               .length_penalty = given.beam_length_penalty,
               .early_stopping = given.beam_early_stopping,
               .diversity_rate = given.beam_diversity_rate};
  out.stopping.max_new_tokens = given.max_new_tokens;
  out.stopping.min_new_tokens = given.min_new_tokens;
  for (std::size_t i = 0; i < given.n_stop; ++i) {
    if (given.stop[i] == nullptr) return must_be_set("stop");
    out.stopping.stop_sequences.emplace_back(given.stop[i]);
  }
  COXSWAIN_RETURN_IF_ERROR(read_bool(given.ignore_eos, "ignore_eos", out.stopping.ignore_eos));
  out.priority = given.priority;
  out.queue_deadline = deadline_in(given.queue_timeout_ms);
  out.deadline = deadline_in(given.timeout_ms);
  out.cache_salt = text_or_empty(given.cache_salt);
  return out;
}

coxswain_response empty_response() {
  coxswain_response out{};
  out.struct_size = sizeof out;
  out.text = "";
  out.error = "";
  return out;
}

coxswain_response response_of(Response given) {
  auto owned = std::make_unique<OwnedResponse>();
  owned->response = std::move(given);
  const Response& from = owned->response;
  for (const OutputToken& token : from.tokens) {
    owned->tokens.push_back(token.id);
    owned->logprobs.push_back(token.logprob);
    owned->n_top_tokens.push_back(static_cast<std::uint32_t>(token.alternatives.size()));
    for (const TokenAlternative& top : token.alternatives)
      owned->top_tokens.push_back(
          {.token = top.id, .logprob = top.logprob, .text = top.text.c_str()});
  }
  coxswain_response out = empty_response();
  out.id = static_cast<std::uint64_t>(from.id);
  out.text = from.text.c_str();
  out.text_bytes = from.text.size();
  out.tokens = owned->tokens.data();
  out.logprobs = owned->logprobs.data();
  out.n_tokens = owned->tokens.size();
  out.is_final = from.final ? 1 : 0;
  out.code = static_cast<coxswain_code>(from.status.code());
  out.error = from.status.message().c_str();
  out.finish = finish_of(from.finish);
  out.n_prompt_tokens = from.usage.n_prompt_tokens;
  out.n_cached_prompt_tokens = from.usage.n_cached_prompt_tokens;
  out.n_generated_tokens = from.usage.n_generated_tokens;
  out.n_draft_tokens = from.usage.n_draft_tokens;
  out.n_accepted_draft_tokens = from.usage.n_accepted_draft_tokens;
  out.sequence = from.sequence;
  out.ends_sequence = from.ends_sequence() ? 1 : 0;
  out.top_tokens = owned->top_tokens.data();
  out.n_top_tokens = owned->n_top_tokens.data();
  out.cumulative_logprob = from.cumulative_logprob;
  out.owned = owned.release();
  return out;
}

}  // namespace coxswain::library
