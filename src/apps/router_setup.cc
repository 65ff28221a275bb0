#include "apps/router_setup.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/port_lease.h"
#include "router/api_error.h"

namespace coxswain::apps {
namespace {

constexpr std::uint32_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kSequencesPerPromptMax = 4;  // `n`, unless --max-best-of is higher

std::uint32_t clamp_u32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMaxU32));
}

}  // namespace

router::TokenLimitOptions token_limit_options(const options::OptionValues& values) {
  router::TokenLimitOptions out;
  out.input_tokens_max = values.find_u64("max-input-tokens");
  out.total_tokens_max = values.find_u64("max-total-tokens");
  out.batch_total_tokens_max = values.find_u64("max-batch-total-tokens");
  out.batch_prefill_tokens_max = values.get_u32("max-batch-prefill-tokens");
  out.batch_prefill_given = values.is_set("max-batch-prefill-tokens");
  return out;
}

batch::EngineOptions engine_options(const options::OptionValues& values,
                                    const router::TokenLimits& limits,
                                    const RunnerInfo& info) {
  batch::EngineOptions out;
  if (values.get_string("capacity-policy") == "guaranteed-no-evict") {
    out.policy = batch::CapacityPolicy::kGuaranteedNoEvict;
  }
  if (const auto size = values.find_u64("max-batch-size"); size && *size > 0) {
    out.batch_size_max = clamp_u32(*size);
  }
  out.prefill_tokens_max = limits.batch_prefill_tokens_max;
  // The engine counts whole blocks: the last one may be used in part only.
  const std::uint64_t block = std::max(info.block_tokens, 1U);
  out.batch_total_tokens_max =
      clamp_u32((limits.batch_total_tokens_max + block - 1) / block * block);
  out.waiting_served_ratio = static_cast<float>(values.get_f64("waiting-served-ratio"));
  out.waiting_tokens_max = values.get_u32("max-waiting-tokens");
  out.queue_requests_max = values.get_u32("queue-requests-max");
  const std::string& prefix_caching = values.get_string("PREFIX_CACHING");
  // A stock shard promises no prefix cache of the kind that we keep.
  out.prefix_caching =
      info.capabilities.takes_ids && (prefix_caching == "true" || prefix_caching == "1");
  out.stall_timeout = values.get_ms("stall-timeout-ms");
  return out;
}

rpc::StockClientOptions stock_client_options(const options::OptionValues& values,
                                             std::size_t vocab_size) {
  rpc::StockClientOptions out;
  out.vocab_size = clamp_u32(vocab_size);
  out.limits.prefill_tokens_max = values.get_u32("max-batch-prefill-tokens");
  out.limits.batch_size_max = clamp_u32(values.find_u64("max-batch-size").value_or(0));
  out.limits.input_tokens_max = clamp_u32(values.find_u64("max-input-tokens").value_or(0));
  out.limits.total_tokens_max = clamp_u32(values.find_u64("max-total-tokens").value_or(0));
  return out;
}

http::ServerOptions server_options(const options::OptionValues& values,
                                   std::vector<std::string>& warnings) {
  http::ServerOptions out;
  ListenAddress address = listen_address(values.get_string("hostname"));
  if (address.is_fallback) warnings.emplace_back("Invalid hostname, defaulting to 0.0.0.0");
  out.address = std::move(address.text);
  out.port = static_cast<std::uint16_t>(values.get_u32("port"));
  out.threads = values.get_size("http-threads");
  out.request_line_bytes_max = values.get_size("request-line-bytes-max");
  out.header_line_bytes_max = values.get_size("header-line-bytes-max");
  out.header_count_max = values.get_size("header-count-max");
  out.headers_bytes_max = values.get_size("headers-bytes-max");
  out.body_bytes_max = values.get_size("payload-limit");
  out.bodies_bytes_max = values.get_size("bodies-bytes-max");
  out.connections_max = values.get_size("connections-max");
  out.connections_per_address_max = values.get_size("connections-per-address-max");
  out.requests_per_connection_max = values.get_size("requests-per-connection-max");
  out.unsent_bytes_max = values.get_size("unsent-bytes-max");
  out.header_timeout = values.get_ms("header-timeout-ms");
  out.body_gap_timeout = values.get_ms("body-gap-timeout-ms");
  out.body_timeout = values.get_ms("body-timeout-ms");
  out.idle_timeout = values.get_ms("idle-timeout-ms");
  out.stall_timeout = values.get_ms("stall-timeout-ms");
  out.cors_allow_origins = values.get_list("cors-allow-origin");
  if (out.cors_allow_origins.empty()) out.cors_allow_origins = {"*"};
  out.error_body = [](std::string_view path, int, const Status& status) {
    return router::error_body(router::style_of(path), status);
  };
  return out;
}

router::ApiOptions api_options(const options::OptionValues& values,
                               const router::TokenLimits& limits,
                               const RunnerInfo& info) {
  router::ApiOptions out;
  out.model_id = values.find_string("served-model-name")
                     .value_or(values.find_string("tokenizer-name").value_or(info.model_id));
  out.concurrent_requests_max = values.get_size("max-concurrent-requests");
  out.validation_workers = values.get_size("validation-workers");
  out.tokenize_jobs_max = out.validation_workers + values.get_size("tokenize-queue-max");
  out.json_depth_max = values.get_size("json-depth-max");
  out.unsent_bytes_max = values.get_size("unsent-bytes-max");
  out.queue_timeout = values.get_ms("queue-timeout-ms");
  out.request_timeout = values.get_ms("request-timeout-ms");
  out.strict_model = values.get_bool("strict-model");
  out.parse_special_in_content = values.get_bool("parse-special-in-content");
  out.auth.api_key = values.find_string("api-key").value_or(std::string());
  out.auth.protect_all = values.get_bool("protect-all");
  out.limits.input_tokens_max = limits.input_tokens_max;
  out.limits.total_tokens_max = limits.total_tokens_max;
  out.limits.best_of_max = values.get_u32("max-best-of");
  out.limits.n_max = std::max(kSequencesPerPromptMax, out.limits.best_of_max);
  out.limits.stop_sequences_max = values.get_u32("max-stop-sequences");
  out.limits.top_n_tokens_max = values.get_u32("max-top-n-tokens");
  out.limits.vocab_size = info.vocab_size;
  out.documents.client_batch_max = values.get_size("max-client-batch-size");
  out.documents.strict_fields = values.get_bool("strict-fields");
  return out;
}

telemetry::LogOptions log_options(const options::OptionValues& values) {
  telemetry::LogOptions out;
  out.level = telemetry::parse_level(values.get_string("LOG_LEVEL"));
  out.json = values.get_bool("json-output");
  const std::string& colour = values.get_string("LOG_COLORIZE");
  out.colour = colour == "1" || colour == "true";
  out.target = "text_generation_router";
  return out;
}

}  // namespace coxswain::apps
