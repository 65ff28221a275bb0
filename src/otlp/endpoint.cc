#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "otlp/collector.h"

namespace coxswain::otlp {
namespace {

constexpr std::string_view kTracesPath = "/v1/traces";

// Host and port, the latter of `fallback` where it has none.
Result<std::string> authority_of(std::string_view text, std::string_view fallback) {
  const std::size_t bracket = text.find(']');  // of an IPv6 address
  const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = text.substr(0, colon);
  std::string_view port = fallback;
  if (colon != std::string_view::npos) port = text.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool whole = error == std::errc() && end == port.data() + port.size() && number > 0;
  const bool plain = host.find_first_of(" @?#\t") == std::string_view::npos;
  if (host.empty() || !plain || !whole)
    return invalid_argument("it has no host, or a port that is none of 1 to 65535");
  return std::string(host) + ":" + std::string(port);
}

}  // namespace

Result<std::string> endpoint_of(const std::string& text, Protocol protocol) {
  std::string_view rest = text;
  std::string_view scheme = "http://";
  if (const std::size_t mark = rest.find("://"); mark != std::string_view::npos) {
    scheme = rest.substr(0, mark + 3);
    rest.remove_prefix(scheme.size());
  }
  if (scheme != "http://" && scheme != "https://")
    return invalid_argument("it begins with neither http:// nor https://");
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const bool grpc = protocol == Protocol::kGrpc;
  COXSWAIN_ASSIGN_OR_RETURN(std::string out,
                            authority_of(rest.substr(0, slash), grpc ? "4317" : "4318"));
  out.insert(0, scheme);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (grpc) {
    if (!path.empty()) return invalid_argument("it has a path, which gRPC has no use for");
    return out;
  }
  out += path;
  if (!path.ends_with(kTracesPath)) out += kTracesPath;
  return out;
}

}  // namespace coxswain::otlp
