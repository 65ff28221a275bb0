#include "http/routes.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace coxswain::http {
namespace {

constexpr std::string_view kAllBelow = "/*";

}  // namespace

void RouteTable::add(std::string method, std::string path, Handler handler) {
  paths_[std::move(path)][std::move(method)] = std::move(handler);
}

const RouteTable::Methods* RouteTable::methods_of(std::string_view path) const {
  if (const auto exact = paths_.find(path); exact != paths_.end()) return &exact->second;
  for (const auto& [route, methods] : paths_) {
    if (!route.ends_with(kAllBelow)) continue;
    const std::string_view folder = std::string_view(route).substr(0, route.size() - 1);
    if (path.size() > folder.size() && path.starts_with(folder)) return &methods;
  }
  return nullptr;
}

const Handler* RouteTable::find(std::string_view path, std::string_view method) const {
  const Methods* methods = methods_of(path);
  if (methods == nullptr) return nullptr;
  const auto handler = methods->find(method == "HEAD" ? "GET" : method);
  return handler == methods->end() ? nullptr : &handler->second;
}

std::string RouteTable::allowed(std::string_view path) const {
  std::string out;
  const Methods* methods = methods_of(path);
  if (methods == nullptr) return out;
  for (const auto& [method, handler] : *methods) {
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
    if (route.first == "/" || route.first.ends_with(kAllBelow)) continue;
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
  headers.emplace_back("access-control-allow-methods", "GET, POST, DELETE");
  // "*" stands for every header but authorization.
  headers.emplace_back("access-control-allow-headers", "authorization, content-type, *");
  headers.emplace_back("access-control-max-age", "600");
}

}  // namespace coxswain::http
