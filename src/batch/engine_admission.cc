#include "batch/engine_admission.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "batch/engine_core.h"
#include "batch/plan_size.h"
#include "request/retention_rules.h"
#include "request/sampling_rules.h"

namespace coxswain::batch {
namespace {

// Blocks of a group that may be leased: block 0 is not, and batch_total_tokens_max is an upper bound.
std::uint32_t usable_blocks(const KvGroup& group,
                            std::uint32_t block_tokens,
                            const EngineOptions& options) {
  const std::uint32_t n = group.n_blocks > 0 ? group.n_blocks - 1 : 0;
  if (options.batch_total_tokens_max == 0) return n;
  return std::min(n, options.batch_total_tokens_max / block_tokens);
}

void append(std::string& out, std::string_view part) {
  const auto size = static_cast<std::uint64_t>(part.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(part);
}

Status refuse(std::string_view field, std::string message) {
  return invalid_argument(std::move(message), std::string(field));
}

// What the runner itself takes, whatever the cache holds.
Status check_lengths(const RunnerInfo& info, std::uint64_t n_prompt, std::uint64_t n_new) {
  if (n_prompt == 0) return refuse(kPromptField, "the prompt must have at least one token");
  if (n_new == 0) return refuse(kMaxNewTokensField, "the number of new tokens must be at least 1");
  if (info.max_input_tokens > 0 && n_prompt > info.max_input_tokens) {
    return refuse(kPromptField,
                  "the prompt has " + std::to_string(n_prompt) + " tokens, the runner takes " +
                      std::to_string(info.max_input_tokens));
  }
  if (info.max_total_tokens > 0 && n_prompt + n_new > info.max_total_tokens) {
    return refuse(n_prompt < info.max_total_tokens ? kMaxNewTokensField : kPromptField,
                  "the request has " + std::to_string(n_prompt) + " tokens of the prompt and " +
                      std::to_string(n_new) + " new ones, the runner takes " +
                      std::to_string(info.max_total_tokens) + " together");
  }
  return {};
}

// What only a runner in this process can do.
Status check_local(const RunnerInfo& info,
                   const GenerationRequest& request,
                   std::uint64_t n_prompt) {
  const std::string& processor = request.sampling.logits_processor;
  const auto& known = info.logits_processors;
  if (!processor.empty() && std::find(known.begin(), known.end(), processor) == known.end())
    return refuse("logits_processor", "the runner has no logits processor `" + processor + "`");
  if (info.adapter_pages > 0 && request.adapter_pages > info.adapter_pages) {
    return refuse("adapter",
                  "its adapter takes " + std::to_string(request.adapter_pages) +
                      " pages, the runner has " + std::to_string(info.adapter_pages));
  }
  if (!request.outputs.any()) return {};
  const std::uint64_t bytes = output_bytes(info, request, n_prompt);
  const std::uint64_t limit = info.capabilities.output_bytes_max;
  if (limit > 0 && bytes <= limit) return {};
  return refuse("outputs",
                "logits and hidden states of " + std::to_string(bytes) +
                    " bytes are asked for, `output_bytes_max` of the runner is " +
                    std::to_string(limit));
}

// Requests that live in two engines, one after the other.
Status check_alone(const RunnerInfo& info,
                   const GenerationRequest& request,
                   std::string_view field) {
  if (!info.capabilities.takes_ids) {
    return {
        Code::kFailedPrecondition,
        ErrorKind::kGeneration,
        "`" + std::string(field) +
            "` needs a runner that takes ids; this one takes text, and nobody can go on behind it",
        std::string(field)};
  }
  if (request.n_sequences() == 1 && request.beams.width <= 1) return {};
  return refuse(
      field,
      "a request with `" + std::string(field) + "` has one sequence. Given: " +
          (request.beams.width > 1 ? std::to_string(request.beams.width) + " beams"
                                   : std::to_string(request.n_sequences()) + " sequences"));
}

// What was generated elsewhere, and the sequence that goes on behind it, or will elsewhere.
Status check_progress(const RunnerInfo& info, const GenerationRequest& request) {
  const std::vector<TokenId>& ids = request.progress.ids;
  if (request.context_only) COXSWAIN_RETURN_IF_ERROR(check_alone(info, request, kContextOnlyField));
  if (ids.empty()) return {};
  COXSWAIN_RETURN_IF_ERROR(check_alone(info, request, kProgressField));
  if (ids.size() >= request.stopping.max_new_tokens) {
    return refuse(kProgressField,
                  "`progress` has " + std::to_string(ids.size()) + " ids, `max_new_tokens` is " +
                      std::to_string(request.stopping.max_new_tokens) +
                      ": there is nothing left to generate");
  }
  if (info.vocab_size == 0) return {};
  const auto foreign = request::find_foreign_id(ids, info.vocab_size);
  if (!foreign) return {};
  return refuse(kProgressField,
                "token ids must be >= 0 and < " + std::to_string(info.vocab_size) +
                    ". Given: " + std::to_string(*foreign));
}

}  // namespace

kvcache::KvCacheOptions cache_options(const RunnerInfo& info,
                                      const EngineOptions& options,
                                      const base::HashKey& key) {
  kvcache::KvCacheOptions out{.block_tokens = info.block_tokens,
                              .prefix_caching = options.prefix_caching,
                              .partial_reuse = options.partial_reuse && info.capabilities.moves,
                              .hash_key = key};
  // A recurrent state is one value that moves on; there is nothing to find at an earlier position.
  for (const KvGroup& group : info.kv_groups) {
    if (group.kind == KvGroup::Kind::kState) out.prefix_caching = false;
  }
  // A window that no sequence can outgrow is no window.
  for (const KvGroup& group : info.kv_groups) {
    const bool bounded = group.kind == KvGroup::Kind::kWindow &&
                         (info.max_total_tokens == 0 || group.window < info.max_total_tokens);
    out.groups.push_back({.n_blocks = usable_blocks(group, info.block_tokens, options),
                          .window_tokens = bounded ? group.window : 0,
                          .sink_tokens = group.sink_tokens});
  }
  return out;
}

std::string cache_identity(const RunnerInfo& info,
                           const GenerationRequest& request,
                           std::uint32_t rope_length) {
  std::uint32_t variant = 0;  // the short one
  if (info.rope_switch_length > 0 && rope_length > info.rope_switch_length) {
    variant = info.rope_length_is_exact ? rope_length : 1;
  }
  std::string out;
  append(out, info.kernel_set_id);
  append(out, request.adapter_digest);
  append(out, request.cache_salt);
  append(out, {reinterpret_cast<const char*>(&variant), sizeof variant});
  return out;
}

std::uint64_t prefix_digest(std::string_view identity, std::span<const TokenId> tokens) {
  std::string bytes;
  append(bytes, identity);
  const auto ids = std::as_bytes(tokens);
  append(bytes, {reinterpret_cast<const char*>(ids.data()), ids.size()});
  return base::sip_hash(std::as_bytes(std::span(bytes)), {}, base::kSip24);
}

std::string EngineCore::prefix_identity(const GenerationRequest& request) const {
  const auto n_tokens = static_cast<std::uint32_t>(request.prompt.size());
  return cache_identity(info_, request, n_tokens + request.stopping.max_new_tokens);
}

Status EngineCore::admissible(const RunnerInfo& info,
                              const EngineOptions& options,
                              const GenerationRequest& request,
                              std::span<const TokenId> prompt) {
  const std::uint64_t n_prompt = prompt.size();
  const std::uint64_t n_new = request.stopping.max_new_tokens;
  COXSWAIN_RETURN_IF_ERROR(check_lengths(info, n_prompt, n_new));
  if (info.vocab_size > 0) {  // else the runner alone knows
    if (const auto foreign = request::find_foreign_id(prompt, info.vocab_size)) {
      return refuse(kPromptField,
                    "token ids must be >= 0 and < " + std::to_string(info.vocab_size) +
                        ". Given: " + std::to_string(*foreign));
    }
    if (const auto foreign = request::find_foreign_id(request.draft, info.vocab_size)) {
      return refuse(kDraftField,
                    "token ids must be >= 0 and < " + std::to_string(info.vocab_size) +
                        ". Given: " + std::to_string(*foreign));
    }
    COXSWAIN_RETURN_IF_ERROR(request::check_sampling(
        request.sampling, info.vocab_size, info.capabilities.top_tokens_max));
    COXSWAIN_RETURN_IF_ERROR(request::check_stopping(request.stopping, info.vocab_size));
  }
  COXSWAIN_RETURN_IF_ERROR(check_progress(info, request));
  COXSWAIN_RETURN_IF_ERROR(check_local(info, request, n_prompt));
  COXSWAIN_RETURN_IF_ERROR(request::check_retention(request.retention));
  COXSWAIN_RETURN_IF_ERROR(beams_admissible(info, options, request));
  if (request.beams.width > 1 && !request.draft.empty())
    return refuse(kDraftField, "a beam search takes no draft: it must be empty");
  if (request.n_sequences() > options.queue_requests_max) {
    return refuse(kSequencesField,
                  "the request asks for " + std::to_string(request.n_sequences()) +
                      " sequences, `queue_requests_max` is " +
                      std::to_string(options.queue_requests_max));
  }
  const std::size_t n_waiting =
      request.n_sequences() * waiting_tokens(request, n_prompt + request.progress.ids.size());
  if (n_waiting > options.queue_tokens_max) {
    return refuse(kPromptField,
                  "the request would wait with " + std::to_string(n_waiting) +
                      " tokens, `queue_tokens_max` is " + std::to_string(options.queue_tokens_max));
  }
  const std::size_t bytes = spec_bytes_max(request, n_prompt + n_new);
  if (bytes > options.plan_new_bytes_max) {
    return refuse(kPromptField,
                  "the request takes " + std::to_string(bytes) +
                      " bytes of a plan, `plan_new_bytes_max` is " +
                      std::to_string(options.plan_new_bytes_max));
  }
  // The last token is never computed.
  const std::uint64_t n_tokens = n_prompt + n_new - 1 + spare_positions(info);
  const kvcache::KvCacheOptions cache = cache_options(info, options, {});
  std::uint64_t n_held = UINT32_MAX / 2;
  const auto n_counted = static_cast<std::uint32_t>(std::min(n_tokens, n_held));
  const Scheduler::BeamsAlone beams{.width = request.beams.width,
                                    .n_prompt = static_cast<std::uint32_t>(n_prompt)};
  bool fits = n_tokens <= n_held;
  for (const kvcache::KvGroupOptions& group : cache.groups) {
    if (Scheduler::fits_alone(cache, group, info.capabilities, options, n_counted, beams)) continue;
    n_held = std::min(n_held, std::uint64_t{group.n_blocks} * cache.block_tokens);
    fits = false;
  }
  if (fits) return {};
  std::string each;
  if (beams.width > 1) each = ", in each of " + std::to_string(beams.width) + " beams";
  return refuse(kMaxNewTokensField,
                "the request needs room for " + std::to_string(n_tokens) + " tokens (" +
                    std::to_string(n_prompt) + " of the prompt and " + std::to_string(n_new) +
                    " new ones, but for the last" + each + "), the KV cache holds " +
                    std::to_string(n_held));
}

}  // namespace coxswain::batch
