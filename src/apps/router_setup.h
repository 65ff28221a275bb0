#pragma once
// From options and from what the shard says to the settings of every part of the router. Pure
// functions; main() does the rest.

#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "batch/engine.h"
#include "http/server.h"
#include "options/options.h"
#include "router/api.h"
#include "telemetry/log.h"

namespace coxswain::apps {

struct TokenLimits {
  std::uint32_t input_tokens_max = 0;
  std::uint32_t total_tokens_max = 0;
  std::uint32_t batch_prefill_tokens_max = 0;
  std::uint32_t batch_total_tokens_max =
      0;  // what the KV cache holds, or the option if that is less
  bool input_defaulted = false;
  bool total_defaulted = false;
};

// Tokens that the KV cache of a runner can hold at once.
std::uint64_t kv_capacity_tokens(const RunnerInfo& info);

// Errors: kInvalidArgument with the text that users know.
Result<TokenLimits> resolve_limits(const options::OptionValues& values, const RunnerInfo& info);

batch::EngineOptions engine_options(const options::OptionValues& values, const TokenLimits& limits);
http::ServerOptions server_options(const options::OptionValues& values,
                                   std::vector<std::string>& warnings);
router::ApiOptions api_options(const options::OptionValues& values,
                               const TokenLimits& limits,
                               const RunnerInfo& info);
telemetry::LogOptions log_options(const options::OptionValues& values);

}  // namespace coxswain::apps
