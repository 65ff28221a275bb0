#pragma once
// Rows of the option table. What is logged, and where to.
// TGI's names, variables and defaults come first, ours after them.

#include "options/option_spec.h"

namespace coxswain::options {

inline constexpr std::string_view kRouterTraces = "the router's traces have the times of a request";

inline constexpr OptionSpec kLogRows[] = {
    {.name = "json-output",
     .env = "JSON_OUTPUT",
     .env_binaries = kFront,
     .type = OptionType::kFlag,
     .binaries = kAll,
     .common = true,
     .help = "Write the log as JSON, one object a line"},
    {.name = "logger-level",
     .default_value = "INFO",
     .binaries = kInServer,
     .help = "Least level logged: TRACE, DEBUG, INFO, WARN or ERROR"},
    {.env = "LOG_LEVEL",
     .default_value = "info",
     .binaries = kFront,
     .common = true,
     .help = "Least level logged: trace, debug, info, warn, error or off; or directives as "
             "`info,text_generation_router=debug`, of which the longest that fits a program holds"},
    {.env = "LOG_COLORIZE",
     .type = OptionType::kBool,
     .default_value = "0",
     .choices = "0|1|true|false",
     .binaries = kFront,
     .help = "Colour the log"},
    {.name = "otlp-endpoint",
     .env = "OTLP_ENDPOINT",
     .binaries = kFront,
     .help = "Collector that traces of requests are sent to, as http://HOST:4317 (docs/traces.md); "
             "none by default"},
    {.name = "otlp-protocol",
     .env = "OTLP_PROTOCOL",
     .type = OptionType::kChoice,
     .default_value = "grpc",
     .choices = "grpc|http/protobuf",
     .binaries = kFront,
     .help = "How the collector is spoken to"},
    {.name = "otlp-service-name",
     .env = "OTLP_SERVICE_NAME",
     .default_value = "text-generation-inference.router",
     .binaries = kFront,
     .help = "Name of the service in traces"},
    {.name = "otlp-endpoint",
     .binaries = kInServer,
     .status = OptionStatus::kNoop,
     .help = "Collector that traces are sent to",
     .reason = kRouterTraces},
    {.name = "otlp-service-name",
     .default_value = "text-generation-inference.server",
     .binaries = kInServer,
     .status = OptionStatus::kNoop,
     .help = "Name of the service in traces",
     .reason = kRouterTraces},
    {.name = "usage-stats",
     .env = "USAGE_STATS",
     .type = OptionType::kChoice,
     .default_value = "on",
     .choices = "on|off|no-stack",
     .binaries = kFront,
     .status = OptionStatus::kNoop,
     .neutral = "off",
     .help = "Send statistics of use to Hugging Face",
     .reason = "nothing is ever sent"},
    {.name = "env",
     .short_name = 'e',
     .type = OptionType::kFlag,
     .binaries = kInLauncher,
     .help = "Log the version and what it runs on, and go on"},
};

}  // namespace coxswain::options
