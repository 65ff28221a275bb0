#include "router/auth.h"

#include <algorithm>
#include <array>

#include "api/errors.h"
#include "http/syntax.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

constexpr std::string_view kScheme = "bearer";
// Of clients of Anthropic and of Azure.
constexpr std::array<std::string_view, 2> kKeyHeaders{"x-api-key", "api-key"};
constexpr std::array<std::string_view, 4> kHealthRoutes{
    "/health", "/health/live", "/health/ready", "/ping"};
constexpr std::array<std::string_view, 6> kOpenRoutes{
    "/", "/api/version", "/info", "/metrics", "/models", "/v1/models"};

// Looks at every byte of `given` whatever the first difference is.
bool equal_in_constant_time(std::string_view given, std::string_view key) {
  volatile unsigned difference = given.size() == key.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto expected = static_cast<unsigned char>(key[i % key.size()]);
    difference = difference | (static_cast<unsigned char>(given[i]) ^ expected);
  }
  return difference == 0U;
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view path) {
  return std::find(list.begin(), list.end(), path) != list.end();
}

}  // namespace

bool is_authorized(std::string_view authorization, std::string_view key) {
  if (authorization.size() <= kScheme.size() || key.empty()) return false;
  if (!http::equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return false;
  if (authorization[kScheme.size()] != ' ') return false;
  return equal_in_constant_time(authorization.substr(kScheme.size() + 1), key);
}

bool is_open_route(std::string_view method, std::string_view path, bool protect_all) {
  if (method == "OPTIONS") return true;  // a preflight has no credentials
  if (method != "GET" && method != "HEAD") return false;
  return contains(kHealthRoutes, path) || (!protect_all && contains(kOpenRoutes, path));
}

std::function<std::unique_ptr<http::Response>(const http::Request&)> make_gate(
    const AuthOptions& options) {
  if (options.api_key.empty()) return nullptr;
  return [options](const http::Request& request) -> std::unique_ptr<http::Response> {
    if (is_open_route(request.method, request.path, options.protect_all)) return nullptr;
    if (is_authorized(request.header("authorization"), options.api_key)) return nullptr;
    for (const std::string_view header : kKeyHeaders)
      if (equal_in_constant_time(request.header(header), options.api_key)) return nullptr;
    const Status refused(
        Code::kFailedPrecondition, ErrorKind::kUnauthorized, "missing or wrong API key");
    return std::make_unique<http::Response>(
        error_response(api::style_of(request.path, options.v1), refused, request.request_id));
  };
}

}  // namespace coxswain::router
