#include "router/auth.h"

#include <algorithm>
#include <array>

#include "api/errors.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

constexpr std::array<std::string_view, 6> kHealthRoutes{
    "/health", "/health/live", "/health/ready", "/ping", "/v2/health/live", "/v2/health/ready"};
constexpr std::array<std::string_view, 8> kOpenRoutes{"/",
                                                      "/api-doc/openapi.json",
                                                      "/api/version",
                                                      "/docs",
                                                      "/info",
                                                      "/metrics",
                                                      "/models",
                                                      "/v1/models"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view path) {
  return std::find(list.begin(), list.end(), path) != list.end();
}

}  // namespace

bool is_open_route(std::string_view method, std::string_view path, bool protect_all) {
  if (method == "OPTIONS") return true;  // a preflight has no credentials
  if (method != "GET" && method != "HEAD") return false;
  return contains(kHealthRoutes, path) || (!protect_all && contains(kOpenRoutes, path));
}

Status unauthorized() {
  return {Code::kFailedPrecondition, ErrorKind::kUnauthorized, "missing or wrong API key"};
}

std::function<std::unique_ptr<http::Response>(const http::Request&)> make_gate(
    const AuthOptions& options) {
  if (options.keys == nullptr) return nullptr;
  return [options](const http::Request& request) -> std::unique_ptr<http::Response> {
    if (is_open_route(request.method, request.path, options.protect_all)) return nullptr;
    if (request.method == "GET" && request.path == options.health_route) return nullptr;
    if (options.keys->find(request) != nullptr) return nullptr;
    return std::make_unique<http::Response>(error_response(
        api::style_of(request.path, options.v1), unauthorized(), request.request_id));
  };
}

}  // namespace coxswain::router
