#pragma once
// From options and from what the shard says to the settings of every part of the router. Pure
// functions; main() does the rest.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "batch/engine.h"
#include "fleet/state/replica_state.h"
#include "http/server.h"
#include "openapi/document.h"
#include "options/options.h"
#include "request/token_limits.h"
#include "router/api.h"
#include "rpc/stock/shard_client.h"
#include "telemetry/log.h"

namespace coxswain::serve {

// Whether a replica is, or may be, on another machine.
bool names_machines(const options::OptionValues& values);
// Whether etcd or Kubernetes say which shards there are.
bool has_members(const options::OptionValues& values);
// Where the shards are that the options name: --master-shard-uds-path, then --replica-uds-path.
std::vector<std::string> named_places(const options::OptionValues& values);
// Errors: kInvalidArgument: tcp://HOST:PORT is none, or shards are named where members come and go.
Status check_places(const options::OptionValues& values);

// What each replica is for: those of named_places(). Where members come and go, mixed until they have come. Errors:
// those of parse_roles(); kInvalidArgument if members bring their roles and the options name some.
Result<std::vector<fleet::Role>> replica_roles(const options::OptionValues& values);

request::TokenLimitOptions token_limit_options(const options::OptionValues& values);

batch::EngineOptions engine_options(const options::OptionValues& values,
                                    const request::TokenLimits& limits,
                                    const RunnerInfo& info);
rpc::StockClientOptions stock_client_options(const options::OptionValues& values,
                                             std::size_t vocab_size);
// `open_files`: the limit that holds. Fewer connections than asked for are a warning.
http::ServerOptions server_options(const options::OptionValues& values,
                                   std::uint64_t open_files,
                                   std::vector<std::string>& warnings);
router::ApiOptions api_options(const options::OptionValues& values,
                               const request::TokenLimits& limits,
                               const RunnerInfo& info);
// The name of the router's log.
inline constexpr const char* kRouterLogTarget = "text_generation_router";
// What the server says of itself.
openapi::DocumentOptions document_options(const options::OptionValues& values,
                                          std::string_view version);
telemetry::LogOptions log_options(const options::OptionValues& values);

}  // namespace coxswain::serve
