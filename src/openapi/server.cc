// What the server says of itself.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

using Access = Operation::Access;

constexpr std::array kInfo{
    Member{"model_id", "string"},
    Member{"model_sha", "string|null"},
    Member{"model_pipeline_tag", "string|null"},
    Member{"max_concurrent_requests", "u64"},
    Member{"max_best_of", "u64"},
    Member{"max_stop_sequences", "u64"},
    Member{"max_input_tokens", "u64"},
    Member{"max_total_tokens", "u64"},
    Member{"validation_workers", "u64"},
    Member{"max_client_batch_size", "u64"},
    Member{"router", "string"},
    Member{"version", "string"},
    Member{"sha", "string|null"},
    Member{"docker_label", "string|null"},
};
constexpr std::array kVersion{Member{"version", "string"}};

}  // namespace

void describe_server(Description& out) {
  out.begin_family("server", "Health, limits, metrics and this description.");
  out.answer("Info", {kInfo});
  out.answer("Version", {kVersion});
  out.operation({.method = "GET",
                 .path = "/",
                 .id = "front_page",
                 .about = "As /health, with a page of text.",
                 .access = Access::kOpen,
                 .answer = "string",
                 .answer_type = "text/plain",
                 .refusals = {ErrorKind::kHealthcheck}});
  out.operation({.method = "GET",
                 .path = "/health",
                 .id = "health",
                 .about = "Whether requests are answered.",
                 .also = "/health/ready /ping",
                 .access = Access::kHealth,
                 .refusals = {ErrorKind::kHealthcheck}});
  out.operation({.method = "GET",
                 .path = "/health/live",
                 .id = "health_live",
                 .about = "Whether the process answers.",
                 .access = Access::kHealth});
  out.operation({.method = "GET",
                 .path = "/info",
                 .id = "get_model_info",
                 .about = "Names and limits of the served model.",
                 .access = Access::kOpen,
                 .answer = "Info"});
  out.operation({.method = "GET",
                 .path = "/version",
                 .id = "get_version",
                 .about = "The version of the server.",
                 .answer = "Version"});
  out.operation({.method = "GET",
                 .path = "/api/version",
                 .id = "ollama_version",
                 .about = "The same, open.",
                 .access = Access::kOpen,
                 .answer = "Version"});
  out.operation({.method = "GET",
                 .path = "/metrics",
                 .id = "metrics",
                 .about = "Metrics of Prometheus.",
                 .access = Access::kOpen,
                 .answer = "string",
                 .answer_type = "text/plain"});
  out.operation({.method = "GET",
                 .path = "/api-doc/openapi.json",
                 .id = "openapi_document",
                 .about = "This document.",
                 .access = Access::kOpen,
                 .answer = "object"});
  out.operation({.method = "GET",
                 .path = "/docs",
                 .id = "docs_page",
                 .about = "A page that shows this document and sends requests.",
                 .access = Access::kOpen,
                 .answer = "string",
                 .answer_type = "text/html"});
}

}  // namespace coxswain::openapi
