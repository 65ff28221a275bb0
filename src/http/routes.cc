#include "http/routes.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace coxswain::http {

void RouteTable::add(std::string method, std::string path, Handler handler) {
  paths_[std::move(path)][std::move(method)] = std::move(handler);
}

const Handler* RouteTable::find(std::string_view path, std::string_view method) const {
  const auto methods = paths_.find(path);
  if (methods == paths_.end()) return nullptr;
  const auto handler = methods->second.find(method == "HEAD" ? "GET" : method);
  return handler == methods->second.end() ? nullptr : &handler->second;
}

std::string RouteTable::allowed(std::string_view path) const {
  std::string out;
  const auto methods = paths_.find(path);
  if (methods == paths_.end()) return out;
  for (const auto& [method, handler] : methods->second) {
    if (!out.empty()) out += ", ";
    out += method == "GET" ? "GET, HEAD" : method;
  }
  return out;
}

std::string_view RouteTable::nearest(std::string_view path) const {
  constexpr std::size_t kBytesMax = 64;
  if (path.size() > kBytesMax) return {};
  std::string_view out;
  std::size_t errors_max = path.size() / 2;
  for (const auto& route : paths_) {
    if (route.first == "/") continue;
    const std::size_t errors = base::edit_distance(path, route.first);
    if (errors > errors_max || (errors == errors_max && !out.empty())) continue;
    errors_max = errors;
    out = route.first;
  }
  return out;
}

void CorsPolicy::append_headers(std::string_view origin, std::vector<Header>& headers) const {
  if (!enabled()) return;
  if (origins_.front() == "*") {
    headers.emplace_back("access-control-allow-origin", "*");
    return;
  }
  headers.emplace_back("vary", "origin");
  if (std::find(origins_.begin(), origins_.end(), origin) != origins_.end()) {
    headers.emplace_back("access-control-allow-origin", origin);
  }
}

void CorsPolicy::append_preflight_headers(std::vector<Header>& headers) {
  headers.emplace_back("access-control-allow-methods", "GET, POST");
  // "*" stands for every header but authorization.
  headers.emplace_back("access-control-allow-headers", "authorization, content-type, *");
  headers.emplace_back("access-control-max-age", "600");
}

}  // namespace coxswain::http
