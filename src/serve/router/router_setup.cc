#include "serve/router/router_setup.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "api/errors.h"
#include "membership/membership.h"
#include "router/error_response.h"
#include "rpc/peer_channel.h"
#include "serve/log_level.h"
#include "serve/replica_roles.h"

namespace coxswain::serve {
namespace {

constexpr std::uint32_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();
// Beside connections: what is refused at the moment, files, the shard, timers.
constexpr std::uint64_t kOtherFiles = 128;

std::uint32_t clamp_u32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMaxU32));
}

CapacityPolicy capacity_policy(std::string_view word) {
  if (word == "guaranteed-no-evict") return CapacityPolicy::kGuaranteedNoEvict;
  if (word == "static-batch") return CapacityPolicy::kStaticBatch;
  if (word == "max-utilization") return CapacityPolicy::kMaxUtilization;
  return CapacityPolicy::kAdaptive;
}

api::ApiStyle v1_style(const options::OptionValues& values) {
  return values.get<"v1-dialect">() == "tgi" ? api::ApiStyle::kTgi : api::ApiStyle::kOpenAi;
}

}  // namespace

bool has_members(const options::OptionValues& values) {
  return values.get<"membership">() != "static";
}

std::vector<std::string> named_places(const options::OptionValues& values) {
  std::vector<std::string> out{values.get<"master-shard-uds-path">()};
  const std::vector<std::string>& more = values.get<"replica-uds-path">();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Status check_places(const options::OptionValues& values) {
  const bool names_some =
      values.is_set<"master-shard-uds-path">() || values.is_set<"replica-uds-path">();
  if (has_members(values) && names_some) {
    return invalid_argument("`membership` " + values.get<"membership">() +
                                " says which shards there are: leave `master_shard_uds_path` and "
                                "`replica_uds_path` out",
                            "membership");
  }
  for (const std::string& place : named_places(values)) {
    if (!place.starts_with(rpc::kAddressScheme)) continue;
    COXSWAIN_RETURN_IF_ERROR(
        membership::check_address(std::string_view(place).substr(rpc::kAddressScheme.size()))
            .with_context("shard " + place));
  }
  return {};
}

Result<std::vector<fleet::Role>> replica_roles(const options::OptionValues& values) {
  if (!has_members(values)) return roles_of(values, named_places(values).size());
  if (values.is_set<"roles">()) {
    return invalid_argument("`roles` are said by the members with `membership` " +
                                values.get<"membership">() + ": leave it out",
                            "roles");
  }
  return std::vector(values.get<"members-max">(), fleet::Role::kMixed);
}

request::TokenLimitOptions token_limit_options(const options::OptionValues& values) {
  request::TokenLimitOptions out;
  out.input_tokens_max = values.get<"max-input-tokens">();
  out.total_tokens_max = values.get<"max-total-tokens">();
  out.batch_total_tokens_max = values.get<"max-batch-total-tokens">();
  out.batch_prefill_tokens_max = values.get<"max-batch-prefill-tokens">();
  out.batch_prefill_given = values.is_set<"max-batch-prefill-tokens">();
  return out;
}

batch::EngineOptions engine_options(const options::OptionValues& values,
                                    const request::TokenLimits& limits,
                                    const RunnerInfo& info) {
  batch::EngineOptions out;
  out.policy = capacity_policy(values.get<"capacity-policy">());
  if (const auto size = values.get<"max-batch-size">(); size && *size > 0) {
    out.batch_size_max = *size;
  }
  out.prefill_tokens_max = limits.batch_prefill_tokens_max;
  out.prefill_tokens_min = values.get<"prefill-tokens-min">();
  out.target_itl = values.get<"target-itl-ms">();
  // The engine counts whole blocks: the last one may be used in part only.
  const std::uint64_t block = std::max(info.block_tokens, 1U);
  out.batch_total_tokens_max =
      clamp_u32((limits.batch_total_tokens_max + block - 1) / block * block);
  out.waiting_served_ratio = static_cast<float>(values.get<"waiting-served-ratio">());
  out.waiting_tokens_max = values.get<"max-waiting-tokens">();
  out.queue_requests_max = values.get<"queue-requests-max">();
  out.queue_tokens_max = values.get<"queue-tokens-max">();
  // A stock shard promises no prefix cache of the kind that we keep.
  out.prefix_caching = info.capabilities.takes_ids && values.get<"PREFIX_CACHING">();
  out.stall_timeout = values.get<"stall-timeout-ms">();
  return out;
}

rpc::StockClientOptions stock_client_options(const options::OptionValues& values,
                                             std::size_t vocab_size) {
  rpc::StockClientOptions out;
  out.vocab_size = clamp_u32(vocab_size);
  out.limits.prefill_tokens_max = values.get<"max-batch-prefill-tokens">();
  out.limits.batch_size_max = values.get<"max-batch-size">().value_or(0);
  out.limits.input_tokens_max = values.get<"max-input-tokens">().value_or(0);
  out.limits.total_tokens_max = values.get<"max-total-tokens">().value_or(0);
  return out;
}

http::ServerOptions server_options(const options::OptionValues& values,
                                   std::uint64_t open_files,
                                   std::vector<std::string>& warnings) {
  http::ServerOptions out;
  out.address = values.get<"hostname">();
  out.port = values.get<"port">();
  out.threads = values.get<"http-threads">();
  out.request_line_bytes_max = values.get<"request-line-bytes-max">();
  out.header_line_bytes_max = values.get<"header-line-bytes-max">();
  out.header_count_max = values.get<"header-count-max">();
  out.headers_bytes_max = values.get<"headers-bytes-max">();
  out.body_bytes_max = values.get<"payload-limit">();
  out.bodies_bytes_max = values.get<"bodies-bytes-max">();
  out.connections_max = values.get<"connections-max">();
  const std::uint64_t n_fit = open_files > 2 * kOtherFiles ? open_files - kOtherFiles : kOtherFiles;
  if (out.connections_max > n_fit) {
    warnings.push_back("`--connections-max` " + std::to_string(out.connections_max) +
                       " does not fit into " + std::to_string(open_files) + " open files, " +
                       std::to_string(n_fit) +
                       " is used; raise the limit of this user (ulimit -n, LimitNOFILE=)");
    out.connections_max = n_fit;
  }
  out.connections_per_address_max = values.get<"connections-per-address-max">();
  out.requests_per_connection_max = values.get<"requests-per-connection-max">();
  out.unsent_bytes_max = values.get<"unsent-bytes-max">();
  out.header_timeout = values.get<"header-timeout-ms">();
  out.body_gap_timeout = values.get<"body-gap-timeout-ms">();
  out.body_timeout = values.get<"body-timeout-ms">();
  out.idle_timeout = values.get<"idle-timeout-ms">();
  out.stall_timeout = values.get<"stall-timeout-ms">();
  out.cors_allow_origins = values.get<"cors-allow-origin">();
  if (out.cors_allow_origins.empty()) out.cors_allow_origins = {"*"};
  out.refusal = [v1 = v1_style(values)](std::string_view path, const Status& why) {
    return router::error_response(api::style_of(path, v1), why);
  };
  return out;
}

bool names_machines(const options::OptionValues& values) {
  const auto is_machine = [](std::string_view place) {
    return place.starts_with(rpc::kAddressScheme);
  };
  return has_members(values) || std::ranges::any_of(named_places(values), is_machine);
}

router::ApiOptions api_options(const options::OptionValues& values,
                               const request::TokenLimits& limits,
                               const RunnerInfo& info) {
  router::ApiOptions out;
  out.model_id = values.get<"served-model-name">().value_or(
      values.get<"tokenizer-name">().value_or(info.model_id));
  out.concurrent_requests_max = values.get<"max-concurrent-requests">();
  out.validation_workers = values.get<"validation-workers">();
  out.tokenize_jobs_max = out.validation_workers + values.get<"tokenize-queue-max">();
  out.json_depth_max = values.get<"json-depth-max">();
  out.stored_responses_bytes_max = values.get<"stored-responses-bytes-max">();
  out.unsent_bytes_max = values.get<"unsent-bytes-max">();
  out.queue_timeout = values.get<"queue-timeout-ms">();
  out.request_timeout = values.get<"request-timeout-ms">();
  out.predict_route = values.get<"AIP_PREDICT_ROUTE">().value_or("");
  out.auth.health_route = values.get<"AIP_HEALTH_ROUTE">().value_or("");
  out.strict_model = values.get<"strict-model">();
  out.parse_special_in_content = values.get<"parse-special-in-content">();
  out.auth.v1 = v1_style(values);
  out.auth.protect_all = values.get<"protect-all">();
  out.limits.input_tokens_max = limits.input_tokens_max;
  out.limits.total_tokens_max = limits.total_tokens_max;
  out.limits.best_of_max = values.get<"max-best-of">();
  out.limits.n_max = values.get<"n-max">();
  out.limits.stop_sequences_max = values.get<"max-stop-sequences">();
  out.limits.top_n_tokens_max = values.get<"max-top-n-tokens">();
  out.limits.vocab_size = info.vocab_size;
  out.limits.eos_token_ids = info.eos_token_ids;
  out.limits.allows_grammars = !values.get<"disable-grammar-support">();
  out.limits.grammars_are_patterns = !info.capabilities.takes_ids;  // stock shards
  out.documents.client_batch_max = values.get<"max-client-batch-size">();
  out.documents.strict_fields = values.get<"strict-fields">();
  return out;
}

openapi::DocumentOptions document_options(const options::OptionValues& values,
                                          std::string_view version) {
  return {.version = version,
          .v1 = v1_style(values),
          .has_keys = values.is_set<"api-key">() || values.is_set<"api-keys-path">(),
          .protect_all = values.get<"protect-all">()};
}

telemetry::LogOptions log_options(const options::OptionValues& values) {
  telemetry::LogOptions out;
  out.target = kRouterLogTarget;
  out.level = log_level_of(values.get<"LOG_LEVEL">(), out.target).level;
  out.json = values.get<"json-output">();
  out.colour = values.get<"LOG_COLORIZE">();
  return out;
}

}  // namespace coxswain::serve
